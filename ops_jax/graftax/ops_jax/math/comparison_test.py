"""Comparisons and logic against TensorFlow, and on symbolic dimensions."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.math import comparison
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_ORDER = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
_EDGES = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("op", _ORDER)
def test_order_matches_tensorflow_for_every_dtype(op):
  for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64):
    x = np.array([[0, 1, 5], [2, 7, 3]]).astype(dtype)
    check_raw_op(op, [x, np.array([[1], [7]]).astype(dtype)], vmap=dtype == np.float32, jit=dtype == np.float32)
  x, y = (a.ravel() for a in np.meshgrid(_EDGES, _EDGES))
  check_raw_op(op, [x, y], vmap=False)
  check_raw_op(op, [np.zeros((0, 2), np.float32), np.float32(1)], vmap=False)
  check_raw_op(op, [np.float32(1), np.float32(1)], vmap=False)


@pytest.mark.parametrize("op", ["Equal", "NotEqual"])
def test_equality_of_other_dtypes_matches_tensorflow(op):
  check_raw_op(op, [np.array([True, False]), np.array([True, True])])
  check_raw_op(op, [np.array([1j, 2]), np.array([1j, 2j])])
  check_raw_op(op, [np.array([b"a", b"b"], object), np.array(b"a", object)])


@pytest.mark.parametrize("op", ["Equal", "NotEqual"])
def test_shapes_that_do_not_broadcast(op):
  x, y = np.ones(2, np.float32), np.ones(3, np.float32)
  check_raw_op(op, [x, y], {"incompatible_shape_error": False}, vmap=False)
  check_raw_op_rejects(op, [x, y], {"incompatible_shape_error": True}, match="do not broadcast")


@pytest.mark.parametrize("op", ["IsNan", "IsInf", "IsFinite"])
def test_classes_of_numbers_match_tensorflow(op):
  for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
    check_raw_op(op, [np.array(_EDGES, dtype)], vmap=dtype == np.float32)


@pytest.mark.parametrize("op", ["LogicalAnd", "LogicalOr"])
def test_logic_matches_tensorflow(op):
  check_raw_op(op, [np.array([True, True, False, False]), np.array([True, False, True, False])])
  check_raw_op("LogicalNot", [np.array([True, False])])


def test_approximate_equal_matches_tensorflow():
  x = np.array([1.0, 1.0, np.nan, 3.0], np.float32)
  check_raw_op("ApproximateEqual", [x, np.array([1.05, 1.2, np.nan, 3.0], np.float32)], {"tolerance": 0.1})


def test_truth_of_scalars_and_arrays():
  for value in (np.float32(0), np.float32(0.5), np.int32(3), np.array(True), np.zeros((0, 2), np.int32), np.zeros(2)):
    assert bool(comparison.to_bool(np.asarray(value))) == (bool(value) if np.ndim(value) == 0 else np.size(value) > 0)
  assert not comparison.to_bool(np.array(b"", object))
  assert comparison.to_bool(jnp.zeros((1, 2)))


def test_symbolic_dimensions_are_compared_now_where_they_can_be_and_at_run_time_elsewhere():
  n, m = jax.export.symbolic_shape("n, m")
  dims = np.array([n, 3], object)
  np.testing.assert_array_equal(comparison.equal(dims, dims), [True, True])
  np.testing.assert_array_equal(comparison.greater(dims, np.int32(0)), [True, True])
  exported = jax.export.export(jax.jit(lambda x: comparison.equal(np.array([x.shape[0]], object), np.int32(4))))(
    jax.ShapeDtypeStruct((n,), np.float32)
  )
  assert bool(exported.call(jnp.zeros(4))[0])
  assert not bool(exported.call(jnp.zeros(5))[0])


def test_approximate_equality_includes_the_tolerance():
  x, y = np.array([-0.5, 0, 0], np.float32), np.array([1.5, 2, 2.25], np.float32)
  check_raw_op("ApproximateEqual", [x, y], {"tolerance": 2.0})
