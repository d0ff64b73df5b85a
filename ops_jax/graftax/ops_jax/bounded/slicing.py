"""Slices and paddings along axes of bounded or traced size: Slice, StridedSlice, Pad."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.masks import (
  along,
  any_of,
  any_overflow,
  as_bounded,
  checked_length,
  masked_derivative,
  poisoned,
  resized,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.shape_ops import size_entries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["pad", "slice_", "strided_slice"]


@dataclasses.dataclass(slots=True)
class _Cutter:
  """An array that is cut axis by axis.

  Attributes:
    call: the run of the node.
    padded: the array so far.
    lengths: its lengths.
    may_overflow: whether they may exceed the bounds.
    is_bad: whether TensorFlow would refuse a position.
  """

  call: BoundedCall
  padded: jax.Array
  lengths: list[Any]
  may_overflow: bool
  is_bad: jax.Array | None = None

  def refuse_if(self, condition: Any) -> None:
    """Makes the result invalid if a condition holds."""
    self.is_bad = any_of(self.is_bad, condition)

  def take(self, axis: int, start: Any, size: int, step: int = 1) -> None:
    """Keeps `size` positions from `start` on, which may be traced; those out of range are padding."""
    dim = self.padded.shape[axis]
    if not dim or (isinstance(start, int) and start == 0 and step == 1):
      self.padded = resized(self.padded, axis, size)
      return
    positions = jnp.asarray(start, jnp.int32) + np.arange(size, dtype=np.int32) * np.int32(step)
    self.padded = jnp.take(self.padded, jnp.clip(positions, 0, dim - 1), axis=axis, mode="clip")

  def result(self, x: BoundedArray) -> Value:
    """Returns what is left of `x`."""
    if all(length is None for length in self.lengths):
      return poisoned(self.padded, any_of(self.is_bad, any_overflow(x)))
    lengths = [n if n is None else checked_length(n, self.is_bad) for n in self.lengths]
    padded = masked_derivative(self.padded, valid_mask(self.padded.shape, lengths))
    return self.call.made(padded, lengths, self.may_overflow or self.is_bad is not None)


def _cutter(call: BoundedCall, x: BoundedArray) -> _Cutter:
  return _Cutter(call, x.padded, list(x.lengths), x.may_overflow)


@makes("Slice")
def slice_(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Cuts a box of traced size out of an array."""
  if is_bounded(inputs[1]) or is_bounded(inputs[2]):
    call.refuse("the number of its positions depends on data")
  x = as_bounded(inputs[0])
  cutter = _cutter(call, x)
  begins, sizes = call.facts.entries(inputs[1]), call.facts.entries(inputs[2])
  for axis, (begin, size, dim) in enumerate(zip(begins, sizes, size_entries(call.facts, x), strict=True)):
    _cut_box(cutter, axis, begin, size, dim)
  return [cutter.result(x)]


def _cut_box(cutter: _Cutter, axis: int, begin: Affine, size: Affine, dim: Affine) -> None:
  """Keeps `size` positions from `begin` on, or the rest if `size` is -1."""
  call, rest = cutter.call, dim.plus(begin, -1)
  is_rest = size.is_known and size.offset == -1
  if is_rest and begin.is_known and begin.offset == 0:
    return
  start = begin.value()
  natural = cutter.padded.shape[axis] - (start if isinstance(start, int) else 0)
  if is_rest:
    size = rest
  elif not size.is_known and not call.facts.is_never_negative(size):
    value = jnp.asarray(size.value(), jnp.int32)
    wanted = jnp.where(value == -1, jnp.asarray(rest.value(), jnp.int32), value)
    size = Affine(((wanted, 1),), 0)
  bound, length, may_overflow = bounded_size(call, size, max(natural, 0))
  if not rest.is_known or not size.is_known:
    fits = jnp.asarray(begin.value() >= 0) & (jnp.asarray(rest.plus(size, -1).value()) >= 0)
    if not (is_rest and begin.is_known) and not (rest.distance(size) == 0 and begin.is_known):
      cutter.refuse_if(~fits)
    elif is_rest:
      cutter.refuse_if(jnp.asarray(rest.value()) < 0)
  cutter.take(axis, start, bound)
  cutter.lengths[axis] = length
  cutter.may_overflow = cutter.may_overflow or may_overflow


