"""Casts against TensorFlow for every pair of dtypes, and where the number does not fit."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.array.cast import cast
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
_FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_ALL = (*_INTEGERS, *_FLOATS, np.bool_, np.complex64, np.complex128)
_OUT_OF_RANGE = [np.nan, np.inf, -np.inf, 1e10, -1e10, 3e9, -3e9, 2.0**31, -(2.0**31), 1e19, 2e19, -1e19]


@pytest.mark.parametrize("source", _ALL)
def test_every_pair_of_dtypes_matches_tensorflow(source):
  x = np.array([0, 1, 2, 100, 3.75, 0.5]).astype(source)
  for target in _ALL:
    check_raw_op("Cast", [x], {"DstT": target}, vmap=False, jit=target in (np.float32, np.int32))


@pytest.mark.parametrize("source", [np.int32, np.int64, np.int8])
def test_integers_wrap_like_tensorflow(source):
  info = np.iinfo(source)
  x = np.array([info.min, -1, 0, 1, 127, info.max], source)
  for target in _ALL:
    check_raw_op("Cast", [x], {"DstT": target}, vmap=False, jit=False)


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("target", [np.int32, np.int64, np.uint64])
def test_numbers_that_do_not_fit_match_tensorflow(source, target):
  check_raw_op("Cast", [np.array([*_OUT_OF_RANGE, -1.5, 1.5, 2.5, -300.0], source)], {"DstT": target})


@pytest.mark.parametrize("target", [np.int8, np.uint8, np.int16, np.uint16, np.uint32])
def test_numbers_that_do_not_fit_match_tensorflows_scalar_path(target):
  # On vectors TensorFlow's result depends on the position; one element at a time it does not.
  for value in (*_OUT_OF_RANGE[:3], 1e19, -1.5, 300.0, -300.0, 255.0, 65536.0):
    if target == np.uint32 and 2**32 < abs(value) < 2**63:
      continue
    check_raw_op("Cast", [np.array(value, np.float32)], {"DstT": target}, vmap=False, jit=False)


def test_complex_numbers_are_true_where_their_real_part_is():
  check_raw_op("Cast", [np.array([1j, 0, 1, 2j, 3 - 1j], np.complex64)], {"DstT": np.bool_}, vmap=False)


def test_gradient_is_cast_back():
  x = np.array([0.5, -1.5], np.float32)
  for target in (np.float64, np.float16, ml_dtypes.bfloat16, np.complex64):
    check_raw_op("Cast", [x], {"DstT": target}, grad=True, vmap=False)
  check_raw_op("Cast", [x.astype(np.complex64)], {"DstT": np.float32}, grad=True, vmap=False)


def test_truncation_drops_the_low_bits():
  x = np.array([1.0078124, -1.0078124, 3.1415926], np.float32)
  for target in (ml_dtypes.bfloat16, np.float16):
    for truncate in (False, True):
      check_raw_op("Cast", [x], {"DstT": target, "Truncate": truncate}, vmap=False)


def test_symbolic_dimensions_stay_known_as_integers():
  (n,) = jax.export.symbolic_shape("n")
  dims = np.array([n, 2], object)
  assert cast(dims, DstT=np.dtype(np.int64)) is dims


@pytest.mark.parametrize(
  ("x", "target"),
  [
    (np.array([1.5, -2.5], np.float32), np.int32),
    (np.array([1.5, -2.5], np.float32), np.uint8),
    (np.array([1.5, -2.5], np.float64), np.float32),
    (np.array([[1, 2], [3, 4]], np.int32), np.int64),
    (np.array([[1, 2, 3, 4]], np.uint8), np.float32),
    (np.array([1 + 2j], np.complex64), np.float32),
    (np.array([1 + 2j], np.complex64), np.float64),
    (np.array([1 + 2j], np.complex64), np.uint8),
    (np.array([1 + 2j], np.complex128), np.complex64),
    (np.array([1 + 2j, 3], np.complex64), np.complex128),
    (np.arange(8, dtype=np.uint8), np.complex64),
    (np.array([[1.0, 2.0]], np.float32), np.complex64),
    (np.array([1.0, 2.0], np.float64), np.complex64),
    (np.array([1, -1], np.int8), np.uint8),
    (np.zeros((0, 3), np.int32), np.float32),
    (np.array(7, np.int32), np.int8),
    (np.array([1.5], ml_dtypes.bfloat16), np.uint16),
  ],
)
def test_bits_match_tensorflow(x, target):
  check_raw_op("Bitcast", [x], {"type": target}, vmap=False, without_x64=False)


def test_bits_that_do_not_divide_raise():
  check_raw_op_rejects("Bitcast", [np.zeros((2, 3), np.uint8)], {"type": np.float32}, match="must be 4")
