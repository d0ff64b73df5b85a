"""Segment reductions of selected rows, as in embedding lookups: SparseSegmentSum, Mean and SqrtN."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize
from graftax.ops_jax.array.gather import gather_v2
from graftax.ops_jax.math.segment import unsorted_segment_sum

__all__ = [
  "sparse_segment_mean",
  "sparse_segment_mean_grad",
  "sparse_segment_mean_with_num_segments",
  "sparse_segment_sqrt_n",
  "sparse_segment_sqrt_n_grad",
  "sparse_segment_sqrt_n_with_num_segments",
  "sparse_segment_sum",
  "sparse_segment_sum_grad",
  "sparse_segment_sum_with_num_segments",
]

_IGNORES = ("T", "Tidx", "Tsegmentids", "Tnumsegments", "sparse_gradient")
_Scale = Callable[[Array], Array]


def _sum(counts: Array) -> Array:
  return jnp.ones_like(counts)


def _mean(counts: Array) -> Array:
  return 1 / jnp.maximum(counts, 1)


def _sqrt_n(counts: Array) -> Array:
  return 1 / jnp.sqrt(jnp.maximum(counts, 1))


@register("SparseSegmentSum", ignores=_IGNORES)
def sparse_segment_sum(data: Array, indices: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Sums, for each segment, the rows of `data` selected by `indices`.

  Source op: `tf.raw_ops.SparseSegmentSum`.

  Args:
    data: `[num_rows, *rest]`, floating point or integer.
    indices: `[n]`, the row of each entry.
    segment_ids: `[n]`, sorted. Must be known, because the last one decides the result's shape; use
      `SparseSegmentSumWithNumSegments` for traced ids.

  Returns:
    `[segment_ids[-1] + 1, *rest]`, of the dtype of `data`; 0 for a segment without entries.

  Raises:
    StaticInputError: `segment_ids` depends on traced data.
    InvalidInputError: the ids are negative or not sorted.
  """
  return _reduce(data, indices, segment_ids, _num_segments("SparseSegmentSum", segment_ids), _sum)


@register("SparseSegmentMean", ignores=_IGNORES)
def sparse_segment_mean(data: Array, indices: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Averages the selected rows of each segment; see `sparse_segment_sum`."""
  return _reduce(data, indices, segment_ids, _num_segments("SparseSegmentMean", segment_ids), _mean)


@register("SparseSegmentSqrtN", ignores=_IGNORES)
def sparse_segment_sqrt_n(data: Array, indices: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Divides the sums by the square root of the number of entries; see `sparse_segment_sum`."""
  return _reduce(data, indices, segment_ids, _num_segments("SparseSegmentSqrtN", segment_ids), _sqrt_n)


@register("SparseSegmentSumWithNumSegments", ignores=_IGNORES)
def sparse_segment_sum_with_num_segments(
  data: Array, indices: Array, segment_ids: Array, num_segments: StaticSize
) -> Array:
  """Computes `sparse_segment_sum` with a given, known number of segments; the ids may be traced."""
  return _reduce(data, indices, segment_ids, num_segments, _sum)


@register("SparseSegmentMeanWithNumSegments", ignores=_IGNORES)
def sparse_segment_mean_with_num_segments(
  data: Array, indices: Array, segment_ids: Array, num_segments: StaticSize
) -> Array:
  """Computes `sparse_segment_mean` with a given, known number of segments; the ids may be traced."""
  return _reduce(data, indices, segment_ids, num_segments, _mean)


@register("SparseSegmentSqrtNWithNumSegments", ignores=_IGNORES)
def sparse_segment_sqrt_n_with_num_segments(
  data: Array, indices: Array, segment_ids: Array, num_segments: StaticSize
) -> Array:
  """Computes `sparse_segment_sqrt_n` with a given, known number of segments; the ids may be traced."""
  return _reduce(data, indices, segment_ids, num_segments, _sqrt_n)


@register("SparseSegmentSumGrad", ignores=_IGNORES)
def sparse_segment_sum_grad(grad: Array, indices: Array, segment_ids: Array, output_dim0: StaticSize) -> Array:
  """Returns the gradient of `sparse_segment_sum` with respect to `data`, whose number of rows is `output_dim0`."""
  return _spread(grad, indices, segment_ids, output_dim0, _sum)


@register("SparseSegmentMeanGrad", ignores=_IGNORES)
def sparse_segment_mean_grad(grad: Array, indices: Array, segment_ids: Array, output_dim0: StaticSize) -> Array:
  """Returns the gradient of `sparse_segment_mean` with respect to `data`, whose number of rows is `output_dim0`."""
  return _spread(grad, indices, segment_ids, output_dim0, _mean)


@register("SparseSegmentSqrtNGrad", ignores=_IGNORES)
def sparse_segment_sqrt_n_grad(grad: Array, indices: Array, segment_ids: Array, output_dim0: StaticSize) -> Array:
  """Returns the gradient of `sparse_segment_sqrt_n` with respect to `data`, whose number of rows is `output_dim0`."""
  return _spread(grad, indices, segment_ids, output_dim0, _sqrt_n)


def _num_segments(op: str, segment_ids: np.ndarray) -> int:
  if segment_ids.size and (segment_ids[0] < 0 or np.any(np.diff(segment_ids) < 0)):
    raise InvalidInputError(f"{op}: segment ids must be sorted and not negative; got {segment_ids!r}.")
  return int(segment_ids[-1]) + 1 if segment_ids.size else 0


def _scales(segment_ids: Array, num_segments: int, scale: _Scale, like: Array) -> Array:
  ones = jnp.ones(segment_ids.shape, jnp.promote_types(like.dtype, np.float32))
  factors = scale(unsorted_segment_sum(ones, segment_ids, num_segments))
  return factors.reshape(num_segments, *[1] * (like.ndim - 1))


def _reduce(data: Array, indices: Array, segment_ids: Array, num_segments: int, scale: _Scale) -> Array:
  total = unsorted_segment_sum(gather_v2(jnp.asarray(data), indices, 0), segment_ids, num_segments)
  if scale is _sum:
    return total
  return (total * _scales(segment_ids, num_segments, scale, total)).astype(total.dtype)


def _spread(grad: Array, indices: Array, segment_ids: Array, num_rows: int, scale: _Scale) -> Array:
  grad = jnp.asarray(grad)
  scaled = (grad * _scales(segment_ids, grad.shape[0], scale, grad)).astype(grad.dtype)
  return unsorted_segment_sum(gather_v2(scaled, segment_ids, 0), indices, num_rows)