@makes("StridedSlice")
def strided_slice(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Cuts ranges and positions out of an array; some of them are traced."""
  if any(map(is_bounded, inputs[1:])):
    call.refuse("the number of its positions depends on data")
  x = as_bounded(inputs[0])
  begins, ends = call.facts.entries(inputs[1]), call.facts.entries(inputs[2])
  strides = call.static(inputs[3], tuple[int, ...], "strides")
  masks = {name: int(call.attrs.get(name, 0)) for name in _MASKS}
  cutter = _cutter(call, x)
  dims = size_entries(call.facts, x)
  axis = position = 0  # of the array that is cut, and of the input
  num = len(strides)
  for i in range(num):
    if masks["ellipsis_mask"] >> i & 1:
      later = sum(1 for j in range(i + 1, num) if not masks["new_axis_mask"] >> j & 1)
      skipped = len(dims) - position - later
      axis, position = axis + skipped, position + skipped
    elif masks["new_axis_mask"] >> i & 1:
      cutter.padded = jnp.expand_dims(cutter.padded, axis)
      cutter.lengths.insert(axis, None)
      axis += 1
    elif masks["shrink_axis_mask"] >> i & 1:
      _cut_position(cutter, axis, begins[i], dims[position])
      position += 1
    else:
      begin = None if masks["begin_mask"] >> i & 1 else begins[i]
      end = None if masks["end_mask"] >> i & 1 else ends[i]
      _cut_range(cutter, axis, begin, end, strides[i], dims[position])
      axis, position = axis + 1, position + 1
  return [cutter.result(x)]


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _cut_position(cutter: _Cutter, axis: int, entry: Affine, dim: Affine) -> None:
  """Keeps one position, and removes the axis."""
  position = entry.value()
  size = dim.value()
  if isinstance(position, int):
    start = position + size if position < 0 else position
  else:
    start = jnp.where(position < 0, position + jnp.asarray(size, position.dtype), position)
  if not (isinstance(start, int) and isinstance(size, int)):
    cutter.refuse_if(jnp.asarray((start < 0) | (start >= size)))
  elif not 0 <= start < size:
    raise InvalidInputError(f"{cutter.call.where}: position {position} is out of range for {size} elements.")
  cutter.take(axis, start, 1)
  cutter.padded = jnp.squeeze(resized(cutter.padded, axis, 1), axis)
  del cutter.lengths[axis]


def _cut_range(cutter: _Cutter, axis: int, begin: Affine | None, end: Affine | None, step: int, dim: Affine) -> None:
  """Keeps the positions of a Python slice."""
  if begin is None and end is None and step == 1:
    return
  call, bound = cutter.call, cutter.padded.shape[axis]
  if dim.is_known and (begin is None or begin.is_known) and (end is None or end.is_known):
    cut = slice(None if begin is None else begin.offset, None if end is None else end.offset, step)
    cutter.padded = cutter.padded[(slice(None),) * axis + (cut,)]
    return
  size = dim.value()
  low, high = (0, size) if step > 0 else (-1, size - 1)
  first = _clamped(begin, size, low, high, default=low if step > 0 else high)
  last = _clamped(end, size, low, high, default=high if step > 0 else low)
  distance = last - first if step > 0 else first - last
  length = jnp.maximum(-(-jnp.asarray(distance, jnp.int32) // abs(step)), 0).astype(jnp.int32)
  is_plain = step == 1 and begin is None and end is not None
  if is_plain and end is not None and call.facts.is_never_negative(end):
    # `x[:n]` of an array with n elements keeps all of them.
    if end.distance(dim) == 0:
      return
    greatest = call.facts.greatest(end)
    if greatest is not None and greatest[1]:
      bound = min(bound, max(greatest[0], 0))
  start = begin.offset if begin is not None and begin.is_known and begin.offset >= 0 else None
  if step > 0 and start is not None:
    bound = max(bound - start, 0)
  if step > 0 and begin is None:
    first = 0
  bound = -(-bound // abs(step))
  wanted = call.max_size()
  if wanted is not None and wanted < bound:
    bound, cutter.may_overflow = wanted, True
  cutter.take(axis, first, bound, step)
  cutter.lengths[axis] = length


def _clamped(entry: Affine | None, size: Any, low: Any, high: Any, *, default: Any) -> Any:
  if entry is None:
    return default
  value = jnp.asarray(entry.value(), jnp.int32)
  return jnp.clip(jnp.where(value < 0, value + size, value), low, high)


@makes("Pad", "PadV2")
def pad(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Surrounds an array by a constant; the numbers of elements may be traced."""
  x, paddings, *constant = inputs
  if is_bounded(paddings):
    call.refuse("the number of its paddings depends on data")
  x = as_bounded(x)
  padded, lengths, may_overflow = x.padded, list(x.lengths), x.may_overflow
  value = jnp.asarray(constant[0] if constant else 0, padded.dtype)
  is_bad = None
  for axis, (before, after) in enumerate(call.facts.matrix_entries(paddings)):
    if all(entry.is_known and entry.offset == 0 for entry in (before, after)):
      continue
    dim = size_entries(call.facts, BoundedArray(padded, tuple(lengths)))[axis]
    total = dim.plus(before).plus(after)
    natural = None
    if before.is_known and after.is_known:
      natural = padded.shape[axis] + before.offset + after.offset
    for entry in (before, after):
      if not call.facts.is_never_negative(entry):
        is_bad = any_of(is_bad, jnp.asarray(entry.value()) < 0)
    bound, length, may = bounded_size(call, total, natural)
    padded = _padded_axis(padded, axis, before.value(), dim.value(), bound, value)
    lengths[axis], may_overflow = length, may_overflow or may
  is_bad = any_of(is_bad, any_overflow(x))
  if is_bad is not None and any(length is not None for length in lengths):
    lengths = [n if n is None else _invalid_if(call, is_bad, n) for n in lengths]
    may_overflow = True
  result = masked_derivative(poisoned(padded, is_bad), valid_mask(padded.shape, lengths))
  return [call.made(result, lengths, may_overflow)]


def _invalid_if(call: BoundedCall, is_bad: jax.Array, length: jax.Array) -> jax.Array:
  checked = checked_length(length, is_bad)
  call.facts.with_entries(checked, call.facts.entries(length))
  return checked


def _padded_axis(x: jax.Array, axis: int, before: Any, size: Any, bound: int, value: jax.Array) -> jax.Array:
  """Returns `x` after `before` positions of the value along an axis, and followed by it up to `bound` positions."""
  positions = jnp.arange(bound, dtype=jnp.int32) - jnp.asarray(before, jnp.int32)
  is_own = along((positions >= 0) & (positions < size), axis, x.ndim)
  if not x.shape[axis]:
    return jnp.broadcast_to(value, [bound if i == axis else dim for i, dim in enumerate(x.shape)])
  if isinstance(before, int) and before == 0:
    moved = resized(x, axis, bound)
  else:
    moved = jnp.take(x, jnp.clip(positions, 0, x.shape[axis] - 1), axis=axis, mode="clip")
  return jnp.where(is_own, moved, value)
