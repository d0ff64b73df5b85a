"""Segment reductions against TensorFlow: empty segments, ties, zeros, ids out of range."""

import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.math import segment
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_X = np.array([[1.5, -2.0], [3.0, 0.5], [1.5, 4.0], [-1.0, 0.25], [2.0, 2.0]])
_SORTED = np.array([0, 0, 2, 2, 4], np.int32)
_UNSORTED = np.array([2, 0, -1, 0, 4], np.int64)
_KINDS = ("Sum", "Prod", "Max", "Min")


@pytest.mark.parametrize("kind", [*_KINDS, "Mean"])
def test_sorted_segments_match_tensorflow(kind):
  op = f"Segment{kind}"
  check_raw_op(op, [_X, _SORTED], grad=kind != "Prod")
  check_raw_op(op, [_X.astype(np.float32), _SORTED.astype(np.int64)])
  check_raw_op(op, [(_X * 3).astype(np.int32), _SORTED], vmap=False)
  check_raw_op(op, [_X[:0], _SORTED[:0]], vmap=False)
  check_raw_op(op, [_X[:, 0].copy(), _SORTED], vmap=False)
  check_raw_op_rejects(op, [_X, _SORTED[:3]], match="does not fit")
  check_raw_op_rejects(op, [_X, _SORTED - 1], match="sorted and not negative")


@pytest.mark.parametrize("kind", _KINDS)
def test_unsorted_segments_match_tensorflow(kind):
  op = f"UnsortedSegment{kind}"
  check_raw_op(op, [_X, _UNSORTED, np.int32(6)], grad=True)
  check_raw_op(op, [_X.astype(np.float32), _UNSORTED, np.int32(6)])
  check_raw_op(op, [(_X * 3).astype(np.int64), _UNSORTED, np.int32(6)], vmap=False)
  ids = np.arange(10, dtype=np.int32).reshape(5, 2) % 3
  check_raw_op(op, [_X, ids, np.int64(3)], grad=True)
  check_raw_op(op, [_X[:0], _UNSORTED[:0], np.int32(2)], vmap=False)


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_ties_share_the_derivative(kind):
  x = np.array([1.0, 2.0, 2.0, 1.0])
  check_raw_op(f"UnsortedSegment{kind}", [x, np.array([0, 0, 0, 0], np.int32), np.int32(1)], grad=True, grad_order=2)
  check_raw_op(f"Segment{kind}", [x, np.array([0, 0, 0, 0], np.int32)], grad=True)


def test_products_with_zeros_have_tensorflows_derivative():
  x = np.array([0.0, 2.0, 3.0, 0.0, 0.0, 5.0])
  ids = np.array([0, 0, 0, 1, 1, 1], np.int32)
  check_raw_op("UnsortedSegmentProd", [x, ids, np.int32(2)], grad=True)


@pytest.mark.parametrize("kind", _KINDS)
def test_ids_out_of_range_raise_when_known_and_left_out_when_traced(kind):
  ids = np.array([0, 7, 1, 1, 0], np.int32)
  case = raw_op(f"UnsortedSegment{kind}", [_X, ids, np.int32(2)], static=("segment_ids",))
  with pytest.raises(ValueError, match="is not below"):
    case.run(_X)
  run = getattr(segment, f"unsorted_segment_{kind.lower()}")
  np.testing.assert_allclose(run(_X, jnp.asarray(ids), 2), run(_X, np.where(ids == 7, -1, ids), 2))


@pytest.mark.parametrize(
  ("kind", "expected"),
  [("sum", [3, 0, 3, 0]), ("prod", [2, 1, 3, 1]), ("max", [2, None, 3, None]), ("min", [1, None, 3, None])],
)
def test_sorted_segments_with_a_given_number(kind, expected):
  # TensorFlow has no CPU kernel for these; its XLA kernels share the unsorted ones.
  result = getattr(segment, f"segment_{kind}_v2")(np.array([1.0, 2, 3], np.float32), np.array([0, 0, 2]), 4)
  extreme = np.finfo(np.float32).min if kind == "max" else np.finfo(np.float32).max
  np.testing.assert_array_equal(result, [extreme if e is None else e for e in expected])


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_infinite_rows_match_tensorflow(kind):
  # The sorted ops know infinities; the unsorted ones start at the extreme finite number.
  x = np.array([-np.inf, np.inf, 1.0], np.float32)
  check_raw_op(f"Segment{kind}", [x, np.array([0, 1, 3], np.int32)], vmap=False)
  check_raw_op(f"UnsortedSegment{kind}", [x, np.array([0, 1, 3], np.int32), np.int32(5)], vmap=False)
