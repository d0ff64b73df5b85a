"""Bits of integers against TensorFlow, shifts out of range included."""

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.values import is_known
from graftax.ops_jax.math.bitwise import left_shift, right_shift
from graftax.testing.raw_ops import check_raw_op

_DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_bits_match_tensorflow(dtype):
  info = np.iinfo(dtype)
  x = np.array([info.min, info.max, 0, 1, 100, 85], dtype)
  y = np.array([3, info.max, 5, 0, 7, 51], dtype)
  for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    check_raw_op(op, [x, y], vmap=False)
  for op in ("Invert", "PopulationCount"):
    check_raw_op(op, [x], vmap=False)


@pytest.mark.parametrize("op", ["LeftShift", "RightShift"])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_shifts_are_clamped_like_tensorflow(op, dtype):
  info = np.iinfo(dtype)
  y = [0, 1, 7, info.bits - 1, info.bits, 100]
  if info.min < 0:
    y[-1] = -1
  x = np.array([info.max, 1, 100, 3, info.max, 5], dtype)
  check_raw_op(op, [x, np.array(y, dtype)], vmap=dtype == np.int32)
  if info.min < 0:
    check_raw_op(op, [-x, np.array(y, dtype)], vmap=False)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_shifts_of_known_numbers_are_known_under_jit(dtype):
  x = np.array([16, 5, 64], dtype)
  found = []
  jax.jit(lambda: found.extend(shift(x, np.array([2, 1, 0], dtype)) for shift in (left_shift, right_shift)))()
  assert all(is_known(shifted) and shifted.dtype == dtype for shifted in found)
  np.testing.assert_array_equal(found, [[64, 10, 64], [4, 2, 64]])
