"""Padding against TensorFlow."""

import numpy as np
import pytest

from graftax.ops_jax.array.padding import pad
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_X = np.arange(6, dtype=np.float32).reshape(2, 3)
_PADDINGS = np.array([[1, 0], [2, 1]], np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, np.uint8])
def test_constant_padding_matches_tensorflow(dtype):
  x = _X.astype(dtype)
  check_raw_op("Pad", [x, _PADDINGS], grad=dtype == np.float32)
  check_raw_op("PadV2", [x, _PADDINGS, np.ones((), dtype)], grad=("input",) if dtype == np.float32 else False)


def test_padding_of_edges_matches_tensorflow():
  check_raw_op("Pad", [np.float32(1), np.zeros((0, 2), np.int32)], vmap=False)
  check_raw_op("Pad", [np.zeros((0, 3), np.float32), _PADDINGS.astype(np.int64)])
  check_raw_op_rejects("Pad", [_X, -_PADDINGS], match="must not be negative")
  check_raw_op_rejects("Pad", [_X, _PADDINGS[:1]], match="must have shape")


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_mirrored_padding_matches_tensorflow(mode):
  for paddings in ([[1, 0], [2, 1]], [[0, 0], [0, 2]], [[1, 1], [2, 2]]):
    check_raw_op("MirrorPad", [_X, np.array(paddings, np.int32)], {"mode": mode}, grad=True)
  check_raw_op("MirrorPad", [_X.astype(np.int32), _PADDINGS], {"mode": mode}, vmap=False)
  check_raw_op("MirrorPad", [np.float32(1), np.zeros((0, 2), np.int32)], {"mode": mode}, vmap=False)
  check_raw_op_rejects("MirrorPad", [_X, np.array([[0, 0], [0, 4]], np.int32)], {"mode": mode}, match="too large")


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_gradient_of_mirrored_padding_matches_tensorflow(mode):
  for dtype in (np.float32, np.float64):
    dy = np.arange(30, dtype=dtype).reshape(5, 6)
    check_raw_op("MirrorPadGrad", [dy, np.array([[1, 0], [2, 1]], np.int32)], {"mode": mode}, grad=True)


def test_a_known_shape_vector_is_padded_with_numpy():
  assert pad(np.array([3, 4], np.int32), np.array([[1, 0]])).tolist() == [0, 3, 4]
