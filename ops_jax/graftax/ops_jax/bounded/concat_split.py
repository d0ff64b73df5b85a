"""Joining and splitting: Concat, ConcatV2, Pack, Unpack, Split, SplitV."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.precision import in_one_precision
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  common_length,
  joined_axis,
  may_be_less,
  poisoned,
  resized,
  to_axis,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.shape_ops import size_entries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["concatenate", "fitted_except"]


@carries("Concat", "ConcatV2")
def concat(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Concatenates along an axis."""
  axis_value, values = (inputs[0], inputs[1:]) if call.node.op == "Concat" else (inputs[-1], inputs[:-1])
  parts = [as_bounded(value) for value in values]
  axis = canonical_axis("ConcatV2", call.static(axis_value, int, "axis"), parts[0].padded.ndim)
  parts = fitted_except(call, parts, axis)
  if all(part.lengths[axis] is None for part in parts):
    joined = jnp.concatenate([part.padded for part in parts], axis)
    return [call.made(joined, parts[0].lengths, any(part.may_overflow for part in parts))]
  return [concatenate(call, parts, axis)]


def concatenate(call: BoundedCall, parts: Sequence[BoundedArray], axis: int) -> Value:
  """Returns parts that fit each other, one after the other along an axis of bounded size."""
  total = Affine((), 0)
  offsets = []
  for part in parts:
    offsets.append(total)
    total = total.plus(size_entries(call.facts, part)[axis])
  arrays = in_one_precision([part.padded for part in parts])
  bound = sum(array.shape[axis] for array in arrays)
  shape = [bound if i == axis else dim for i, dim in enumerate(arrays[0].shape)]
  result = jnp.zeros(shape, jnp.result_type(*arrays))
  # The padding of each part is overwritten by the next one.
  for array, offset in zip(arrays, offsets, strict=True):
    start = jnp.asarray(offset.value(), jnp.int32)
    result = lax.dynamic_update_slice_in_dim(result, array.astype(result.dtype), start, axis)
  may_overflow = any(part.may_overflow for part in parts)
  lengths = list(parts[0].lengths)
  if total.is_known:
    lengths[axis] = None
    result = poisoned(resized(result, axis, total.offset), any_overflow(*parts))
    return call.made(result, lengths, may_overflow)
  length = checked_length(jnp.asarray(total.value(), jnp.int32), any_overflow(*parts))
  call.facts.with_entries(length, (total,))
  known = call.facts.greatest(total)
  if known is not None and known[1] and may_be_less(known[0], bound):
    result = resized(result, axis, jax.core.min_dim(max(known[0], 0), bound))
  lengths[axis] = length
  return call.made(result, lengths, may_overflow)


def fitted_except(
  call: BoundedCall, parts: Sequence[BoundedArray], axis: int | None, *, keeps_lengths: bool = False
) -> list[BoundedArray]:
  """Returns arrays with the same sizes along all axes but one.

  Args:
    call: the run of the node.
    parts: the arrays.
    axis: the axis along which sizes may differ; None for no axis.
    keeps_lengths: whether an axis of known size has a length if a part had one there. It is invalid if the part has
      another size or more elements than its bound, which otherwise is seen by the invalid elements alone.
  """
  fitted = list(parts)
  for other in range(parts[0].padded.ndim):
    if other == axis:
      continue
    common = joined_axis(call.facts, [(x.padded.shape[other], x.lengths[other]) for x in fitted], broadcasts=False)
    length, may_be_invalid = common_length(common)
    if length is None and keeps_lengths and common.is_bad is not None:
      length, may_be_invalid = checked_length(jnp.asarray(common.size, jnp.int32), common.is_bad), True
    for i, x in enumerate(fitted):
      padded: Any = to_axis(x.padded, other, x.lengths[other], common, broadcasts=False)
      if length is None:
        padded = poisoned(padded, common.is_bad)
      lengths = (*x.lengths[:other], length, *x.lengths[other + 1 :])
      fitted[i] = BoundedArray(padded, lengths, x.may_overflow or may_be_invalid)
  return fitted


@carries("Pack")
def pack(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Stacks arrays of one shape along a new axis."""
  parts = fitted_except(call, [as_bounded(value) for value in inputs], None)
  axis = canonical_axis("Pack", int(call.attrs.get("axis", 0)), parts[0].padded.ndim + 1)
  stacked = jnp.stack(in_one_precision([part.padded for part in parts]), axis)
  lengths = (*parts[0].lengths[:axis], None, *parts[0].lengths[axis:])
  return [call.made(stacked, lengths, any(part.may_overflow for part in parts))]


@carries("Unpack")
def unpack(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Splits an array into its slices along an axis; invalid if their number is not the declared one."""
  (x,) = inputs
  axis = canonical_axis("Unpack", int(call.attrs.get("axis", 0)), x.padded.ndim)
  num = int(call.attrs["num"])
  padded = x.padded
  if x.lengths[axis] is not None:
    padded = poisoned(resized(padded, axis, num), x.lengths[axis] != num)
  lengths = [length for i, length in enumerate(x.lengths) if i != axis]
  parts = [lax.index_in_dim(padded, i, axis, keepdims=False) for i in range(num)]
  return [call.made(part, lengths, x.may_overflow) for part in parts]


@carries("Split", "SplitV")
def split(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Splits an array along an axis of known size."""
  position = 1 if call.node.op == "Split" else 0
  axis_value = inputs[0 if call.node.op == "Split" else 2]
  x = inputs[position]
  if not is_bounded(x):
    call.refuse("the sizes of its results depend on data")
  axis = canonical_axis(call.node.op, call.static(axis_value, int, "axis"), x.padded.ndim)
  if x.lengths[axis] is not None:
    call.refuse("it splits along an axis whose size depends on data")
  padded: list[jax.Array | Value] = list(inputs)
  padded[position] = x.padded
  return [call.made(part, x.lengths, x.may_overflow) for part in call.run(call.context, padded)]
