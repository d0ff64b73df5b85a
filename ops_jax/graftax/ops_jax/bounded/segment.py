"""Reductions of rows by segment: UnsortedSegmentSum, SegmentSum, SparseSegmentSum. Rows in the padding are dropped."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.gather import checked_positions
from graftax.ops_jax.bounded.masks import as_bounded, filled, with_lengths_along
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.scatter import finished, in_step
from graftax.ops_jax.math.segment import sorted_segments
from graftax.ops_jax.sparse import segment as sparse_segment

__all__ = ["sorted_segment", "sparse_segments", "unsorted_segment"]


@makes(
  "UnsortedSegmentSum",
  "UnsortedSegmentProd",
  "UnsortedSegmentMax",
  "UnsortedSegmentMin",
  "SegmentSumV2",
  "SegmentProdV2",
  "SegmentMaxV2",
  "SegmentMinV2",
)
def unsorted_segment(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces the rows of each segment; the number of segments may be traced."""
  data, ids, num_segments = inputs
  bound, length, may_overflow = bounded_size(call, call.facts.entries(num_segments)[0])
  rank = as_bounded(ids).padded.ndim
  i, d = in_step(call, as_bounded(ids), as_bounded(data), rank, keeps_lengths=True)
  labels = filled(i, -1) if length is None else checked_positions(filled(i, -1), length)
  result = call.run_one(d.padded, labels, np.int32(bound))
  return [finished(call, result, (length, *d.lengths[rank:]), (i, d), may_overflow)]


@makes("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def sorted_segment(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces the rows of each segment, up to the last id."""
  i, d = in_step(call, as_bounded(inputs[1]), as_bounded(inputs[0]), 1, keeps_lengths=True)
  labels = filled(i, -1)
  count, bound, may_overflow = _num_segments(call, labels)
  result = jnp.asarray(sorted_segments(call.node.op, d.padded, labels, bound))
  return [finished(call, result, (count, *d.lengths[1:]), (i, d), may_overflow)]


def _num_segments(call: BoundedCall, labels: jax.Array) -> tuple[jax.Array, int, bool]:
  """Returns the number of segments up to the last id, its bound, and whether it may exceed the bound."""
  count = (jnp.max(labels, initial=-1) + 1).astype(jnp.int32)
  return count, *call.bound(Affine(((count, 1),), 0))


_SPARSE: Mapping[str, Callable[..., Any]] = {
  "SparseSegmentSum": sparse_segment.sparse_segment_sum_with_num_segments,
  "SparseSegmentMean": sparse_segment.sparse_segment_mean_with_num_segments,
  "SparseSegmentSqrtN": sparse_segment.sparse_segment_sqrt_n_with_num_segments,
}


@makes(*_SPARSE, *[f"{op}WithNumSegments" for op in _SPARSE])
def sparse_segments(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces selected rows of each segment."""
  data, indices, ids, *num_segments = inputs
  d = as_bounded(data)
  i, s = in_step(call, as_bounded(indices), as_bounded(ids), 1, keeps_lengths=True)
  labels = filled(s, -1)
  if num_segments:
    bound, length, may_overflow = bounded_size(call, call.facts.entries(num_segments[0])[0])
  else:
    length, bound, may_overflow = _num_segments(call, labels)
  positions = checked_positions(filled(i, 0), d.lengths[0])
  reduce = _SPARSE[call.node.op.removesuffix("WithNumSegments")]
  result = reduce(d.padded, positions, labels, bound)
  sources = (i, s, with_lengths_along(d, [0]))
  return [finished(call, result, (length, *d.lengths[1:]), sources, may_overflow or d.may_overflow)]
