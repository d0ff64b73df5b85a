"""Reductions against TensorFlow: axes, dtypes, no elements, NaN, ties."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.math import reduction
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_SMOOTH = ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm")
_X = np.array([[[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]], [[-0.5, 2.5, 1.0], [4.0, -3.5, 0.75]]])


@pytest.mark.parametrize("op", _SMOOTH)
@pytest.mark.parametrize("axes", [[0], [-1], [0, 2], [], [1, 0, 2], 1])
def test_axes_match_tensorflow(op, axes):
  for keep_dims in (False, True):
    check_raw_op(op, [_X, np.array(axes, np.int32)], {"keep_dims": keep_dims}, grad=not keep_dims, vmap=keep_dims)


@pytest.mark.parametrize("op", _SMOOTH)
def test_dtypes_match_tensorflow(op):
  for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
    check_raw_op(op, [_X.astype(dtype), np.array([0, 1], np.int64)], vmap=False)
  for dtype in (np.int32, np.int64, np.int8, np.uint8):
    if op == "EuclideanNorm" and dtype in (np.int8, np.uint8):
      continue
    check_raw_op(op, [np.abs(_X * 3).astype(dtype), np.array([0, 1], np.int32)], vmap=False)
  if op not in ("Max", "Min"):
    check_raw_op(op, [_X + 1j * _X[::-1], np.array([1], np.int32)], vmap=False, grad=op in ("Sum", "Mean", "Prod"))


@pytest.mark.parametrize("op", _SMOOTH)
def test_no_elements_match_tensorflow(op):
  for dtype in (np.float32, np.int32):
    check_raw_op(op, [np.zeros((0, 3), dtype), np.array([0], np.int32)], vmap=False)
    check_raw_op(op, [np.zeros((0, 3), dtype), np.array([1], np.int32)], vmap=False)
    check_raw_op(op, [np.array(3, dtype), np.zeros(0, np.int32)], vmap=False)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean", "Prod"])
def test_nan_and_infinity_match_tensorflow(op):
  x = np.array([[np.nan, 1.0, 2.0], [1.0, np.nan, 2.0], [np.inf, 1.0, -np.inf], [-np.inf, -np.inf, 0.0]], np.float32)
  check_raw_op(op, [x, np.array([1], np.int32)], vmap=False)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_ties_share_the_derivative(op):
  check_raw_op(op, [np.array([[1.0, 2.0, 2.0, 1.0]], np.float64), np.array([1], np.int32)], grad=True, grad_order=2)


def test_products_with_zeros_have_tensorflows_derivative():
  x = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0]], np.float64)
  check_raw_op("Prod", [x, np.array([1], np.int32)], grad=True)


def test_integer_means_round_towards_zero_without_overflow():
  check_raw_op("Mean", [np.array([100, 101, 104], np.int8), np.array([0], np.int32)])
  check_raw_op("Mean", [np.array([-3, -4], np.int32), np.array([0], np.int32)])


@pytest.mark.parametrize("op", ["All", "Any"])
def test_booleans_match_tensorflow(op):
  x = np.array([[True, False], [True, True], [False, False]])
  for axes in ([0], [1], [0, 1], []):
    check_raw_op(op, [x, np.array(axes, np.int32)], {"keep_dims": axes == [1]})
  check_raw_op(op, [np.zeros((0, 2), bool), np.array([0], np.int32)], vmap=False)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_positions_of_extrema_match_tensorflow(op):
  for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.uint8):
    x = np.array([[3, 1, 3], [1, 1, 5], [0, 7, 7]]).astype(dtype)
    check_raw_op(op, [x, np.int32(-1)], {"output_type": np.int32}, vmap=dtype == np.float32, jit=dtype == np.float32)
  check_raw_op(op, [np.array([[True, False], [False, True]]), np.int32(0)])
  x = np.array([[np.nan, 1, 3, np.nan, 1], [1, np.nan, 3, np.nan, 3], [np.nan] * 5, [-np.inf, 0, np.inf, 0, 0]])
  check_raw_op(op, [x.astype(np.float32), np.int32(1)], {"output_type": np.int64})
  check_raw_op_rejects(op, [np.zeros((2, 0), np.float32), np.int32(1)], match="is empty")


def test_position_dtypes_match_tensorflow():
  for dtype in (np.int16, np.uint16, np.int32, np.int64):
    check_raw_op("ArgMax", [np.array([1.0, 3.0, 2.0], np.float32), np.int32(0)], {"output_type": dtype})


@pytest.mark.parametrize("op", _SMOOTH)
def test_axes_out_of_range_raise(op):
  check_raw_op_rejects(op, [_X, np.array([3], np.int32)], match="out of range")
  check_raw_op_rejects(op, [_X, np.array([0, -3], np.int32)], match="twice")


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_means_of_integers_have_exact_sums(dtype, x64):
  info = np.iinfo(dtype)
  rng = np.random.default_rng(0)
  for x in (
    np.array([[info.max, info.min], [info.max, info.min], [info.max - 3, info.min + 1]], dtype),
    rng.integers(info.min, info.max, (70000, 2), dtype, endpoint=True),
    rng.integers(info.max - 5, info.max, (70000, 2), dtype, endpoint=True),
  ):
    with jax.enable_x64(x64):
      case = raw_op("Mean", [x, np.array([0], np.int32)])
      (got,) = jax.jit(case.run)(x)
      assert got.dtype == dtype
      np.testing.assert_array_equal(got, case.oracle(case.inputs)[0])
      (kept,) = jax.vmap(raw_op("Mean", [x, np.array([0], np.int32)], {"keep_dims": True}).run)(jnp.asarray(x[None]))
      np.testing.assert_array_equal(kept[0, 0], got)


def test_products_and_extrema_of_symbolic_dimensions_stay_known():
  n, m = jax.export.symbolic_shape("n, m")
  dims = np.array([n, 4, m], object)
  assert reduction.prod(dims, (0,)).item() == 4 * n * m
  assert reduction.sum_(dims, (0,)).item() == n + m + 4
  assert isinstance(reduction.prod(dims, (0,)), np.ndarray)
  assert reduction.max_(np.array([n, m], object), (0,)).item() == jax.core.max_dim(n, m)
  assert isinstance(reduction.prod(np.array([2, 3], np.int32), (0,)), (np.ndarray, np.generic))
