"""Array building against TensorFlow."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.array import creation
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int64, np.uint8, np.bool_, np.complex64)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_fills_match_tensorflow(dtype):
  value = np.ones((), dtype)
  for dims in ([2, 3], [], [0, 2]):
    check_raw_op("Fill", [np.array(dims, np.int32), value], grad=dtype == np.float32)
  x = np.ones((2, 3), dtype)
  for op in ("ZerosLike", "OnesLike"):
    check_raw_op(op, [x])
    check_raw_op(op, [value], vmap=False)


def test_string_fills_match_tensorflow():
  check_raw_op("Fill", [np.array([2], np.int64), np.array(b"ab", object)])
  check_raw_op("ZerosLike", [np.array([b"ab"], object)])
  check_raw_op("Empty", [np.array([2], np.int32)], {"dtype": "string", "init": True}, vmap=False)


def test_large_fills_are_not_constants_of_the_program():
  assert isinstance(creation.fill((100, 100), np.float32(1)), jax.Array)
  assert isinstance(creation.fill((10,), np.float32(1)), np.ndarray)
  assert isinstance(creation.one_hot(np.arange(100), 100, np.float32(1), np.float32(0)), jax.Array)
  assert isinstance(creation.range_(np.array(0), np.array(10000), np.array(1)), jax.Array)


def test_initialized_empty_is_zero():
  check_raw_op("Empty", [np.array([2, 0, 3], np.int32)], {"dtype": np.float32, "init": True})
  check_raw_op("Empty", [np.array([70, 70], np.int32)], {"dtype": np.float32, "init": True})
  assert isinstance(creation.empty((2,), dtype=np.dtype(np.int32)), np.ndarray)  # so that it can be a shape


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("bounds", [(0, 10, 1), (3, 18, 4), (10, 0, -3), (5, 5, 1), (-3, 3, 2)])
def test_ranges_match_tensorflow(dtype, bounds):
  check_raw_op("Range", [np.array(b, dtype) for b in bounds])


def test_fractional_ranges_match_tensorflow():
  for start, limit, delta in ((0.0, 100.0, 0.1), (5.0, 0.0, -0.3), (0.0, 1.0, 0.1), (0.0, 1.0, 0.3)):
    for dtype in (np.float32, np.float64):
      check_raw_op("Range", [dtype(start), dtype(limit), dtype(delta)])
  check_raw_op("Range", [np.int32(0), np.int32(10000), np.int32(2)])


def test_impossible_ranges_raise():
  check_raw_op_rejects("Range", [np.int32(0), np.int32(5), np.int32(0)], match="must not be 0")
  check_raw_op_rejects("Range", [np.int32(0), np.int32(5), np.int32(-1)], match="beyond")


def test_a_range_up_to_a_symbolic_dimension_can_be_exported():
  (n,) = jax.export.symbolic_shape("n")

  def positions(x):
    return creation.range_(np.array(1), np.array(x.shape[0], object), np.array(2))

  exported = jax.export.export(jax.jit(positions))(jax.ShapeDtypeStruct((n,), np.float32))
  np.testing.assert_array_equal(exported.call(jnp.zeros(8)), [1, 3, 5, 7])
  np.testing.assert_array_equal(exported.call(jnp.zeros(3)), [1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num", [1, 2, 7])
def test_linear_spaces_match_tensorflow(dtype, num):
  check_raw_op("LinSpace", [dtype(-1.0), dtype(2.5), np.int32(num)])


def test_a_linear_space_starts_and_ends_exactly_even_if_the_step_overflows():
  check_raw_op("LinSpace", [np.float32(-3e38), np.float32(3e38), np.int32(2)], vmap=False)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_vectors_match_tensorflow(axis):
  indices = np.array([[0, 2], [-1, 5]], np.int32)
  for dtype in (np.float32, np.int32, np.bool_, np.complex64):
    check_raw_op(
      "OneHot", [indices, np.int32(3), np.ones((), dtype), np.zeros((), dtype)], {"axis": axis}, vmap=("indices",)
    )
  for dtype in (np.uint8, np.int64, np.int8):
    check_raw_op("OneHot", [np.array(1, dtype), np.int32(3), np.float32(5), np.float32(-1)], vmap=False)
  check_raw_op("OneHot", [indices[:0], np.int32(3), np.float32(5), np.float32(-1)], {"axis": axis}, vmap=False)


def test_one_hot_vectors_longer_than_the_type_of_the_indices_counts():
  for index in (np.uint8(5), np.int8(-3), np.uint8(255)):
    check_raw_op("OneHot", [np.array([index, 7], index.dtype), np.int32(300), np.float32(1), np.float32(0)], vmap=False)


def test_known_one_hot_vectors_of_strings():
  case = raw_op("OneHot", [np.array([1], np.int32), np.int32(2), np.array(b"on", object), np.array(b"off", object)])
  (result,) = case.run(*case.dynamic_inputs)
  assert result.tolist() == [[b"off", b"on"]]


def test_constants_are_known():
  value = np.array([1, 2], np.int32)
  assert creation.const(value=value) is value
