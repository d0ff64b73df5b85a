"""Reductions over rows with the same segment id: SegmentSum, UnsortedSegmentSum and those for Prod, Max, Min, Mean.

The sorted ops (`SegmentSum`, ...) need known ids, because the last id decides the result's shape. The others get the
number of segments as an input, so their ids may be traced.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.numeric import highest_finite, lowest_finite
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize, is_known
from graftax.xla_call_module.lax_extras import highest, lowest

__all__ = [
  "segment_max",
  "segment_max_v2",
  "segment_mean",
  "segment_min",
  "segment_min_v2",
  "segment_prod",
  "segment_prod_v2",
  "segment_sum",
  "segment_sum_v2",
  "sorted_segments",
  "unsorted_segment_max",
  "unsorted_segment_min",
  "unsorted_segment_prod",
  "unsorted_segment_sum",
]

_IGNORES = ("T", "Tindices", "Tnumsegments")


@register("UnsortedSegmentSum", ignores=_IGNORES)
def unsorted_segment_sum(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Sums the rows of each segment.

  Source op: `tf.raw_ops.UnsortedSegmentSum`.

  Args:
    data: `[*segment_ids.shape, *rest]`.
    segment_ids: integer; rows with a negative id are ignored.
    num_segments: how many segments there are. Must be known.

  Returns:
    `[num_segments, *rest]`, of the dtype of `data`; 0 for a segment without rows.

  Raises:
    InvalidInputError: a known id is too large, or the shapes do not fit.

  Differs from TF: rows with a traced id that is too large are ignored instead of raising an error.
  """
  return _segment_sum(*_rows("UnsortedSegmentSum", data, segment_ids, num_segments))


