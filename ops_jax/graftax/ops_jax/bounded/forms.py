"""Forms of arrays of bounded size, so that they can be operands of loops and branches, whose structure is fixed."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import as_bounded, checked_length, resized
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["Form", "form_of", "in_form", "invalid_if", "joined_form", "limited"]


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
  """What two arrays must have in common to be operands of one loop or branch, besides the dtype.

  Attributes:
    sizes: the padded shape.
    is_traced: for each axis, whether it has a length.
    may_overflow: whether a length may exceed the bound.
  """

  sizes: tuple[int, ...]
  is_traced: tuple[bool, ...]
  may_overflow: bool = False


def form_of(value: Value) -> Form:
  """Returns the form of an array, bounded or not."""
  if not is_bounded(value):
    shape = tuple(np.shape(value))
    return Form(shape, (False,) * len(shape))
  return Form(value.padded.shape, tuple(n is not None for n in value.lengths), value.may_overflow)


def joined_form(a: Form, b: Form) -> Form | None:
  """Returns the form that holds arrays of two forms, or None if they have different ranks or symbolic sizes."""
  if len(a.sizes) != len(b.sizes) or not all(isinstance(size, int) for size in (*a.sizes, *b.sizes)):
    return None
  differ = [x != y for x, y in zip(a.sizes, b.sizes, strict=True)]
  return Form(
    tuple(map(max, a.sizes, b.sizes)),
    tuple(x or y or other for x, y, other in zip(a.is_traced, b.is_traced, differ, strict=True)),
    a.may_overflow or b.may_overflow,
  )


def limited(form: Form, limit: int) -> Form:
  """Returns a form whose traced sizes are at most `limit`; more elements overflow."""
  sizes = tuple(min(size, limit) if traced else size for size, traced in zip(form.sizes, form.is_traced, strict=True))
  return Form(sizes, form.is_traced, form.may_overflow or sizes != form.sizes)


def in_form(value: Value, form: Form) -> BoundedArray:
  """Returns an array in a form; what does not fit in is an overflow."""
  bounded = as_bounded(value)
  padded, lengths = bounded.padded, []
  for axis, (size, traced) in enumerate(zip(form.sizes, form.is_traced, strict=True)):
    length: Any = bounded.lengths[axis]
    if traced and length is None:
      length = jnp.asarray(padded.shape[axis], jnp.int32)
    padded = resized(padded, axis, size)
    lengths.append(length)
  return BoundedArray(padded, tuple(lengths), form.may_overflow)


def invalid_if(condition: jax.Array, value: BoundedArray) -> BoundedArray:
  """Returns the array; if the condition holds, with lengths that are not valid."""
  lengths = tuple(n if n is None else checked_length(n, condition) for n in value.lengths)
  return BoundedArray(value.padded, lengths, may_overflow=True)
