"""Slices: Slice, StridedSlice with all of its masks, StridedSliceGrad, TensorStridedSliceUpdate.

A `StridedSlice` is first converted to one `_Range` per dimension of the array, and then cut out.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, Affine, IntegerFacts
from graftax.ops_jax._core.known import as_known
from graftax.ops_jax._core.numeric import invalid
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes, is_known

if TYPE_CHECKING:
  from typing_extensions import TypeIs

__all__ = ["StridedSliceMasks", "slice_", "strided_slice", "strided_slice_grad", "tensor_strided_slice_update"]


class StridedSliceMasks(TypedDict, total=False):
  """Attributes of the strided slice ops: bit `i` of each mask is about entry `i` of the index.

  Attributes:
    begin_mask: the entry starts from the first element.
    end_mask: the entry goes up to the last element.
    ellipsis_mask: the entry is `...`.
    new_axis_mask: the entry is a new dimension.
    shrink_axis_mask: the entry is a single position, and its dimension is removed.
  """

  begin_mask: int
  end_mask: int
  ellipsis_mask: int
  new_axis_mask: int
  shrink_axis_mask: int


@register("Slice", ignores=("T", "Index"), symbolic=True, data_inputs=("input",))
def slice_(input: Array, begin: Array, size: Static[tuple[int, ...]], *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Cuts a box out of an array.

  Source op: `tf.raw_ops.Slice`.

  Args:
    input: any shape and dtype.
    begin: `[rank]`, the first position in each dimension; may be traced.
    size: `[rank]`, extent in each dimension; -1 means up to the end. Must be known.
    facts: what is known of traced integers.

  Returns:
    An array of shape `size`.

  Raises:
    InvalidInputError: the box exceeds the array, if that is known.
    StaticInputError: an extent of -1 with a traced `begin`.

  Differs from TF: a traced `begin` that leaves no room for the box is moved back; TensorFlow raises an error. A box of
  symbolic size that exceeds the array holds NaN (an extreme integer, true) beyond it.
  """
  starts = [entry.value() for entry in facts.entries(begin)]
  if len(size) != input.ndim or len(starts) != input.ndim:
    raise InvalidInputError(f"Slice: begin and size must have {input.ndim} entries for shape {input.shape}.")
  sizes = []
  for axis, (start, extent, dim) in enumerate(zip(starts, size, input.shape, strict=True)):
    is_rest = isinstance(extent, int) and extent == -1
    if is_rest and _is_traced(start):
      raise StaticInputError(f"Slice: the size of dimension {axis} is -1, but its begin depends on traced data.")
    extent = dim - start if is_rest else extent
    known = all(isinstance(v, int) for v in (start, extent, dim))
    if known and not 0 <= start <= start + extent <= dim:
      raise InvalidInputError(f"Slice: begin={start} and size={extent} leave dimension {axis} of shape {input.shape}.")
    sizes.append(extent)
  positions = [start for start in starts if not _is_traced(start)]
  if len(positions) < len(starts):
    return lax.dynamic_slice(input, _same_dtype(starts), sizes)
  ranges = [_Range(start, start + extent, 1, extent) for start, extent in zip(positions, sizes, strict=True)]
  result = _cut(input, ranges)
  if len(ranges) != 1 or not ranges[0].is_known:
    return result
  return facts.selected(result, input, ranges[0].positions())


@register("StridedSlice", ignores=("T", "Index"), symbolic=True, data_inputs=("input",), known_inputs=("begin", "end"))
def strided_slice(
  input: Array,
  begin: Array,
  end: Array,
  strides: Static[tuple[int, ...]],
  *,
  facts: IntegerFacts = NO_FACTS,
  **masks: Unpack[StridedSliceMasks],
) -> Array:
  """Returns `input[begin:end:strides]`, with Python's other kinds of index entries.

  Source op: `tf.raw_ops.StridedSlice`.

  Args:
    input: any shape and dtype.
    begin: `[n]`, first position for each entry of the index; may be traced if the entry is a single position, or a
      range of known extent like `t : t + 2`.
    end: `[n]`, position to stop before; may be traced like `begin`.
    strides: `[n]`, step, not 0. Must be known.
    **masks: see `StridedSliceMasks`.

  Returns:
    The slice, of the dtype of `input`; known if `input` and the positions are.

  Raises:
    StaticInputError: the ends of a range depend on traced data, so that its extent is not known.
    InvalidInputError: a known single position is out of range, or a step is 0.

  Differs from TF: a traced position out of range is moved to the nearest element; TensorFlow raises an error. A range
  of traced position that exceeds the array is moved back into it; TensorFlow cuts it off. A single symbolic position
  out of range reads NaN (an extreme integer, true).
  """
  plan = _plan("StridedSlice", input.shape, begin, end, strides, facts, **masks)
  result = _cut(input, plan.ranges).reshape(plan.shape) if plan.reshapes else _cut(input, plan.ranges)
  if not plan.ranges:
    return facts.note_concatenated(result, [input])
  if len(plan.ranges) != 1 or len(plan.shape) > 1 or not plan.ranges[0].is_known:
    return result
  return facts.selected(result, input, plan.ranges[0].positions())