@register("UnsortedSegmentProd", ignores=_IGNORES)
def unsorted_segment_prod(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Multiplies the rows of each segment; 1 without rows. See `unsorted_segment_sum`."""
  return _segment_prod(*_rows("UnsortedSegmentProd", data, segment_ids, num_segments))


@register("UnsortedSegmentMax", ignores=_IGNORES)
def unsorted_segment_max(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Returns the maxima of each segment's rows; the lowest finite number without rows. See `unsorted_segment_sum`.

  TensorFlow starts from the lowest finite number, so minus infinity is never the maximum. Equal maxima share the
  derivative evenly.

  Differs from TF: NaN in a segment makes its result NaN; TensorFlow's CPU kernel may drop it, depending on the order.
  """
  return _segment_max(*_rows("UnsortedSegmentMax", data, segment_ids, num_segments), lowest_finite)


@register("UnsortedSegmentMin", ignores=_IGNORES)
def unsorted_segment_min(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Returns the minima of each segment's rows; the highest finite number without rows. See `unsorted_segment_sum`.

  TensorFlow starts from the highest finite number, so infinity is never the minimum. Equal minima share the derivative
  evenly.

  Differs from TF: NaN in a segment makes its result NaN; TensorFlow's CPU kernel may drop it, depending on the order.
  """
  return _segment_min(*_rows("UnsortedSegmentMin", data, segment_ids, num_segments), highest_finite)


@register("SegmentSumV2", ignores=_IGNORES)
def segment_sum_v2(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Computes `unsorted_segment_sum` for sorted ids."""
  return unsorted_segment_sum(data, segment_ids, num_segments)


@register("SegmentProdV2", ignores=_IGNORES)
def segment_prod_v2(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Computes `unsorted_segment_prod` for sorted ids."""
  return unsorted_segment_prod(data, segment_ids, num_segments)


@register("SegmentMaxV2", ignores=_IGNORES)
def segment_max_v2(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Computes `unsorted_segment_max` for sorted ids."""
  return unsorted_segment_max(data, segment_ids, num_segments)


@register("SegmentMinV2", ignores=_IGNORES)
def segment_min_v2(data: Array, segment_ids: Array, num_segments: StaticSize) -> Array:
  """Computes `unsorted_segment_min` for sorted ids."""
  return unsorted_segment_min(data, segment_ids, num_segments)


@register("SegmentSum", ignores=_IGNORES)
def segment_sum(data: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Sums the rows of each segment.

  Source op: `tf.raw_ops.SegmentSum`.

  Args:
    data: `[n, *rest]`.
    segment_ids: `[n]`, integer, sorted. Must be known. To bound the number of segments while tracing, use
      `tf.math.unsorted_segment_sum`.

  Returns:
    `[segment_ids[-1] + 1, *rest]`, of the dtype of `data`; 0 for a segment without rows.

  Raises:
    StaticInputError: `segment_ids` depends on traced data.
    InvalidInputError: they are negative or not sorted.
  """
  return sorted_segments("SegmentSum", *_sorted_rows("SegmentSum", data, segment_ids))


@register("SegmentMean", ignores=_IGNORES)
def segment_mean(data: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Averages the rows of each segment, rounded towards 0 for integers; 0 without rows. See `segment_sum`."""
  return sorted_segments("SegmentMean", *_sorted_rows("SegmentMean", data, segment_ids))


@register("SegmentProd", ignores=_IGNORES)
def segment_prod(data: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Multiplies the rows of each segment; 1 without rows. See `segment_sum`."""
  return sorted_segments("SegmentProd", *_sorted_rows("SegmentProd", data, segment_ids))


@register("SegmentMax", ignores=_IGNORES)
def segment_max(data: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Returns the maxima of each segment's rows; 0 without rows. Equal maxima share the derivative. See `segment_sum`.

  Differs from TF: NaN in a segment makes its result NaN; TensorFlow's CPU kernel may drop it, depending on the order.
  """
  return sorted_segments("SegmentMax", *_sorted_rows("SegmentMax", data, segment_ids))


@register("SegmentMin", ignores=_IGNORES)
def segment_min(data: Array, segment_ids: Static[np.ndarray]) -> Array:
  """Returns the minima of each segment's rows; 0 without rows. Equal minima share the derivative. See `segment_sum`.

  Differs from TF: NaN in a segment makes its result NaN; TensorFlow's CPU kernel may drop it, depending on the order.
  """
  return sorted_segments("SegmentMin", *_sorted_rows("SegmentMin", data, segment_ids))


def sorted_segments(op: str, rows: Array, ids: Array, num_segments: int) -> Array:
  """Computes an op for sorted ids with a given number of segments.

  Args:
    op: `SegmentSum`, `SegmentMean`, `SegmentProd`, `SegmentMax` or `SegmentMin`.
    rows: `[n, *rest]`.
    ids: `[n]`, integer, which may be traced; rows with a negative id are ignored.
    num_segments: how many segments there are.
  """
  if op == "SegmentSum":
    return _segment_sum(rows, ids, num_segments)
  if op == "SegmentProd":
    return _segment_prod(rows, ids, num_segments)
  counts = _scatter(jnp.zeros(num_segments, np.int32), ids, "add", jnp.ones(ids.shape, np.int32))
  counts = counts.reshape(-1, *[1] * (rows.ndim - 1))
  if op == "SegmentMean":
    total = _segment_sum(rows, ids, num_segments)
    return lax.div(total, jnp.broadcast_to(jnp.maximum(counts, 1).astype(total.dtype), total.shape))
  is_max = op == "SegmentMax"
  extrema = (_segment_max if is_max else _segment_min)(rows, ids, num_segments, lowest if is_max else highest)
  return jnp.where(counts == 0, jnp.zeros((), extrema.dtype), extrema)


def _rows(op: str, data: Array, segment_ids: Array, num_segments: int) -> tuple[Array, Array, int]:
  if data.shape[: segment_ids.ndim] != segment_ids.shape:
    raise InvalidInputError(f"{op}: data of shape {data.shape} does not start with {segment_ids.shape}.")
  if is_known(segment_ids) and np.any(segment_ids >= num_segments):
    raise InvalidInputError(f"{op}: segment id {np.max(segment_ids)} is not below num_segments={num_segments}.")
  size = math.prod(segment_ids.shape)
  rows = jnp.asarray(data).reshape(size, *data.shape[segment_ids.ndim :])
  return rows, jnp.asarray(segment_ids).reshape(size), num_segments


def _sorted_rows(op: str, data: Array, ids: np.ndarray) -> tuple[Array, np.ndarray, int]:
  if ids.ndim != 1 or data.ndim < 1 or data.shape[0] != ids.shape[0]:
    raise InvalidInputError(f"{op}: segment_ids of shape {ids.shape} does not fit data of shape {data.shape}.")
  if ids.size and (ids[0] < 0 or np.any(np.diff(ids) < 0)):
    raise InvalidInputError(f"{op}: segment ids must be sorted and not negative; got {ids!r}.")
  return jnp.asarray(data), ids, int(ids[-1]) + 1 if ids.size else 0


def _initial(rows: Array, num_segments: int, value: Any) -> jax.Array:
  return jnp.full((num_segments, *rows.shape[1:]), value, rows.dtype)


def _scatter(target: jax.Array, ids: Array, method: str, rows: Array) -> jax.Array:
  return getattr(target.at[ids], method)(rows, mode="drop", wrap_negative_indices=False)


def _take(segments: Array, ids: Array, fill_value: Any = 0) -> jax.Array:
  return jnp.asarray(segments).at[ids].get(mode="fill", fill_value=fill_value, wrap_negative_indices=False)


def _segment_sum(rows: Array, ids: Array, num_segments: int) -> Array:
  return _scatter(_initial(rows, num_segments, 0), ids, "add", rows)


# The initial value is an argument, so that the functions below can have custom derivatives.
def _segment_prod(rows: Array, ids: Array, num_segments: int) -> Array:
  return _scatter_prod(rows, jnp.asarray(ids), _initial(rows, num_segments, 1))


def _segment_max(rows: Array, ids: Array, num_segments: int, start: Callable[[Any], np.ndarray]) -> Array:
  return _scatter_max(rows, jnp.asarray(ids), _initial(rows, num_segments, start(rows.dtype)))


def _segment_min(rows: Array, ids: Array, num_segments: int, start: Callable[[Any], np.ndarray]) -> Array:
  return _scatter_min(rows, jnp.asarray(ids), _initial(rows, num_segments, start(rows.dtype)))


def _extremum_partial(t: Array, z: Array, rows: Array, ids: Array, initial: Array) -> Array:
  is_selected = (rows == _take(z, ids, np.nan)).astype(z.dtype)
  zeros = jnp.zeros_like(z)
  count = _scatter(zeros, ids, "add", is_selected)
  return _scatter(zeros, ids, "add", t * is_selected) / jnp.maximum(count, 1)


def _prod_partial(t: Array, z: Array, rows: Array, ids: Array, ones: Array) -> Array:
  # The product of the other rows of the segment, by division unless this row is 0.
  is_zero = rows == 0
  num_zeros = _scatter(jnp.zeros_like(ones), ids, "add", is_zero.astype(rows.dtype))
  safe = jnp.where(is_zero, jnp.ones_like(rows), rows)
  product_of_nonzero = _scatter_prod(safe, ids, ones)
  others = jnp.where(is_zero, _take(product_of_nonzero, ids), _take(z, ids) / safe)
  others = jnp.where(_take(num_zeros, ids) > 1, jnp.zeros_like(others), others)
  return _scatter(jnp.zeros_like(z), ids, "add", t * others)


_scatter_prod = with_partials(
  lambda rows, ids, initial: _scatter(initial, ids, "multiply", rows), _prod_partial, None, None
)
_scatter_max = with_partials(
  lambda rows, ids, initial: _scatter(initial, ids, "max", rows), _extremum_partial, None, None
)
_scatter_min = with_partials(
  lambda rows, ids, initial: _scatter(initial, ids, "min", rows), _extremum_partial, None, None
)
