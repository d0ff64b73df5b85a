"""Gathers: Gather, GatherV2, GatherNd, ResourceGather. Positions in the padding of `params` are out of range."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.array.gather import gather_nd as dense_gather_nd
from graftax.ops_jax.array.gather import gather_v2
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  common_length,
  filled,
  joined_axis,
  masked_derivative,
  poisoned,
  to_axis,
  valid_mask,
  with_lengths_along,
  with_poisoned_derivative,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["checked_coordinates", "checked_positions", "gather", "gather_nd", "resource_gather"]


@carries("Gather", "GatherV2")
def gather(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Gathers slices along an axis."""
  params, indices, *axis_input = inputs
  if any(map(is_bounded, axis_input)):
    call.refuse("its axis has a size that depends on data")
  p, i = as_bounded(params), as_bounded(indices)
  axis = canonical_axis("Gather", call.static(axis_input[0], int, "axis") if axis_input else 0, p.padded.ndim)
  batch_dims = int(call.attrs.get("batch_dims", 0) or 0)
  batch_dims += i.padded.ndim if batch_dims < 0 else 0
  p, i, batch = _with_common_batch(call, p, i, batch_dims)
  lengths = [*batch, *p.lengths[batch_dims:axis], *i.lengths[batch_dims:], *p.lengths[axis + 1 :]]
  positions = dataclasses.replace(i, padded=checked_positions(i.padded, p.lengths[axis]))
  p = dataclasses.replace(p, padded=with_poisoned_derivative(p.padded, any_overflow(i)))
  result = jnp.asarray(call.run_one(p.padded, filled(positions, 0), *axis_input))
  result = masked_derivative(result, valid_mask(result.shape, lengths))
  overflow = any_overflow(with_lengths_along(p, [axis]))
  return [call.made(poisoned(result, overflow), lengths, p.may_overflow or i.may_overflow)]


def _with_common_batch(
  call: BoundedCall, p: BoundedArray, i: BoundedArray, batch_dims: int
) -> tuple[BoundedArray, BoundedArray, list[Any]]:
  """Returns both inputs with the same padded batch dimensions, and the lengths of these."""
  lengths = []
  for axis in range(batch_dims):
    parts = [(x.padded.shape[axis], x.lengths[axis]) for x in (p, i)]
    common = joined_axis(call.facts, parts, broadcasts=False)
    if common.length is None and common.is_bad is not None:
      call.refuse("its inputs share a batch, whose size depends on data in one of them alone")
    length, _ = common_length(common)
    p, i = (
      BoundedArray(
        to_axis(x.padded, axis, x.lengths[axis], common, broadcasts=False),
        (*x.lengths[:axis], length, *x.lengths[axis + 1 :]),
        x.may_overflow or common.is_bad is not None,
      )
      for x in (p, i)
    )
    lengths.append(length)
  return p, i, lengths


def checked_positions(positions: jax.Array, length: jax.Array | None) -> jax.Array:
  """Returns positions with those from a length on moved out of range."""
  if length is None:
    return positions
  return jnp.where(positions < length.astype(positions.dtype), positions, jnp.asarray(-1, positions.dtype))


@carries("GatherNd")
def gather_nd(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Gathers elements or slices at coordinates."""
  p, i = map(as_bounded, inputs)
  if i.lengths[-1] is not None:
    call.refuse("the number of coordinates depends on data")
  depth = i.padded.shape[-1]
  lengths = [*i.lengths[:-1], *p.lengths[depth:]]
  coordinates = dataclasses.replace(i, padded=checked_coordinates(i.padded, p.lengths[:depth]))
  p = dataclasses.replace(p, padded=with_poisoned_derivative(p.padded, any_overflow(i)))
  result = call.run_one(p.padded, filled(coordinates, 0))
  result = masked_derivative(result, valid_mask(result.shape, lengths))
  overflow = any_overflow(with_lengths_along(p, range(depth)))
  return [call.made(poisoned(result, overflow), lengths, p.may_overflow or i.may_overflow)]


@carries("ResourceGather", "ResourceGatherNd")
def resource_gather(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Gathers rows, or elements at coordinates, of a variable."""
  variable, indices = inputs
  if int(call.attrs.get("batch_dims", 0) or 0):
    call.refuse("the variable and the positions share a batch")
  i = as_bounded(indices)
  positions, lengths = filled(i, 0), i.lengths
  value = with_poisoned_derivative(call.context.read(variable), any_overflow(i))
  if call.node.op == "ResourceGatherNd":
    if lengths[-1] is not None:
      call.refuse("the number of coordinates depends on data")
    lengths = lengths[:-1]
    result = jnp.asarray(dense_gather_nd(value, positions))
  else:
    result = jnp.asarray(gather_v2(value, positions, 0))
  lengths = (*lengths, *[None] * (result.ndim - len(lengths)))
  return [call.made(masked_derivative(result, valid_mask(result.shape, lengths)), lengths, i.may_overflow)]


def checked_coordinates(coordinates: jax.Array, lengths: Sequence[jax.Array | None]) -> jax.Array:
  """Returns coordinates; those at or beyond a length are moved out of range."""
  if all(length is None for length in lengths):
    return coordinates
  columns = [checked_positions(coordinates[..., k], length) for k, length in enumerate(lengths)]
  return jnp.stack(columns, axis=-1).astype(np.result_type(coordinates.dtype))
