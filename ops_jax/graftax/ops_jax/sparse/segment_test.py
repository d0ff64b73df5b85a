"""Segment reductions of selected rows against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_X = np.arange(12, dtype=np.float32).reshape(4, 3)
_INDICES = np.array([0, 2, 1, 2], np.int32)
_IDS = np.array([0, 0, 2, 3], np.int32)
_KINDS = ("Sum", "Mean", "SqrtN")


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions_match_tensorflow(kind, dtype):
  x = _X.astype(dtype)
  check_raw_op(f"SparseSegment{kind}", [x, _INDICES, _IDS], grad=True)
  check_raw_op(f"SparseSegment{kind}", [x, _INDICES[:0], _IDS[:0]], vmap=False)
  check_raw_op(f"SparseSegment{kind}WithNumSegments", [x, _INDICES, _IDS, np.int32(6)], grad=True, vmap=("data",))


def test_integer_sums_match_tensorflow():
  check_raw_op("SparseSegmentSum", [_X.astype(np.int32), _INDICES, _IDS], vmap=False)


@pytest.mark.parametrize("kind", _KINDS)
def test_gradients_match_tensorflow(kind):
  check_raw_op(f"SparseSegment{kind}Grad", [_X, _INDICES, _IDS, np.int32(5)], vmap=("grad",))
  # Without any entry TensorFlow returns memory that it has not written to.
  case = raw_op(f"SparseSegment{kind}Grad", [_X, _INDICES[:0], _IDS[:0], np.int32(5)])
  np.testing.assert_array_equal(case.run(*case.dynamic_inputs)[0], np.zeros((5, 3)))


@pytest.mark.parametrize("kind", _KINDS)
def test_unsorted_ids_raise(kind):
  check_raw_op_rejects(f"SparseSegment{kind}", [_X, _INDICES, _IDS[::-1].copy()], match="sorted")
