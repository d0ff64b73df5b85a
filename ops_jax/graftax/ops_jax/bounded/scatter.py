"""Scatters: ScatterNd, TensorScatterUpdate, DynamicStitch, Bincount. Padding is dropped."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.precision import in_one_precision
from graftax.ops_jax._core.values import Value, shape_vector
from graftax.ops_jax.bounded.concat_split import fitted_except
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.gather import checked_coordinates
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  filled,
  masked_derivative,
  poisoned,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["dropped", "finished", "in_step", "scatter_nd", "tensor_scatter"]


@makes("ScatterNd")
def scatter_nd(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
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
  bounds = shape_vector(bound for bound, _, _ in sizes)
  lengths = [length for _, length, _ in sizes]
  coordinates = dropped(i, lengths[:depth])
  padded = u.padded[(..., *(slice(int(bound)) for bound in bounds[depth:]))]
  result = call.run_one(coordinates, padded, bounds)
  may_overflow = any(may for _, _, may in sizes)
  return [finished(call, result, lengths, (i, u), may_overflow)]


@carries(
  "TensorScatterUpdate",
  "TensorScatterAdd",
  "ScatterNdNonAliasingAdd",
  "TensorScatterSub",
  "TensorScatterMax",
  "TensorScatterMin",
)
def tensor_scatter(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Updates an array at coordinates."""
  t = as_bounded(inputs[0])
  i, u = _with_common_positions(call, as_bounded(inputs[1]), as_bounded(inputs[2]))
  depth = i.padded.shape[-1]
  if any(length is not None for length in (*t.lengths[depth:], *u.lengths[i.padded.ndim - 1 :])):
    call.refuse("its updates are slices of a size that depends on data")
  result = call.run_one(t.padded, dropped(i, t.lengths[:depth]), u.padded)
  return [finished(call, result, t.lengths, (i, u), t.may_overflow)]


def _with_common_positions(call: BoundedCall, i: BoundedArray, u: BoundedArray) -> tuple[BoundedArray, BoundedArray]:
  """Returns indices `[*positions, k]` and updates `[*positions, *rest]` with the same padded positions."""
  if i.lengths[-1] is not None:
    call.refuse("the number of coordinates depends on data")
  return in_step(call, i, u, i.padded.ndim - 1, keeps_lengths=True)


def in_step(
  call: BoundedCall, i: BoundedArray, u: BoundedArray, num_axes: int, *, keeps_lengths: bool = False
) -> tuple[BoundedArray, BoundedArray]:
  """Returns two arrays whose first axes have common padded sizes and lengths.

  With `keeps_lengths`, for reductions of these axes, they have lengths if one of the arrays had, and `finished` sees in
  them whether the arrays fit. Indices that do not fit are invalid, and would be dropped without a trace.
  """
  flat = []
  for x in (i, u):
    shape = x.padded.shape[:num_axes]
    padded = x.padded.reshape(*shape, math.prod(x.padded.shape[num_axes:]))
    flat.append(BoundedArray(padded, (*x.lengths[:num_axes], None), x.may_overflow))
  results = []
  for x, fitted in zip((i, u), fitted_except(call, flat, num_axes, keeps_lengths=keeps_lengths), strict=True):
    padded = fitted.padded.reshape(*fitted.padded.shape[:num_axes], *x.padded.shape[num_axes:])
    results.append(BoundedArray(padded, (*fitted.lengths[:num_axes], *x.lengths[num_axes:]), fitted.may_overflow))
  return results[0], results[1]


def dropped(i: BoundedArray, limits: Sequence[jax.Array | None]) -> jax.Array:
  """Returns coordinates; those in the padding or beyond a length are -1, so the scatter drops them."""
  coordinates = checked_coordinates(i.padded, limits)
  mask = valid_mask(i.padded.shape, i.lengths)
  return coordinates if mask is None else jnp.where(mask, coordinates, -1)


def finished(
  call: BoundedCall, result: jax.Array, lengths: Sequence[Any], sources: Sequence[BoundedArray], may_overflow: bool
) -> Value:
  """Returns the result of a scatter; invalid if the data of a source did not fit into its bound."""
  result = poisoned(result, any_overflow(*sources))
  return call.made(masked_derivative(result, valid_mask(result.shape, lengths)), lengths, may_overflow)


@makes("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Collects rows at given positions; the number of rows is the bound, which positions without a row can exceed."""
  num = len(inputs) // 2
  parts = []
  for indices, data in zip(inputs[:num], inputs[num:], strict=True):
    rank = as_bounded(indices).padded.ndim
    i, d = in_step(call, as_bounded(indices), as_bounded(data), rank, keeps_lengths=True)
    if any(length is not None for length in d.lengths[rank:]):
      call.refuse("its rows have a size that depends on data")
    parts.append((filled(i, -1).reshape(-1), d.padded.reshape(i.padded.size, *d.padded.shape[rank:]), i, d))
  positions = jnp.concatenate([part[0] for part in parts])
  rows = jnp.concatenate(in_one_precision([part[1] for part in parts]))
  count = (jnp.max(positions, initial=-1) + 1).astype(jnp.int32)
  wanted = call.max_size()
  bound = rows.shape[0] if wanted is None else wanted
  # If several rows have the same position, the last one stays.
  order = jnp.arange(rows.shape[0], dtype=jnp.int32)
  sources = jnp.full(bound, -1, jnp.int32).at[positions].max(order, mode="drop", wrap_negative_indices=False)
  is_filled = (sources >= 0).reshape(-1, *[1] * (rows.ndim - 1))
  result = jnp.where(is_filled, jnp.take(rows, jnp.maximum(sources, 0), axis=0, mode="clip"), jnp.zeros((), rows.dtype))
  overflow = any_overflow(*[source for part in parts for source in part[2:]])
  count = checked_length(count, overflow)
  return [call.made(result, (count, *[None] * (rows.ndim - 1)), may_overflow=True)]


@makes("Bincount", "DenseBincount")
def bin_count(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Counts values, whose number may be traced, in bins, whose number may be traced too."""
  values, weights = as_bounded(inputs[0]), as_bounded(inputs[2])
  rank = values.padded.ndim
  bound, length, may_overflow = bounded_size(call, call.facts.entries(inputs[1])[0])
  if weights.padded.size or any(n is not None for n in weights.lengths):
    values, weights = in_step(call, values, weights, rank, keeps_lengths=rank == 1)
  result = call.run_one(filled(values, -1), np.int32(bound), weights.padded)
  lengths = (length,) if result.ndim == 1 else (values.lengths[0], length)
  return [finished(call, result, lengths, (values, weights), may_overflow)]
