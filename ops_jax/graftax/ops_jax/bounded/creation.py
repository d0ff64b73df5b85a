"""Arrays of traced size: Range, Fill, BroadcastTo, Tile, OneHot."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.bounded.elementwise import broadcast_together, with_axes
from graftax.ops_jax.bounded.masks import as_bounded, checked_length, masked_derivative, valid_mask
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.shape_ops import size_entries
from graftax.ops_jax.bounded.values import INVALID_LENGTH, BoundedArray, is_bounded

__all__ = ["bounded_size", "fill", "range_"]


def bounded_size(call: BoundedCall, size: Affine, natural: int | None = None) -> tuple[int, jax.Array | None, bool]:
  """Returns the padded size, the length and whether it may overflow, for a size that the graph computes.

  A negative size is an error in TensorFlow, so its length is invalid.
  """
  if size.is_known:
    return size.offset, None, False
  bound, may_overflow = call.bound(size, natural)
  length = jnp.asarray(size.value(), jnp.int32)
  if not call.facts.is_never_negative(size):
    length, may_overflow = checked_length(length, length < 0), True
    call.facts.note_range(length, 0, bound, is_certain=False)
  elif len(size.terms) == 1 and size.offset == 0 and size.terms[0][1] == 1:
    length = size.terms[0][0].astype(jnp.int32)
  call.facts.with_entries(length, (size,))
  return bound, length, may_overflow


@makes("Range")
def range_(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns integers from a start to a limit.

  Raises:
    InvalidInputError: the step is 0.
  """
  if any(map(is_bounded, inputs)) or any(np.ndim(value) for value in inputs if is_known(value)):
    call.refuse("its inputs are not scalars")
  start, limit = (call.facts.entries(value)[0] for value in inputs[:2])
  dtype = jnp.result_type(*[value.dtype for value in inputs])
  if not jnp.issubdtype(dtype, jnp.integer):
    call.refuse("it counts in floating-point numbers")
  step = call.static(inputs[2], int, "delta")
  if not step:
    raise InvalidInputError(f"{call.where}: delta is 0; expected another step.")
  distance = Affine((), 0).plus(limit.plus(start, -1), 1 if step > 0 else -1)
  if abs(step) == 1 and call.facts.is_never_negative(distance):
    bound, length, may_overflow = bounded_size(call, distance)
  else:
    found = call.facts.greatest(distance)
    length = jnp.maximum(-(-jnp.asarray(distance.value(), jnp.int32) // abs(step)), 0)
    if found is not None:
      call.facts.note_range(length, 0, max(-(-found[0] // abs(step)), 0), is_certain=found[1])
    bound, may_overflow = call.bound(Affine(((length, 1),), 0))
  numbers = jnp.asarray(start.value(), dtype) + jnp.arange(bound, dtype=dtype) * jnp.asarray(step, dtype)
  return [call.made(numbers, (length,), may_overflow)]


@makes("Fill")
def fill(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns an array of one value."""
  dims, value = inputs
  if is_bounded(dims):
    call.refuse("the rank of its result depends on data")
  sizes = [bounded_size(call, entry) for entry in call.facts.entries(dims)]
  shape = [bound for bound, _, _ in sizes]
  lengths = [length for _, length, _ in sizes]
  result = masked_derivative(jnp.broadcast_to(jnp.asarray(value), shape), valid_mask(shape, lengths))
  return [call.made(result, lengths, any(may for _, _, may in sizes))]


@makes("BroadcastTo")
def broadcast_to(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Broadcasts an array to a shape."""
  x, dims = inputs
  if is_bounded(dims):
    call.refuse("the rank of its result depends on data")
  own = size_entries(call.facts, x)
  entries = call.facts.entries(dims)
  sizes = []
  for i, entry in enumerate(entries):
    place = i - len(entries) + len(own)
    natural = as_bounded(x).padded.shape[place] if place >= 0 and as_bounded(x).padded.shape[place] != 1 else None
    sizes.append(bounded_size(call, entry, natural))
  shape = [bound for bound, _, _ in sizes]
  target = BoundedArray(
    jnp.zeros(shape, bool), tuple(length for _, length, _ in sizes), any(may for _, _, may in sizes)
  )
  arrays, axes = broadcast_together(call, [x, target])
  return [with_axes(call, jnp.broadcast_to(arrays[0], [axis.size for axis in axes]), axes, [x, target])]


@makes("Tile")
def tile(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Repeats an array along its axes."""
  x, multiples = inputs
  if is_bounded(multiples):
    call.refuse("the number of its axes depends on data")
  x = as_bounded(x)
  padded, lengths, may_overflow = x.padded, list(x.lengths), x.may_overflow
  sizes = size_entries(call.facts, x)
  for axis, multiple in enumerate(call.facts.entries(multiples)):
    if multiple.is_known and multiple.offset == 1:
      continue
    bound, times, may = bounded_size(call, multiple)
    may_overflow = may_overflow or may
    size, length = padded.shape[axis], lengths[axis]
    # Element i of the result is element i modulo the length.
    own: Any = size if length is None else jnp.maximum(length, 1)
    source = jnp.arange(bound * size, dtype=jnp.int32) % jnp.maximum(own, 1)
    padded = jnp.take(padded, jnp.minimum(source, max(size - 1, 0)), axis=axis, mode="clip") if size else padded
    lengths[axis] = _product(call, sizes[axis], multiple, length, times)
  result = masked_derivative(padded, valid_mask(padded.shape, lengths))
  return [call.made(result, lengths, may_overflow)]


def _product(
  call: BoundedCall, size: Affine, multiple: Affine, length: jax.Array | None, times: jax.Array | None
) -> jax.Array | None:
  if length is None and times is None:
    return None
  known, other = (size, multiple) if size.is_known else (multiple, size)
  if not known.is_known:
    # No file reaches the assertion: an axis or a multiple whose size is not known has a length, by construction.
    assert length is not None and times is not None, "internal: a traced size has no length."
    # An invalid length stays invalid.
    return checked_length(length * times, (length == INVALID_LENGTH) | (times == INVALID_LENGTH))
  if known.offset == 1:
    return times if length is None else length
  traced = times if length is None else length
  # That both are None was answered at the beginning.
  assert traced is not None, "internal: a traced size has no length."
  product = checked_length(traced * np.int32(known.offset), traced == INVALID_LENGTH)
  call.facts.with_entries(product, (Affine((), 0).plus(other, int(known.offset)),))
  return product


@carries("OneHot")
def one_hot(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns rows with one element that is on."""
  indices, *rest = inputs
  if any(map(is_bounded, rest)):
    call.refuse("its depth depends on data")
  axis = int(call.attrs.get("axis", -1))
  axis = indices.padded.ndim if axis == -1 else canonical_axis("OneHot", axis, indices.padded.ndim + 1)
  result = call.run_one(indices.padded, *rest)
  lengths = (*indices.lengths[:axis], None, *indices.lengths[axis:])
  return [call.made(masked_derivative(result, valid_mask(result.shape, lengths)), lengths, indices.may_overflow)]
