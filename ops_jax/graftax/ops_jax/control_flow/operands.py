"""Converts values to operands of `jax.lax` control flow, and TensorFlow's conditions to bool."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.known import to_dtype
from graftax.ops_jax._core.precision import float_dtype, promoted_dtype
from graftax.ops_jax._core.values import Array, Value, is_known, is_string, materialize
from graftax.ops_jax.bounded.forms import form_of, in_form
from graftax.ops_jax.bounded.values import is_bounded
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, as_int64_pair, to_jax_exactly

__all__ = ["as_operand", "as_operand_like", "refuse_text", "truth", "wider_form"]


def truth(value: Value) -> Array | np.bool_:
  """Returns a condition as a bool scalar: whether a scalar is not zero, or another array is not empty."""
  if is_bounded(value):
    return jnp.all(jnp.stack([n > 0 for n in value.lengths if n is not None])) & bool(value.padded.size)
  if np.ndim(value):
    return np.bool_(np.size(value) > 0)
  return np.bool_(value != 0) if is_known(value) else value != 0


def as_operand(value: Value) -> Value:
  """Returns a value as an operand of `jax.lax` control flow: arrays are not weakly typed.

  Raises:
    StaticInputError: it is text, which JAX does not have.
  """

  def strong(leaf: Any) -> Any:
    refuse_text(leaf)
    leaf = to_jax_exactly(materialize(leaf))
    return jax.tree.map(lambda array: jax.lax.convert_element_type(array, array.dtype), leaf)

  return jax.tree.map(strong, value)


def refuse_text(value: Value) -> None:
  """Raises if a variable of a loop, or a result of a conditional, is text.

  Raises:
    StaticInputError: it is.
  """
  if is_string(value):
    raise StaticInputError(
      "text is a variable or result of a loop or conditional that runs as one compiled program, and JAX has no "
      "strings. Call the function outside of jit and other transformations, or compute a number that chooses the text."
    )


def as_operand_like(value: Value, other: Value) -> Value:
  """Returns a value as an operand in the form of `other`: an `Int64Pair` if that is one, and in its precision.

  If `other` has a bounded size, so has the operand.
  """
  if is_bounded(other):
    return as_operand(in_form(value, form_of(other)))
  if isinstance(other, Int64Pair):
    return as_int64_pair(value, other.dtype)
  value = as_operand(value)
  dtype = float_dtype(other)
  return value if dtype is None or float_dtype(value) in (None, dtype) else value.astype(dtype)


def wider_form(value: Value, other: Value) -> Callable[[Value], Value] | None:
  """Returns a conversion of `other` to the form of `value` if that has more bits, else None."""
  if isinstance(value, Int64Pair) and not isinstance(other, Int64Pair):
    return functools.partial(as_int64_pair, dtype=value.dtype)
  dtype, other_dtype = float_dtype(value), float_dtype(other)
  if dtype is None or other_dtype is None or promoted_dtype(dtype, other_dtype) == other_dtype:
    return None
  return functools.partial(to_dtype, dtype=promoted_dtype(dtype, other_dtype))
