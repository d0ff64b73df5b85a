"""Distributions of the random ops that have no stream in common with TensorFlow."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax import lowering
from graftax.testing.raw_ops import NodeContext

scipy_stats = pytest.importorskip("scipy.stats")

_SIZE = 4000


def _draw(op, *args, seed=0, **attrs):
  attrs = {k: np.dtype(v) if k.endswith("dtype") else v for k, v in attrs.items()}
  return lowering(op).function(NodeContext(key=jax.random.key(seed)), *args, **attrs)


def _fits(numbers, distribution):
  assert scipy_stats.kstest(np.asarray(numbers, np.float64).ravel(), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("op", ["RandomUniform", "RandomStandardNormal", "TruncatedNormal"])
def test_continuous_numbers(op, dtype):
  with jax.enable_x64(True):
    numbers = _draw(op, (_SIZE,), dtype=dtype)
  assert numbers.dtype == dtype
  expected = {"RandomUniform": scipy_stats.uniform(), "RandomStandardNormal": scipy_stats.norm()}
  if np.dtype(dtype).itemsize > 2:
    _fits(numbers, expected.get(op, scipy_stats.truncnorm(-2, 2)))
  assert np.all(np.abs(np.asarray(numbers, np.float64)) <= (2 if op == "TruncatedNormal" else 6))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(dtype):
  with jax.enable_x64(True):
    numbers = np.asarray(_draw("RandomUniformInt", (_SIZE,), np.array(-3, dtype), np.array(5, dtype)))
  assert numbers.dtype == dtype
  assert scipy_stats.chisquare(np.bincount(numbers + 3, minlength=8)).pvalue > 1e-3


def test_shuffle_keeps_rows_together():
  value = np.arange(40, dtype=np.int32).reshape(20, 2)
  shuffled = np.asarray(_draw("RandomShuffle", value))
  assert not np.array_equal(shuffled, value)
  np.testing.assert_array_equal(shuffled[np.argsort(shuffled[:, 0])], value)
  assert _draw("RandomShuffle", np.float32(3)) == 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_classes(dtype):
  logits = np.array([[0, 1, 2], [3, 0, 0]]).astype(dtype)
  classes = np.asarray(_draw("Multinomial", logits, _SIZE, output_dtype=np.int32))
  assert classes.shape == (2, _SIZE)
  for row, logit in zip(classes, logits.astype(np.float64), strict=True):
    expected = np.exp(logit) / np.exp(logit).sum() * _SIZE
    assert scipy_stats.chisquare(np.bincount(row, minlength=3), expected).pvalue > 1e-3


def test_gamma_and_its_gradient():
  numbers = np.asarray(_draw("RandomGamma", (_SIZE,), np.array([0.5, 4.0], np.float32)))
  assert numbers.shape == (_SIZE, 2)
  _fits(numbers[:, 0], scipy_stats.gamma(0.5))
  _fits(numbers[:, 1], scipy_stats.gamma(4.0))
  # The mean of the distribution is alpha, so the mean derivative is 1.
  slope = jax.grad(lambda alpha: _draw("RandomGamma", (_SIZE,), alpha).mean())(np.float32(3))
  np.testing.assert_allclose(slope, 1, atol=0.1)


@pytest.mark.parametrize(("rate", "dtype"), [(np.float32, np.float32), (np.float64, np.int64), (np.int32, np.int32)])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_poisson(rate, dtype, impl):
  rates = np.array([3, 40]).astype(rate)
  context = NodeContext(key=jax.random.key(0, impl=impl))
  with jax.enable_x64(True):
    numbers = np.asarray(lowering("RandomPoissonV2").function(context, (_SIZE,), rates, dtype=np.dtype(dtype)))
  assert (numbers.dtype, numbers.shape) == (dtype, (_SIZE, 2))
  for column, mean in zip(numbers.T, (3, 40), strict=True):
    assert abs(column.mean() - mean) < 5 * np.sqrt(mean / _SIZE)
    assert abs(column.var() / mean - 1) < 0.15


def test_parameterized_truncated_normal():
  parameters = [np.array(p, np.float32) for p in ([0, 5], [1, 2], [-1, 6], [0.5, 20])]
  numbers = np.asarray(_draw("ParameterizedTruncatedNormal", (2, _SIZE), *parameters, dtype=np.float32))
  _fits(numbers[0], scipy_stats.truncnorm(-1, 0.5))
  _fits(numbers[1], scipy_stats.truncnorm(0.5, 7.5, loc=5, scale=2))
  scalars = [np.float32(p) for p in (1, 1, 0, 3)]
  _fits(
    _draw("ParameterizedTruncatedNormal", (_SIZE,), *scalars, dtype=np.float32), scipy_stats.truncnorm(-1, 2, loc=1)
  )


def test_crop_is_a_window():
  image = np.arange(60, dtype=np.int32).reshape(5, 6, 2)
  window = np.asarray(_draw("RandomCrop", image, (2, 3)))
  top, left = divmod(window[0, 0, 0] // 2, 6)
  np.testing.assert_array_equal(window, image[top : top + 2, left : left + 3])


def test_keys_tell_nodes_apart():
  one, two = (_draw("RandomUniform", (8,), seed=s, dtype=np.float32) for s in (0, 1))
  assert not np.array_equal(one, two)