@register("StridedSliceGrad", ignores=("T", "Index"), known_inputs=("begin", "end"))
def strided_slice_grad(
  shape: StaticSizes,
  begin: Array,
  end: Array,
  strides: Static[tuple[int, ...]],
  dy: Array,
  *,
  facts: IntegerFacts = NO_FACTS,
  **masks: Unpack[StridedSliceMasks],
) -> Array:
  """Computes the gradient of `strided_slice`: zeros of the given shape with `dy` in place of the slice."""
  plan = _plan("StridedSliceGrad", shape, begin, end, strides, facts, **masks)
  dy = _oriented(jnp.asarray(dy), plan)
  config = [(0, 0, 0) if _is_traced(r.start) else r.padding(dim) for r, dim in zip(plan.ranges, shape, strict=True)]
  padded = lax.pad(dy, jnp.zeros((), dy.dtype), config)
  if not any(_is_traced(r.start) for r in plan.ranges):
    return padded
  starts = [r.start if _is_traced(r.start) else 0 for r in plan.ranges]
  return lax.dynamic_update_slice(jnp.zeros(shape, dy.dtype), padded, _same_dtype(starts))


@register(
  "TensorStridedSliceUpdate", ignores=("T", "Index"), data_inputs=("input", "value"), known_inputs=("begin", "end")
)
def tensor_strided_slice_update(
  input: Array,
  begin: Array,
  end: Array,
  strides: Static[tuple[int, ...]],
  value: Array,
  *,
  facts: IntegerFacts = NO_FACTS,
  **masks: Unpack[StridedSliceMasks],
) -> Array:
  """Replaces the slice that `strided_slice` would return by `value`, which broadcasts to it."""
  plan = _plan("TensorStridedSliceUpdate", input.shape, begin, end, strides, facts, **masks)
  input, value = jnp.asarray(input), jnp.asarray(value)
  value = _oriented(jnp.broadcast_to(value, plan.shape), plan)
  if all(r.step == 1 for r in plan.ranges):
    return lax.dynamic_update_slice(input, value, _same_dtype([r.start for r in plan.ranges]))
  if any(_is_traced(r.start) for r in plan.ranges):
    raise StaticInputError("TensorStridedSliceUpdate: a traced position together with a step is not supported.")
  return input.at[tuple(slice(r.start, r.stop, r.step) for r in plan.ranges)].set(value)


# A known or symbolic position, which JAX's types call an int as well, or a traced one.
_Position: TypeAlias = int | jax.Array


@dataclasses.dataclass(frozen=True, slots=True)
class _Range:
  """`size` elements `start, start + step, ...` of one dimension, all below `stop`; `step` is positive.

  Attributes:
    start: first position; may be symbolic, or traced (then `step` is 1).
    stop: position after the last; None if `start` is traced.
    step: distance.
    size: number of elements.
    is_reversed: whether they are in descending order.
  """

  start: _Position
  stop: int | None
  step: int
  size: int
  is_reversed: bool = False

  @property
  def is_known(self) -> bool:
    return isinstance(self.start, int) and isinstance(self.stop, int)

  def covers(self, dim: int) -> bool:
    return not _is_traced(self.start) and self.start == 0 and self.step == 1 and self.size == dim

  def lies_within(self, dim: int) -> bool:
    """Returns whether the range is known to be inside a dimension; symbolic sizes cannot always be compared."""
    return all(jax.core.max_dim(position, dim) == dim for position in (self.start, self.stop))

  def positions(self) -> range:
    """Returns the positions of a known range, in the order of the result."""
    assert self.stop is not None, "internal: a traced range has no known positions"
    positions = range(self.start, self.stop, self.step)
    return positions[::-1] if self.is_reversed else positions

  def padding(self, dim: int) -> tuple[int, int, int]:
    assert not _is_traced(self.start), "internal: a traced range has no known padding"
    if isinstance(self.size, int) and self.size == 0:
      return dim, 0, 0
    return self.start, dim - (self.start + (self.size - 1) * self.step + 1), self.step - 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
  """What a strided slice does to an array: one range for each dimension, then a reshape.

  Attributes:
    ranges: one for each dimension.
    shape: the result's shape.
    reshapes: whether `shape` differs from the sizes of the ranges.
  """

  ranges: tuple[_Range, ...]
  shape: tuple[int, ...]
  reshapes: bool


