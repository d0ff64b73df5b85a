"""Comparisons, extrema and clipping of 64-bit integers, if an input is an `Int64Pair`."""

import functools

import numpy as np

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.int64_pairs import arithmetic
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, from_halves, split

__all__ = ["maximum", "minimum"]

_register = functools.partial(register, int64_pairs="only")


@_register("Equal", ignores=("T",))
def equal(x: Value, y: Value, *, incompatible_shape_error: bool = True) -> Array:
  """Returns `x == y`."""
  (x_low, x_high), (y_low, y_high) = split(x), split(y)
  return (x_low == y_low) & (x_high == y_high)


@_register("NotEqual", ignores=("T",))
def not_equal(x: Value, y: Value, *, incompatible_shape_error: bool = True) -> Array:
  """Returns `x != y`."""
  return ~equal(x, y)


@_register("Less")
def less(x: Value, y: Value, *, T: np.dtype) -> Array:
  """Returns `x < y`."""
  return arithmetic.is_less(split(x), split(y), signed=T == np.int64)


@_register("Greater")
def greater(x: Value, y: Value, *, T: np.dtype) -> Array:
  """Returns `x > y`."""
  return arithmetic.is_less(split(y), split(x), signed=T == np.int64)


@_register("LessEqual")
def less_equal(x: Value, y: Value, *, T: np.dtype) -> Array:
  """Returns `x <= y`."""
  return ~greater(x, y, T=T)


@_register("GreaterEqual")
def greater_equal(x: Value, y: Value, *, T: np.dtype) -> Array:
  """Returns `x >= y`."""
  return ~less(x, y, T=T)


@_register("Maximum")
def maximum(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns the greater of `x` and `y`."""
  return from_halves(arithmetic.select(less(x, y, T=T), split(y), split(x)), T)


@_register("Minimum")
def minimum(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns the smaller of `x` and `y`."""
  return from_halves(arithmetic.select(less(x, y, T=T), split(x), split(y)), T)


@_register("ClipByValue", ignores=("T",))
def clip_by_value(t: Value, clip_value_min: Value, clip_value_max: Value) -> Int64Pair:
  """Returns `t` limited to the range between the bounds."""
  dtype = next(v.dtype for v in (t, clip_value_min, clip_value_max) if v.dtype in (np.int64, np.uint64))
  return minimum(maximum(t, clip_value_min, T=dtype), clip_value_max, T=dtype)
