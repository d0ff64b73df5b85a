"""Scatters and segments: ScatterNd, TensorScatterUpdate, UnsortedSegmentSum, SegmentSum. Padding is dropped."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.concatenation import fitted_except
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.indexing import checked_coordinates
from graftax.ops_jax.bounded.masks import any_overflow, as_bounded, guarded, poisoned, valid_mask
from graftax.ops_jax.bounded.rules import Call, carries, makes
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded
from graftax.ops_jax.math import segment

__all__ = ["scatter_nd", "tensor_scatter", "unsorted_segment"]


@makes("ScatterNd")
def scatter_nd(call: Call, inputs: Sequence[Value]) -> Sequence[Value]:
  """Adds updates to an array of zeros, whose shape may be traced."""
  indices, updates, shape = inputs
  if is_bounded(shape):
    call.refuse("the rank of its result depends on data")
  depth = as_bounded(indices).padded.shape[-1]
  i, u = _with_common_positions(call, as_bounded(indices), as_bounded(updates))
  sizes = []
  for axis, entry in enumerate(call.facts.entries(shape)):
    place = axis - depth + i.padded.ndim - 1
    natural = u.padded.shape[place] if axis >= depth else None
    sizes.append(bounded_size(call, entry, natural))
  bounds = np.asarray([bound for bound, _, _ in sizes], np.int32)
  lengths = [length for _, length, _ in sizes]
  coordinates = _dropped(i, lengths[:depth])
  rest = [
    (slice(None),) * (i.padded.ndim - 1),
    tuple(slice(int(bound)) for bound in bounds[depth:]),
  ]
  padded = u.padded[rest[0] + rest[1]]
  result = call.run_one(coordinates, padded, bounds)
  may_overflow = any(may for _, _, may in sizes)
  return [_finished(call, result, lengths, (i, u), may_overflow)]


@carries(
  "TensorScatterUpdate",
  "TensorScatterAdd",
  "ScatterNdNonAliasingAdd",
  "TensorScatterSub",
  "TensorScatterMax",
  "TensorScatterMin",
)
def tensor_scatter(call: Call, inputs: Sequence[Value]) -> Sequence[Value]:
  """Updates an array at coordinates."""
  t = as_bounded(inputs[0])
  i, u = _with_common_positions(call, as_bounded(inputs[1]), as_bounded(inputs[2]))
  depth = i.padded.shape[-1]
  if any(length is not None for length in (*t.lengths[depth:], *u.lengths[i.padded.ndim - 1 :])):
    call.refuse("its updates are slices of a size that depends on data")
  result = call.run_one(t.padded, _dropped(i, t.lengths[:depth]), u.padded)
  return [_finished(call, result, t.lengths, (i, u), t.may_overflow)]


def _with_common_positions(call: Call, i: BoundedArray, u: BoundedArray) -> tuple[BoundedArray, BoundedArray]:
  """Returns indices `[*positions, k]` and updates `[*positions, *rest]` with the same padded positions."""
  if i.lengths[-1] is not None:
    call.refuse("the number of coordinates depends on data")
  return _in_step(call, i, u, i.padded.ndim - 1)


def _in_step(call: Call, i: BoundedArray, u: BoundedArray, num_axes: int) -> tuple[BoundedArray, BoundedArray]:
  """Returns two arrays whose first axes have common padded sizes and lengths."""
  parts = []
  for x in (i, u):
    rest = x.padded.ndim - num_axes
    flat = x.padded.reshape(*x.padded.shape[:num_axes], -1)
    parts.append((x, rest, BoundedArray(flat, (*x.lengths[:num_axes], None), x.may_overflow)))
  fitted = fitted_except(call, [flat for _, _, flat in parts], num_axes)
  results = []
  for (x, _, _), flat in zip(parts, fitted, strict=True):
    padded = flat.padded.reshape(*flat.padded.shape[:num_axes], *x.padded.shape[num_axes:])
    results.append(BoundedArray(padded, (*flat.lengths[:num_axes], *x.lengths[num_axes:]), flat.may_overflow))
  return results[0], results[1]


def _dropped(i: BoundedArray, limits: Sequence[jax.Array | None]) -> jax.Array:
  """Returns coordinates of which those in the padding, and those beyond a length, are negative: they are dropped."""
  coordinates = checked_coordinates(i.padded, limits)
  mask = valid_mask(i.padded.shape, i.lengths)
  return coordinates if mask is None else jnp.where(mask, coordinates, -1)


def _finished(
  call: Call, result: jax.Array, lengths: Sequence[Any], sources: Sequence[BoundedArray], may_overflow: bool
) -> Value:
  result = poisoned(result, any_overflow(*sources))
  return call.made(guarded(result, valid_mask(result.shape, lengths)), lengths, may_overflow)


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
def unsorted_segment(call: Call, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces the rows of each segment; the number of segments may be traced."""
  data, ids, num_segments = inputs
  bound, length, may_overflow = bounded_size(call, call.facts.entries(num_segments)[0])
  rank = as_bounded(ids).padded.ndim
  i, d = _in_step(call, as_bounded(ids), as_bounded(data), rank)
  limits = i.padded if length is None else jnp.where(i.padded < length.astype(i.dtype), i.padded, -1)
  mask = valid_mask(i.padded.shape, i.lengths)
  labels = limits if mask is None else jnp.where(mask, limits, -1)
  result = call.run_one(d.padded, labels, np.int32(bound))
  return [_finished(call, result, (length, *d.lengths[rank:]), (i, d), may_overflow)]


_SORTED: dict[str, Callable[..., Any]] = {
  "SegmentSum": segment.unsorted_segment_sum,
  "SegmentMean": segment.unsorted_segment_sum,
  "SegmentProd": segment.unsorted_segment_prod,
}


@makes(*_SORTED)
def sorted_segment(call: Call, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces the rows of each segment, up to the last id."""
  i, d = _in_step(call, as_bounded(inputs[1]), as_bounded(inputs[0]), 1)
  mask = valid_mask(i.padded.shape, i.lengths)
  labels = i.padded if mask is None else jnp.where(mask, i.padded, -1)
  count = (jnp.max(labels, initial=-1) + 1).astype(jnp.int32)
  bound, may_overflow = call.bound(Affine(((count, 1),), 0))
  result = _SORTED[call.node.op](d.padded, labels, bound)
  if call.node.op == "SegmentMean":
    if not jnp.issubdtype(d.dtype, jnp.inexact):
      call.refuse("it averages integers")
    sizes = jnp.maximum(segment.unsorted_segment_sum(jnp.ones(labels.shape, d.dtype), labels, bound), 1)
    result = result / sizes.reshape(-1, *[1] * (result.ndim - 1))
  return [_finished(call, result, (count, *d.lengths[1:]), (i, d), may_overflow)]
