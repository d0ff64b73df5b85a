"""Shapes: Shape, Size, Rank, Reshape, ExpandDims, Squeeze, Transpose, EnsureShape, InvertPermutation."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axes, canonical_axis
from graftax.ops_jax._core.integer_facts import Affine, IntegerFacts
from graftax.ops_jax._core.values import Value, shape_vector
from graftax.ops_jax.bounded.masks import any_of, any_overflow, as_bounded, filled, poisoned, resized
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["reshape", "shape", "size_entries"]


def size_entries(facts: IntegerFacts, value: Value) -> tuple[Affine, ...]:
  """Returns the sizes of a value, known or traced."""
  if not is_bounded(value):
    return tuple(Affine((), dim) for dim in value.shape)
  return tuple(
    Affine((), dim) if length is None else facts.entries(length)[0]
    for dim, length in zip(value.padded.shape, value.lengths, strict=True)
  )


@carries("Shape", "ShapeN")
def shape(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns shapes; some of their entries are traced."""
  return [_shape_vector(call, value) for value in inputs]


def _shape_vector(call: BoundedCall, value: Value) -> Value:
  entries = size_entries(call.facts, value)
  dtype = call.dtype("out_type", np.int32)
  if all(entry.is_known for entry in entries):
    return shape_vector((entry.offset for entry in entries), dtype)
  vector = jnp.stack([jnp.asarray(entry.value()).astype(dtype) for entry in entries])
  return call.facts.with_entries(vector, entries)