def _check_masks(op: str, num_entries: int, **masks: Unpack[StridedSliceMasks]) -> None:
  for name, mask in masks.items():
    if mask.__class__ is not int or not -(1 << 31) <= mask < 1 << 31:
      raise InvalidInputError(f"{op}: {name} is {mask!r}; expected an int32.")
  if (masks.get("ellipsis_mask", 0) & (1 << num_entries) - 1).bit_count() > 1:
    raise InvalidInputError(f"{op}: ellipsis_mask={masks['ellipsis_mask']} has more than one of {num_entries} entries.")


def _plan(
  op: str,
  dims: Sequence[int],
  begin: Array,
  end: Array,
  strides: Sequence[int],
  facts: IntegerFacts,
  **masks: Unpack[StridedSliceMasks],
) -> _Plan:
  num_entries = len(strides)
  ellipsis_mask, new_axis_mask = masks.get("ellipsis_mask", 0), masks.get("new_axis_mask", 0)
  _check_masks(op, num_entries, **masks)
  begins, ends = facts.entries(begin), facts.entries(end)
  ranges: list[_Range] = []
  shape: list[int] = []
  for i in range(num_entries):
    if ellipsis_mask >> i & 1:
      later = sum(1 for j in range(i + 1, num_entries) if not new_axis_mask >> j & 1)
      for dim in dims[len(ranges) : len(dims) - later]:
        ranges.append(_Range(0, dim, 1, dim))
        shape.append(dim)
    elif new_axis_mask >> i & 1:
      shape.append(1)
    else:
      axis = len(ranges)
      if axis == len(dims):
        raise InvalidInputError(f"{op}: the index has more entries than shape {tuple(dims)} has dimensions.")
      if masks.get("shrink_axis_mask", 0) >> i & 1:
        ranges.append(_position(op, begins[i].value(), strides[i], axis, dims))
      else:
        ranges.append(_range(op, i, begins, ends, strides[i], axis, dims[axis], **masks))
        shape.append(ranges[-1].size)
  for dim in dims[len(ranges) :]:
    ranges.append(_Range(0, dim, 1, dim))
    shape.append(dim)
  return _Plan(tuple(ranges), tuple(shape), len(shape) != len(dims) or bool(new_axis_mask))


def _position(op: str, position: _Position, stride: int, axis: int, dims: Sequence[int]) -> _Range:
  dim = dims[axis]
  if stride <= 0:
    raise InvalidInputError(f"{op}: a single position needs a positive stride; got {stride}.")
  if _is_traced(position):
    return _Range(jnp.where(position < 0, position + jnp.asarray(dim, position.dtype), position), None, 1, 1)
  start = position + dim if isinstance(position, int) and position < 0 else position
  if all(isinstance(v, int) for v in (start, dim)) and not 0 <= start < dim:
    raise InvalidInputError(f"{op}: position {position} of dimension {axis} is out of range for shape {tuple(dims)}.")
  return _Range(start, start + 1, 1, 1)


