"""Arithmetic and reductions of 64-bit integers, if an input is an `Int64Pair`.

Each function has the signature and the results of the op's ordinary lowering.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axes
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, Value, is_known
from graftax.ops_jax.int64_pairs import arithmetic
from graftax.ops_jax.int64_pairs.arithmetic import Halves
from graftax.ops_jax.int64_pairs.comparison_ops import maximum, minimum
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, fits_jax_dtype, from_halves, split, traced_halves
from graftax.xla_call_module.lax_extras import add_halves

__all__: list[str] = []

_register = functools.partial(register, int64_pairs="only")


@_register("Add", "AddV2")
def add(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `x + y`, modulo 2**64."""
  return from_halves(add_halves(split(x), split(y))[:2], T)


@_register("AddN", "AccumulateNV2", ignores=("N", "shape"))
def add_n(inputs: list[Value], *, T: np.dtype) -> Int64Pair:
  """Returns the sum of all inputs, modulo 2**64."""
  return from_halves(functools.reduce(lambda a, b: add_halves(a, b)[:2], map(split, inputs)), T)


@_register("Sub")
def sub(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `x - y`, modulo 2**64."""
  return from_halves(arithmetic.subtract(split(x), split(y)), T)


@_register("Mul")
def mul(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `x * y`, modulo 2**64."""
  return from_halves(arithmetic.multiply(split(x), split(y)), T)


@_register("Neg")
def neg(x: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `-x`, modulo 2**64."""
  return from_halves(arithmetic.negate(split(x)), T)


@_register("Square")
def square(x: Value, *, T: np.dtype) -> Int64Pair:
  """Returns `x * x`, modulo 2**64."""
  return from_halves(arithmetic.multiply(split(x), split(x)), T)


@_register("Abs")
def abs_(x: Value, *, T: np.dtype) -> Int64Pair:
  """Returns the absolute value of `x`, modulo 2**64."""
  return from_halves(_magnitude(split(x), T), T)


@_register("FloorMod")
def floor_mod(x: Value, y: Value, *, T: np.dtype) -> Value:
  """Returns the remainder with the sign of `y`, as an ordinary array if `y` is known and fits 32 bits."""
  divisor = split(y)
  rest = _signed_divide(split(x), divisor, T)[1]
  if T == np.int64:
    is_other_sign = ((rest[0] | rest[1]) != 0) & (arithmetic.is_negative(rest) != arithmetic.is_negative(divisor))
    rest = arithmetic.select(is_other_sign, add_halves(rest, divisor)[:2], rest)
  return _narrow_if_possible(from_halves(rest, T), y)


@_register("Mod", "TruncateMod")
def truncate_mod(x: Value, y: Value, *, T: np.dtype) -> Value:
  """Returns the remainder with the sign of `x`, as an ordinary array if `y` is known and fits 32 bits."""
  return _narrow_if_possible(from_halves(_signed_divide(split(x), split(y), T)[1], T), y)


@_register("FloorDiv")
def floor_div(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns the quotient rounded towards minus infinity."""
  divisor = split(y)
  quotient, rest = _signed_divide(split(x), divisor, T)
  if T == np.int64:
    is_above = ((rest[0] | rest[1]) != 0) & (arithmetic.is_negative(rest) != arithmetic.is_negative(divisor))
    quotient = arithmetic.select(is_above, arithmetic.subtract(quotient, _ones(quotient)), quotient)
  return from_halves(quotient, T)


@_register("Div", "RealDiv", "TruncateDiv")
def truncate_div(x: Value, y: Value, *, T: np.dtype) -> Int64Pair:
  """Returns the quotient rounded towards 0."""
  return from_halves(_signed_divide(split(x), split(y), T)[0], T)


def _magnitude(a: Halves, dtype: np.dtype) -> Halves:
  return arithmetic.select(arithmetic.is_negative(a), arithmetic.negate(a), a) if dtype == np.int64 else a


def _signed_divide(a: Halves, b: Halves, dtype: np.dtype) -> tuple[Halves, Halves]:
  """Returns the quotient rounded towards 0 and the remainder, which has the sign of `a`."""
  quotient, rest = arithmetic.divide(_magnitude(a, dtype), _magnitude(b, dtype))
  if not dtype == np.int64:
    return quotient, rest
  negative = arithmetic.is_negative(a)
  quotient = arithmetic.select(negative != arithmetic.is_negative(b), arithmetic.negate(quotient), quotient)
  return quotient, arithmetic.select(negative, arithmetic.negate(rest), rest)


def _ones(like: Halves) -> Halves:
  return jnp.ones_like(like[0]), jnp.zeros_like(like[0])


def _narrow_if_possible(rest: Int64Pair, divisor: Value) -> Value:
  return rest.truncated() if is_known(divisor) and fits_jax_dtype(divisor) else rest


def _reduction(op: str, combine: Callable[..., Int64Pair], initial: Callable[[np.dtype], int]) -> None:
  def on_pairs(
    input: Value, reduction_indices: Static[tuple[int, ...]], *, T: np.dtype, keep_dims: bool = False
  ) -> Value:
    axes = canonical_axes(op, reduction_indices, input.ndim)
    start = [jnp.asarray(word) for word in split(np.array(initial(T), T))]

    def step(a: Halves, b: Halves) -> Halves:
      result = combine(Int64Pair(*a, T), Int64Pair(*b, T), T=T)
      return result.low, result.high

    low, high = jax.lax.reduce(traced_halves(input), tuple(start), step, axes)
    shape = tuple(1 if i in axes else d for i, d in enumerate(input.shape)) if keep_dims else low.shape
    return Int64Pair(low, high, T).reshape(shape)

  on_pairs.__doc__ = f"Returns `{op}` over axes, modulo 2**64."
  _register(op, ignores=("Tidx",))(on_pairs)


_reduction("Sum", add, lambda dtype: 0)
_reduction("Prod", mul, lambda dtype: 1)
_reduction("Max", maximum, lambda dtype: np.iinfo(dtype).min)
_reduction("Min", minimum, lambda dtype: np.iinfo(dtype).max)


@_register("OnesLike", ignores=("T",))
def ones_like(x: Value) -> Array:
  """Returns ones of the shape of `x`."""
  return jnp.ones_like(x.truncated()) if isinstance(x, Int64Pair) else jnp.ones_like(x)


@_register("ZerosLike", ignores=("T",))
def zeros_like(x: Value) -> Array:
  """Returns zeros of the shape of `x`."""
  return jnp.zeros_like(x.truncated()) if isinstance(x, Int64Pair) else jnp.zeros_like(x)
