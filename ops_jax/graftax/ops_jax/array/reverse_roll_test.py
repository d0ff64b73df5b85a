"""Reversal and rotation against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axes", [[], [0], [-1], [0, 2]])
def test_reversal_matches_tensorflow(axes):
  check_raw_op("ReverseV2", [_X, np.array(axes, np.int32)], grad=True)
  check_raw_op("ReverseV2", [_X.astype(np.int8), np.array(axes, np.int64)], vmap=False)
  dims = np.array([i in axes for i in range(3)])
  check_raw_op("Reverse", [_X, dims], grad=True)


def test_reversal_of_edges_matches_tensorflow():
  check_raw_op("ReverseV2", [np.zeros((0, 3), np.float32), np.array([0], np.int32)])
  check_raw_op("ReverseV2", [np.array([b"a", b"b"], object), np.array([0], np.int32)])
  check_raw_op_rejects("ReverseV2", [_X, np.array([3], np.int32)], match="out of range")
  check_raw_op_rejects("Reverse", [_X, np.array([True])], match="one entry for each")


@pytest.mark.parametrize(("seq_dim", "batch_dim"), [(1, 0), (0, 1), (2, 0), (0, 2)])
def test_reversed_sequences_match_tensorflow(seq_dim, batch_dim):
  lengths = np.arange(_X.shape[batch_dim]) % (_X.shape[seq_dim] + 1)
  attrs = {"seq_dim": seq_dim, "batch_dim": batch_dim}
  for dtype in (np.int32, np.int64):
    check_raw_op("ReverseSequence", [_X, lengths.astype(dtype)], attrs, grad=True)
  check_raw_op_rejects("ReverseSequence", [_X, lengths[:1].astype(np.int32)], attrs, match="does not fit")


@pytest.mark.parametrize(("shift", "axis"), [(1, 0), (-2, 1), ([1, 2], [0, 2]), ([1, 2], [1, 1]), (7, -1), ([0], [0])])
def test_rotation_matches_tensorflow(shift, axis):
  shift, axis = np.array(shift, np.int32), np.array(axis, np.int32)
  check_raw_op("Roll", [_X, shift, axis], grad=True)
  check_raw_op("Roll", [_X, shift, axis], static=("shift",))