def _range(
  op: str,
  i: int,
  begins: Sequence[Affine],
  ends: Sequence[Affine],
  stride: int,
  axis: int,
  dim: int,
  **masks: Unpack[StridedSliceMasks],
) -> _Range:
  if stride == 0:
    raise InvalidInputError(f"{op}: the stride of entry {i} is 0.")
  has_begin, has_end = not masks.get("begin_mask", 0) >> i & 1, not masks.get("end_mask", 0) >> i & 1
  begin, end = begins[i].offset if has_begin else None, ends[i].offset if has_end else None
  if (has_begin and not begins[i].is_known) or (has_end and not ends[i].is_known):
    distance = begins[i].distance(ends[i]) if has_begin and has_end and stride == 1 else None
    if distance is not None:
      position = begins[i].value()
      assert _is_traced(position), "internal: a known position at a known distance from a traced one"
      return _window(position, distance, dim)
    values = [entry.value() if has else None for entry, has in ((begins[i], has_begin), (ends[i], has_end))]
    if any(isinstance(value, jax.core.Tracer) for value in values):
      raise StaticInputError(
        f"{op}: the range of dimension {axis} depends on traced data, so the extent of the result is not known. Use "
        f"an end that is the begin plus a constant, tf.slice with a constant size, or a mask over the whole dimension."
      )
    # Outside of jit, arrays that ops have computed have values.
    begin, end = (int(value) if isinstance(value, jax.Array) else value for value in values)
  if stride > 0:
    start = 0 if begin is None else _clamp(_from_front(begin, dim), 0, dim)
    stop = dim if end is None else _clamp(_from_front(end, dim), 0, dim)
    size = _ceil_div(_at_least_zero(stop - start), stride)
    return _Range(start, stop, stride, size)
  # Descending positions: first, first + stride, ..., above last.
  first = dim - 1 if begin is None else _clamp(_from_front(begin, dim), -1, dim - 1)
  last = -1 if end is None else _clamp(_from_front(end, dim), -1, dim - 1)
  size = _ceil_div(_at_least_zero(first - last), -stride)
  lowest = first + (size - 1) * stride
  if isinstance(size, int) and size == 0:
    return _Range(0, 0, 1, 0)
  return _Range(lowest, first + 1, -stride, size, is_reversed=True)


def _window(begin: jax.Array, size: int, dim: int) -> _Range:
  size = _clamp(size, 0, dim)
  start = jnp.where(begin < 0, begin + jnp.asarray(dim, begin.dtype), begin)
  return _Range(jnp.clip(start, 0, dim - size), None, 1, size)


def _from_front(position: int, dim: int) -> int:
  return position + dim if isinstance(position, int) and position < 0 else position


def _clamp(value: int, low: int, high: int) -> int:
  return jax.core.min_dim(jax.core.max_dim(value, low), high)


def _at_least_zero(value: int) -> int:
  return jax.core.max_dim(value, 0)


def _ceil_div(value: int, divisor: int) -> int:
  return -(-value // divisor) if divisor != 1 else value


def _cut(x: Array, ranges: Sequence[_Range]) -> Array:
  reversed_axes = tuple(axis for axis, r in enumerate(ranges) if r.is_reversed)
  # Symbolic sizes may not be comparable: `tf.slice(position_embeddings, [0, 0], [length, -1])`.
  lies_within = all(_is_traced(r.start) or r.lies_within(dim) for r, dim in zip(ranges, x.shape, strict=True))
  if is_known(x) and all(isinstance(v, int) for r in ranges for v in (r.start, r.stop)):
    cut = np.asarray(x)[tuple(slice(r.start, r.stop, r.step) for r in ranges)]
    return as_known(np.flip(cut, reversed_axes) if reversed_axes else cut)
  x = jnp.asarray(x)
  if not lies_within and all(r.step == 1 for r in ranges):
    x = _cut_unchecked(x, ranges)
  elif not all(r.covers(dim) or _is_traced(r.start) for r, dim in zip(ranges, x.shape, strict=True)):
    bounds = [
      (0, dim, 1) if _is_traced(r.start) else (r.start, r.stop, r.step) for r, dim in zip(ranges, x.shape, strict=True)
    ]
    limits = [jax.core.max_dim(start, stop) for start, stop, _ in bounds]
    x = lax.slice(x, [start for start, _, _ in bounds], limits, [step for _, _, step in bounds])
  for axis, r in enumerate(ranges):
    if _is_traced(r.start):
      x = lax.dynamic_slice_in_dim(x, r.start, r.size, axis)
  return lax.rev(x, reversed_axes) if reversed_axes else x


def _cut_unchecked(x: Array, ranges: Sequence[_Range]) -> Array:
  """Cuts ranges of step 1, except traced ones, without comparing sizes; cells outside the array are invalid."""
  config = [
    (0, 0, 0) if _is_traced(r.start) else (-r.start, r.stop - dim, 0) for r, dim in zip(ranges, x.shape, strict=True)
  ]
  return lax.pad(x, invalid(x.dtype), config)


def _oriented(value: Array, plan: _Plan) -> Array:
  value = value.reshape([r.size for r in plan.ranges])
  axes = tuple(axis for axis, r in enumerate(plan.ranges) if r.is_reversed)
  return lax.rev(value, axes) if axes else value


def _same_dtype(starts: Sequence[_Position]) -> list[_Position]:
  dtypes = [s.dtype for s in starts if _is_traced(s)]
  return [jnp.asarray(s, dtypes[0]) if dtypes else s for s in starts]


def _is_traced(value: _Position) -> "TypeIs[jax.Array]":
  return isinstance(value, jax.Array)
