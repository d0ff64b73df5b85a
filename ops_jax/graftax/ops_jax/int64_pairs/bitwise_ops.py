"""Bitwise logic and shifts of 64-bit integers, if an input is an `Int64Pair`."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.int64_pairs import arithmetic
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, from_halves, split, traced_halves

__all__: list[str] = []

_register = functools.partial(register, int64_pairs="only")


def _logic(op: str, function: Callable[[Any, Any], Any], doc: str) -> None:
  def on_pairs(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
    (x_low, x_high), (y_low, y_high) = split(x), split(y)
    return from_halves((function(x_low, y_low), function(x_high, y_high)), T)

  on_pairs.__doc__ = doc
  _register(op)(on_pairs)


_logic("BitwiseAnd", lambda a, b: a & b, "Returns the bits that are set in both inputs.")
_logic("BitwiseOr", lambda a, b: a | b, "Returns the bits that are set in at least one input.")
_logic("BitwiseXor", lambda a, b: a ^ b, "Returns the bits that are set in exactly one input.")


@_register("Invert")
def invert(x: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `~x`."""
  low, high = split(x)
  return from_halves((~low, ~high), T)


@_register("LeftShift")
def left_shift(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `x << y`, with `y` clamped to 0 to 63."""
  return from_halves(arithmetic.shift_left(traced_halves(x), _shift_amount(y, T)), T)


@_register("RightShift")
def right_shift(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `x >> y`, with the sign kept and `y` clamped to 0 to 63."""
  return from_halves(arithmetic.shift_right(traced_halves(x), _shift_amount(y, T), signed=T == np.int64), T)


def _shift_amount(y: Value, dtype: np.dtype) -> Array:
  low, high = traced_halves(y)
  amount = jnp.where((high == 0) & (low < 64), low, 63)
  return jnp.where(arithmetic.is_negative((low, high)), 0, amount) if dtype == np.int64 else amount


@_register("PopulationCount", ignores=("T",))
def population_count(x: Value) -> Array:
  """Returns the number of set bits in each element, as uint8."""
  low, high = traced_halves(x)
  return (jax.lax.population_count(low) + jax.lax.population_count(high)).astype(np.uint8)
