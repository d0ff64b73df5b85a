"""Clipping against TensorFlow."""

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op


@pytest.mark.parametrize(
  "dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.uint8]
)
def test_clip_matches_tensorflow_on_its_bounds(dtype):
  t = np.array([0, 1, 2, 3, 4, 5], dtype)
  is_float = dtype in (np.float32, np.float64)
  check_raw_op("ClipByValue", [t, dtype(1), dtype(3)], grad=is_float, vmap=("t",))
  check_raw_op("ClipByValue", [t, np.full_like(t, 2), t[::-1].copy()], grad=is_float)


def test_clip_matches_tensorflow_on_nan_and_crossed_bounds():
  t = np.array([np.nan, 1.0, 5.0, 2.5, np.inf, -np.inf], np.float32)
  for low, high in ((2.0, 3.0), (np.nan, 3.0), (2.0, np.nan), (3.0, 2.0)):
    check_raw_op("ClipByValue", [t, np.float32(low), np.float32(high)], vmap=False)


def test_clip_of_complex_numbers_clips_both_parts():
  t = np.array([1 + 2j, 3 - 1j, -2 + 0j, 5j], np.complex64)
  check_raw_op("ClipByValue", [t, np.complex64(1j), np.complex64(2)], vmap=("t",))
  check_raw_op("ClipByValue", [t, np.complex64(1j), np.complex64(2 - 3j)], vmap=("t",))
