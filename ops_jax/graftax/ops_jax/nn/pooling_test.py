"""Pooling against TensorFlow: padding, layouts, ties, second derivatives, positions."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.nn.avg_pooling import avg_pool, avg_pool_grad
from graftax.ops_jax.nn.max_pooling import max_pool, max_pool_grad_grad_with_argmax, max_pool_grad_with_argmax
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_SAME_3_2 = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
_VALID_2_2 = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
_UNEVEN = {"ksize": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "padding": "SAME"}
_VOLUME = {"ksize": [1, 2, 3, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "SAME"}


def _normal(shape, dtype=np.float32):
  return _RNG.normal(size=shape).astype(dtype)


def _ties(shape, dtype=np.float32):
  return _RNG.integers(0, 3, shape).astype(dtype)


@pytest.mark.parametrize("attrs", [_SAME_3_2, _VALID_2_2, _UNEVEN])
def test_avg_pool(attrs):
  check_raw_op("AvgPool", [_normal((2, 7, 6, 3))], attrs, grad=True, grad_order=2)


@pytest.mark.parametrize("attrs", [_SAME_3_2, _VALID_2_2, _UNEVEN])
@pytest.mark.parametrize("values", [_normal, _ties])
def test_max_pool(attrs, values):
  check_raw_op("MaxPool", [values((2, 7, 6, 3))], attrs, grad=True, grad_order=2)


@pytest.mark.parametrize("op", ["AvgPool", "MaxPool"])
def test_large_windows(op):
  for size in (9, 12):
    attrs = {"ksize": [1, size, size, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    check_raw_op(op, [_normal((1, 12, 12, 2))], attrs, grad=True, vmap=False)
  check_raw_op(op, [_normal((1, 12, 12, 2))], {**attrs, "padding": "SAME"}, grad=True, vmap=False)


@pytest.mark.parametrize("op", ["AvgPool", "MaxPool"])
def test_channels_first(op):
  attrs = {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 1], "padding": "SAME", "data_format": "NCHW"}
  check_raw_op(op, [_normal((2, 3, 7, 6))], attrs)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", ["AvgPool", "MaxPool"])
def test_float_types(op, dtype):
  check_raw_op(op, [_normal((1, 5, 5, 2), dtype)], _SAME_3_2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8])
def test_max_pool_of_integers(dtype):
  check_raw_op("MaxPool", [_RNG.integers(0, 100, (1, 5, 5, 2)).astype(dtype)], _SAME_3_2)


def test_max_pool_with_explicit_padding():
  attrs = {**_SAME_3_2, "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
  check_raw_op("MaxPool", [-1 - np.abs(_normal((1, 5, 6, 2)))], attrs, grad=True)


def test_max_pool_over_channels():
  attrs = {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "SAME"}
  check_raw_op("MaxPool", [_ties((2, 3, 3, 4))], attrs)


def test_max_pool_v2():
  inputs = [_ties((2, 7, 6, 3)), np.array([1, 3, 3, 1], np.int32), np.array([1, 2, 2, 1], np.int32)]
  check_raw_op("MaxPoolV2", inputs, {"padding": "SAME"}, grad=True)


@pytest.mark.parametrize("op", ["AvgPool3D", "MaxPool3D"])
def test_volumes(op):
  check_raw_op(op, [_ties((1, 4, 5, 4, 2))], _VOLUME, grad=True)
  check_raw_op(op, [_normal((1, 4, 5, 4, 2))], _VOLUME, grad=True, grad_order=2)


@pytest.mark.parametrize(
  ("attrs", "shape"), [(_SAME_3_2, (2, 4, 3, 3)), (_VALID_2_2, (2, 3, 3, 3)), (_UNEVEN, (2, 7, 3, 3))]
)
def test_gradient_ops(attrs, shape):
  x, dy = _ties((2, 7, 6, 3)), _normal(shape)
  y = max_pool(x, **{k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()})
  check_raw_op("AvgPoolGrad", [np.array(x.shape, np.int32), dy], attrs, grad=True)
  check_raw_op("MaxPoolGrad", [x, np.asarray(y), dy], attrs, grad=["grad"], vmap=["grad"])
  check_raw_op("MaxPoolGradGrad", [x, np.asarray(y), _normal(x.shape)], attrs, grad=["grad"], vmap=["grad"])
  static = [np.array(attrs["ksize"], np.int32), np.array(attrs["strides"], np.int32)]
  v2 = {"padding": attrs["padding"]}
  check_raw_op("MaxPoolGradV2", [x, np.asarray(y), dy, *static], v2, vmap=["grad"])
  check_raw_op("MaxPoolGradGradV2", [x, np.asarray(y), _normal(x.shape), *static], v2, vmap=["grad"])


def test_gradient_ops_of_volumes():
  # Without ties: TensorFlow's MaxPool3DGrad serves all of several maxima, its MaxPool3DGradGrad the first.
  x = _normal((1, 4, 5, 4, 2))
  y = np.asarray(jax.lax.reduce_window(x, -np.inf, jax.lax.max, _VOLUME["ksize"], _VOLUME["strides"], "SAME"))
  dy = _normal(y.shape)
  check_raw_op("AvgPool3DGrad", [np.array(x.shape, np.int32), dy], _VOLUME)
  check_raw_op("MaxPool3DGrad", [x, y, dy], _VOLUME, grad=["grad"], vmap=["grad"])
  check_raw_op("MaxPool3DGradGrad", [x, y, _normal(x.shape)], _VOLUME, vmap=["grad"])


def test_a_gradient_of_another_shape_raises():
  x = _normal((2, 7, 6, 3))
  check_raw_op_rejects("MaxPoolGrad", [x, x[:, :4, :3], x[:, :4, :4]], _SAME_3_2, match="(2, 4, 3, 3)")
  with pytest.raises(InvalidInputError, match=r"\(2, 4, 3, 3\)"):
    avg_pool_grad(x.shape, x[:, :4, :4], ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="SAME")


@pytest.mark.parametrize("include_batch", [False, True])
@pytest.mark.parametrize("attrs", [_SAME_3_2, _VALID_2_2])
def test_argmax(attrs, include_batch):
  attrs = {**attrs, "include_batch_in_index": include_batch}
  check_raw_op("MaxPoolWithArgmax", [_ties((2, 7, 6, 3))], attrs, grad=True)
  check_raw_op("MaxPoolWithArgmax", [_ties((2, 7, 6, 3))], {**attrs, "Targmax": np.int32}, vmap=False)


def test_gradient_op_with_argmax():
  x, dy = _ties((2, 4, 4, 1)), _normal((2, 2, 2, 1))
  argmax = np.array([0, 2, 9, 10, 5, 6, 12, 15]).reshape(2, 2, 2, 1)
  check_raw_op("MaxPoolGradWithArgmax", [x, dy, argmax], _VALID_2_2, vmap=["grad"])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int32])
def test_padding_never_is_the_maximum(dtype):
  lowest = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
  for x in (np.full((1, 2, 1, 2), lowest, dtype), np.full((2, 3, 3, 1), lowest, dtype)):
    attrs = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    check_raw_op("MaxPoolWithArgmax", [x], attrs, vmap=False)
    if dtype == np.float32:
      grad = _normal(x.shape)
      # MaxPoolGrad needs no output, where TensorFlow's own is the lowest finite number.
      check_raw_op("MaxPoolGrad", [x, np.full_like(x, np.finfo(dtype).min), grad], attrs, vmap=False)


def test_positions_out_of_range_never_count_from_the_end():
  x, grad = np.zeros((2, 2, 2, 1), np.float32), np.ones((2, 1, 1, 1), np.float32)
  bad = np.array([-1, 4]).reshape(2, 1, 1, 1)
  with pytest.raises(InvalidInputError, match="index -1 is not in"):
    max_pool_grad_with_argmax(x, grad, bad)
  assert not jax.jit(max_pool_grad_with_argmax)(x, grad, bad).any()
  assert jnp.isnan(jax.jit(max_pool_grad_grad_with_argmax)(x, x, bad)).all()


def test_pooling_exports_with_symbolic_sizes():
  shape = jax.export.symbolic_shape("b, h, w, 2", constraints=["h >= 4", "w >= 4"])
  for pool in (avg_pool, max_pool):

    def function(x, pool=pool):
      return pool(x, ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="SAME")

    exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, np.float32))
    x = jnp.asarray(_normal((2, 9, 6, 2)))
    np.testing.assert_allclose(exported.call(x), function(x), rtol=1e-6)
