"""Masks, and how arrays of bounded size are aligned, filled and marked as invalid.

Padding has no meaning, and no value or derivative leaves it: an op that combines elements along a bounded axis fills
the padding with a neutral element first, and an array enters padded rows only through `masked_derivative`.
"""

import dataclasses
import functools
import operator
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.graphdef_ir import UnsupportedError
from graftax.ops_jax._core.integer_facts import IntegerFacts
from graftax.ops_jax._core.numeric import invalid
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.values import INVALID_LENGTH, BoundedArray, is_bounded
from graftax.ops_jax.int64_pairs.pairs import NOT_EXACT, fits_jax_dtype
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = [
  "Axis",
  "along",
  "any_of",
  "any_overflow",
  "as_bounded",
  "checked_length",
  "common_length",
  "filled",
  "joined_axis",
  "masked_derivative",
  "may_be_less",
  "poisoned",
  "resized",
  "row_mask",
  "to_axis",
  "valid_mask",
  "with_lengths_along",
  "with_poisoned_derivative",
]


def as_bounded(value: Value) -> BoundedArray:
  """Returns a value as a `BoundedArray`, without lengths if it is an ordinary array.

  Raises:
    UnsupportedError: it holds integers beyond 32 bits, and JAX's 64-bit types are off.
  """
  if is_bounded(value):
    return value
  if not fits_jax_dtype(value):
    raise UnsupportedError(f"a size depends on data, {NOT_EXACT}")
  array = jnp.asarray(value)
  return BoundedArray(array, (None,) * array.ndim)


def with_lengths_along(value: BoundedArray, axes: Collection[int]) -> BoundedArray:
  """Returns an array with its lengths along some axes alone, to ask whether the data exceeded a bound there."""
  lengths = tuple(length if axis in axes else None for axis, length in enumerate(value.lengths))
  return BoundedArray(value.padded, lengths, value.may_overflow)


def along(vector: jax.Array, axis: int, rank: int) -> jax.Array:
  """Returns a vector as an array of rank `rank`, laid along one axis."""
  return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def may_be_less(size: int, other: int) -> bool:
  """Returns whether a padded size can be less than another one, if one of them is symbolic."""
  return bool(jax.core.max_dim(size, other) != size)


def row_mask(length: jax.Array | np.int32, size: int) -> jax.Array:
  """Returns which of `size` positions are below a length."""
  return jnp.arange(size, dtype=jnp.int32) < length


def valid_mask(
  shape: Sequence[int], lengths: Sequence[jax.Array | None], axes: Sequence[int] | None = None
) -> jax.Array | None:
  """Returns which elements are valid, in a shape that broadcasts to `shape`; None if all are.

  Args:
    shape: the padded shape.
    lengths: a length or None for each axis.
    axes: the axes to consider; by default all.
  """
  mask = None
  for axis in range(len(shape)) if axes is None else axes:
    length = lengths[axis]
    if length is not None:
      part = along(row_mask(length, shape[axis]), axis, len(shape))
      mask = part if mask is None else mask & part
  return mask


def filled(value: BoundedArray, fill: Any, axes: Sequence[int] | None = None) -> jax.Array:
  """Returns the padded array with `fill` in place of the padding along some axes."""
  mask = valid_mask(value.padded.shape, value.lengths, axes)
  if mask is None:
    return value.padded
  return jnp.where(mask, value.padded, jnp.asarray(fill, value.padded.dtype))


def masked_derivative(x: jax.Array, mask: jax.Array | None) -> jax.Array:
  """Returns `x`; no derivative passes to it from elements outside of the mask, not even NaN."""
  if mask is None or not jnp.issubdtype(x.dtype, jnp.inexact):
    return x
  return jnp.where(mask, x, lax.stop_gradient(x))


def any_of(*conditions: jax.Array | None) -> jax.Array | None:
  """Returns whether any condition holds. None is a condition that cannot hold, also as the result."""
  found = [condition for condition in conditions if condition is not None]
  return functools.reduce(operator.or_, found) if found else None


def any_overflow(*values: Value) -> jax.Array | None:
  """Returns whether the data of some value did not fit into its bound; None if that cannot happen."""
  found = [value.overflowed for value in values if is_bounded(value) and value.may_overflow]
  return None if not found else jnp.any(jnp.stack(found))


def poisoned(x: jax.Array, is_bad: jax.Array | None) -> jax.Array:
  """Returns `x`, or if the condition holds NaN, the least signed or greatest unsigned integers, or true.

  If it holds, derivatives are NaN, too.
  """
  if is_bad is None:
    return x
  return _poisoned_float(x, is_bad) if jnp.issubdtype(x.dtype, jnp.inexact) else _marked(x, is_bad)


def with_poisoned_derivative(x: jax.Array, is_bad: jax.Array | None) -> jax.Array:
  """Returns `x`, whose derivatives are NaN if the condition holds.

  Gathers at positions out of range pass no derivative to what they gather from, so that it would be zero.
  """
  return x if is_bad is None or not jnp.issubdtype(x.dtype, jnp.inexact) else _same_float(x, is_bad)