@carries("Size")
def size(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the number of elements."""
  (x,) = inputs
  factor = math.prod(dim for dim, length in zip(x.padded.shape, x.lengths, strict=True) if length is None)
  lengths = [length for length in x.lengths if length is not None]
  result = math.prod(lengths, start=jnp.asarray(factor, jnp.int32)).astype(call.dtype("out_type", np.int32))
  if len(lengths) == 1:
    (entry,) = call.facts.entries(lengths[0])
    return [call.facts.with_entries(result, (Affine((), 0).plus(entry, factor),))]
  call.facts.note_range(result, 0, math.prod(x.padded.shape), is_certain=not x.may_overflow)
  return [result]


@carries("Rank")
def rank(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the number of dimensions."""
  return [np.asarray(inputs[0].padded.ndim, np.int32)]


@makes("Reshape", has_max_size=False)
def reshape(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reshapes in row-major order; one entry of the new shape may be traced or -1, and follows from the others."""
  tensor, wanted = inputs
  if is_bounded(wanted):
    call.refuse("the new shape has a rank that depends on data")
  x = as_bounded(tensor)
  entries = list(call.facts.entries(wanted))
  free = [i for i, entry in enumerate(entries) if not entry.is_known or entry.offset == -1]
  if len(free) > 1:
    free = _still_free(call, x, entries, free)
  if not free:
    return [_reshape_to_known(call, x, [entry.offset for entry in entries])]
  (open_axis,) = free
  others = [entry if i != open_axis else None for i, entry in enumerate(entries)]
  return [_reshape_open(call, x, others, open_axis)]


def _still_free(call: BoundedCall, x: BoundedArray, entries: list[Affine], free: Sequence[int]) -> list[int]:
  """Returns the one entry that is to be inferred; the others are sizes of `x`. Replaces an -1 that is known."""
  own = [call.facts.entries(length)[0] for length in x.lengths if length is not None]
  unknown = [i for i in free if entries[i].is_known]
  sized = [i for i in free if i not in unknown and any(size.distance(entries[i]) == 0 for size in own)]
  if len(unknown) > 1 or len(sized) + len(unknown) < len(free):
    call.refuse("several entries of the new shape depend on data")
  if not unknown or len(sized) < len(own):
    return unknown or sized[:1]
  known = math.prod(entry.offset for i, entry in enumerate(entries) if i not in free)
  if not known:
    call.refuse("an entry of the new shape would be inferred beside a size of 0")
  dims = [dim for dim, length in zip(x.padded.shape, x.lengths, strict=True) if length is None]
  entries[unknown[0]] = Affine((), math.prod(dims) // known)
  return sized[:1]


def _reshape_to_known(call: BoundedCall, x: BoundedArray, dims: Sequence[int]) -> Value:
  """Returns an array of known shape; invalid if the number of elements differs."""
  count = _count(x)
  total = math.prod(dims)
  flat = resized(_flat(x), 0, total)
  return poisoned(flat, any_of(count != total, any_overflow(x))).reshape(dims)


def _reshape_open(call: BoundedCall, x: BoundedArray, others: Sequence[Affine | None], axis: int) -> Value:
  """Returns `x` with a new shape whose entry at `axis` follows from the number of elements."""
  kept = _kept_axes(call, x, others)
  if kept is not None:
    return call.made(x.padded.reshape(kept[0]), kept[1], x.may_overflow)
  if any(entry is not None and not entry.is_known for entry in others):
    call.refuse("its new shape merges or splits several sizes that depend on data")
  rest = math.prod(entry.offset for entry in others if entry is not None)
  if not rest:
    call.refuse("an entry of the new shape would be inferred beside a size of 0")
  bound = math.prod(x.padded.shape) // rest
  flat = resized(_flat(x), 0, bound * rest)
  lengths: list[Any] = [None] * len(others)
  shape = [bound if entry is None else entry.offset for entry in others]
  lengths[axis] = _count(x) // np.int32(rest)
  if axis and math.prod(shape[:axis]) > 1:
    # The elements of each row are adjacent: their distance depends on the length.
    flat = _spread(flat, math.prod(shape[:axis]), bound, math.prod(shape[axis + 1 :]), lengths[axis])
  return call.made(flat.reshape(shape), lengths, x.may_overflow)


def _kept_axes(
  call: BoundedCall, x: BoundedArray, others: Sequence[Affine | None]
) -> tuple[list[int], list[jax.Array | None]] | None:
  """Returns the padded shape and the lengths if each bounded axis stays an axis of its own, else None.

  An axis stays if the number of elements before it and after it is the same, counted in known sizes and in lengths.
  """
  old = list(zip(x.padded.shape, x.lengths, strict=True))
  if sum(length is not None for _, length in old) != 1 + sum(
    entry is not None and not entry.is_known for entry in others
  ):
    return None
  bounded = [i for i, length in enumerate(x.lengths) if length is not None]
  ranks = [i for i, entry in enumerate(others) if entry is None or not entry.is_known]
  shape: list[int] = []
  lengths: list[jax.Array | None] = []
  start = new_start = 0
  for own, new in zip(bounded, ranks, strict=True):
    size, length = old[own]
    entry = others[new]
    if entry is not None and length is not None and call.facts.entries(length)[0].distance(entry) != 0:
      return None
    known = [_offset(e) for e in others[new_start:new]]
    if math.prod(dim for dim, _ in old[start:own]) != math.prod(known):
      return None
    shape += [*known, size]
    lengths += [*[None] * len(known), length]
    start, new_start = own + 1, new + 1
  tail_old, tail_new = old[start:], others[new_start:]
  if math.prod(d for d, _ in tail_old) != math.prod(_offset(e) for e in tail_new):
    return None
  return shape + [_offset(e) for e in tail_new], lengths + [None] * len(tail_new)


def _offset(entry: Affine | None) -> int:
  # No file reaches the assertion: `_kept_axes` asks for entries that are not among those without a known size.
  assert entry is not None and entry.is_known, "internal: a size between bounded axes is not known."
  return entry.offset


def _count(x: BoundedArray) -> Any:
  count: Any = np.int32(1)
  for dim, length in zip(x.padded.shape, x.lengths, strict=True):
    count = count * (np.int32(dim) if length is None else length)
  return jnp.asarray(count, jnp.int32)


def _flat(x: BoundedArray) -> jax.Array:
  """Returns the valid elements in row-major order, followed by padding."""
  inner = [axis for axis, length in enumerate(x.lengths) if length is not None]
  if not inner or math.prod(x.padded.shape[: inner[-1]]) == 1 or inner == [0]:
    return x.padded.reshape(-1)
  total = x.padded.size
  rest = jnp.arange(total, dtype=jnp.int32)
  source = jnp.zeros(total, jnp.int32)
  stride = 1
  for axis in reversed(range(x.padded.ndim)):
    length = x.lengths[axis]
    dim: Any = np.int32(x.padded.shape[axis]) if length is None else jnp.maximum(length, 1)
    source = source + jnp.minimum(rest % dim, x.padded.shape[axis] - 1) * stride
    rest = rest // dim
    stride *= x.padded.shape[axis]
  taken = x.padded.reshape(-1)[jnp.minimum(source, total - 1)]
  is_valid = jnp.arange(total) < _count(x)
  return jnp.where(is_valid, taken, jnp.zeros((), taken.dtype))


def _spread(flat: jax.Array, outer: int, bound: int, inner: int, length: jax.Array) -> jax.Array:
  """Returns `[outer * length * inner]` elements as `[outer, bound, inner]`."""
  total = outer * bound * inner
  i = jnp.arange(total, dtype=jnp.int32)
  row, column, rest = i // (bound * inner), i // inner % bound, i % inner
  source = (row * length + column) * inner + rest
  taken = flat[jnp.minimum(source, total - 1)]
  return jnp.where(column < length, taken, jnp.zeros((), taken.dtype))


@carries("ExpandDims")
def expand_dims(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Inserts a dimension of size 1."""
  x, dim = inputs
  axis = canonical_axis("ExpandDims", call.static(dim, int, "dim"), x.padded.ndim + 1)
  lengths = (*x.lengths[:axis], None, *x.lengths[axis:])
  return [call.made(jnp.expand_dims(x.padded, axis), lengths, x.may_overflow)]


@carries("Squeeze")
def squeeze(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Removes dimensions of size 1, which are named if a size depends on data."""
  (x,) = inputs
  named = call.attrs.get("squeeze_dims") or ()
  if not named:
    call.refuse("it removes all dimensions of size 1, which a size that depends on data may be (name them: axis=[...])")
  axes = {canonical_axis("Squeeze", axis, x.padded.ndim) for axis in named}
  padded, is_bad = x.padded, any_overflow(x)
  for axis in sorted(axes, reverse=True):
    length = x.lengths[axis]
    if length is not None:
      is_bad = any_of(is_bad, length != 1)
      padded = resized(padded, axis, 1)
    padded = jnp.squeeze(padded, axis)
  lengths = [length for axis, length in enumerate(x.lengths) if axis not in axes]
  return [call.made(poisoned(padded, is_bad), lengths, x.may_overflow)]


@carries("Transpose")
def transpose(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Permutes dimensions."""
  x, perm = inputs
  axes = canonical_axes("Transpose", call.static(perm, tuple[int, ...], "perm"), x.padded.ndim)
  return [call.made(call.run_one(x.padded, perm), [x.lengths[axis] for axis in axes], x.may_overflow)]


@carries("EnsureShape")
def ensure_shape(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns `x`; a size that the graph declares is known, and the result invalid if the data has another."""
  (x,) = inputs
  declared = getattr(call.attrs.get("shape"), "dims", None)
  if declared is None or len(declared) != x.padded.ndim:
    return [x]
  padded, is_bad = x.padded, None
  lengths = list(x.lengths)
  for axis, (dim, length) in enumerate(zip(declared, x.lengths, strict=True)):
    if length is not None and isinstance(dim, int) and dim >= 0:
      is_bad = any_of(is_bad, length != dim)
      padded, lengths[axis] = resized(padded, axis, dim), None
  return [call.made(poisoned(padded, is_bad), lengths, x.may_overflow)]


@carries("InvertPermutation")
def invert_permutation(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the inverse of a permutation of bounded size."""
  (x,) = inputs
  size = x.padded.shape[0]
  positions = jnp.arange(size, dtype=x.dtype)
  result = jnp.zeros_like(positions).at[filled(x, size)].set(positions, mode="drop")
  return [call.made(result, x.lengths, x.may_overflow)]