def _marked(x: jax.Array, is_bad: jax.Array) -> jax.Array:
  return jnp.where(is_bad, jnp.asarray(invalid(x.dtype), x.dtype), x)


def _poisoned_tangent(x: jax.Array, is_bad: jax.Array, tangent: jax.Array) -> jax.Array:
  # A product, because a derivative of `where` would be zero if the condition holds.
  return tangent * _marked(jnp.ones_like(x), is_bad)


@jax.custom_jvp
def _poisoned_float(x: jax.Array, is_bad: jax.Array) -> jax.Array:
  return _marked(x, is_bad)


@_poisoned_float.defjvp
@default_promotion()
def _poisoned_float_jvp(
  primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, Any]
) -> tuple[jax.Array, jax.Array]:
  return _poisoned_float(*primals), _poisoned_tangent(*primals, tangents[0])


@jax.custom_jvp
def _same_float(x: jax.Array, is_bad: jax.Array) -> jax.Array:
  return x


@_same_float.defjvp
@default_promotion()
def _same_float_jvp(
  primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, Any]
) -> tuple[jax.Array, jax.Array]:
  return _same_float(*primals), _poisoned_tangent(*primals, tangents[0])


def checked_length(length: jax.Array, is_bad: jax.Array | None) -> jax.Array:
  """Returns a length, or if the condition holds the one that is not valid."""
  return length if is_bad is None else jnp.where(is_bad, INVALID_LENGTH, length)


def resized(x: jax.Array, axis: int, size: int) -> jax.Array:
  """Returns an array cut or padded with zeros at the end of an axis."""
  if x.shape[axis] >= size:
    return lax.slice_in_dim(jnp.asarray(x), 0, size, axis=axis)
  config = [(0, size - x.shape[axis] if i == axis else 0) for i in range(x.ndim)]
  return jnp.pad(x, config)


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
  """One axis of several arrays after broadcasting.

  Attributes:
    size: the padded size.
    length: the number of valid elements, or None if all are.
    is_bad: whether the sizes do not fit each other, None if they do.
  """

  size: int
  length: jax.Array | None
  is_bad: jax.Array | None = None


def joined_axis(facts: IntegerFacts, parts: Sequence[tuple[int, jax.Array | None]], *, broadcasts: bool = True) -> Axis:
  """Returns the common axis of arrays that have the same size there, or size 1 if they broadcast.

  Args:
    facts: what is known of traced integers.
    parts: padded size and length of each.
    broadcasts: whether size 1 broadcasts.
  """
  static = {size for size, length in parts if length is None and not (broadcasts and size == 1)}
  lengths = _distinct(facts, [length for _, length in parts if length is not None])
  if len(static) == 1 and not lengths:
    (size,) = static  # perhaps 0, which is less than a size of 1 that is repeated
    return Axis(size, None)
  if not lengths or len(static) > 1:
    # For several sizes, the op's own error is best.
    return Axis(functools.reduce(jax.core.max_dim, (size for size, _ in parts), 1), None)
  if static:
    (size,) = static
    return Axis(size, None, _none_of(lengths, size, broadcasts))
  bound = functools.reduce(jax.core.max_dim, (size for size, length in parts if length is not None))
  common = lengths[0]
  for length in lengths[1:]:
    common = jnp.where(common == 1, length, common) if broadcasts else common
  return Axis(bound, common, _none_of(lengths, common, broadcasts) if len(lengths) > 1 else None)


def _distinct(facts: IntegerFacts, lengths: Sequence[jax.Array]) -> list[jax.Array]:
  """Returns the lengths without those that are known to equal another."""
  distinct: list[jax.Array] = []
  for length in lengths:
    (entry,) = facts.entries(length)
    if not any(facts.entries(other)[0].distance(entry) == 0 for other in distinct):
      distinct.append(length)
  return distinct


def _none_of(lengths: Sequence[jax.Array], size: Any, broadcasts: bool) -> jax.Array:
  fits = [(length == size) | (length == 1) if broadcasts else length == size for length in lengths]
  return ~jnp.all(jnp.stack(fits))


def to_axis(x: jax.Array, axis: int, length: jax.Array | None, target: Axis, *, broadcasts: bool = True) -> jax.Array:
  """Returns an array with one axis in the form of a common axis; the only row of length 1 is repeated."""
  if length is None:
    return x if x.shape[axis] == 1 and broadcasts else resized(x, axis, target.size)
  fitted = resized(x, axis, target.size)
  if length is target.length or not broadcasts or not target.size or not x.shape[axis]:
    return fitted
  repeats = (length == 1) if target.length is None else (length == 1) & (target.length != 1)
  first = lax.slice_in_dim(x, 0, 1, axis=axis)
  return jnp.where(repeats, first, fitted)


def common_length(target: Axis) -> tuple[jax.Array | None, bool]:
  """Returns the length of a common axis, invalid if the sizes do not fit, and whether it can be."""
  if target.length is None:
    return None, False
  return checked_length(target.length, target.is_bad), target.is_bad is not None
