"""Integer ops on 64-bit integers by words: what runs when one of the inputs is `WideInts`.

Each has the signature and the results of the op's ordinary lowering; at least one input is 64 bits wide.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axes
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedOpError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, Value, is_known
from graftax.ops_jax.int64_pairs import arithmetic as words
from graftax.ops_jax.int64_pairs.arithmetic import Words
from graftax.ops_jax.int64_pairs.pairs import WideInts, fits, split, widened

__all__: list[str] = []

_register = functools.partial(register, words="only")


def _wide(pair: Words, dtype: np.dtype) -> WideInts:
  low, high = jnp.broadcast_arrays(*pair)
  return WideInts(low, high, dtype)


def _is_signed(dtype: np.dtype) -> bool:
  return dtype == np.int64


@_register("Add", "AddV2")
def add(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """`x + y`, modulo 2**64."""
  return _wide(words.add(split(x), split(y))[:2], T)


@_register("AddN", "AccumulateNV2", ignores=("N", "shape"))
def add_n(inputs: list[Value], *, T: np.dtype) -> WideInts:
  """The sum of all, modulo 2**64."""
  return _wide(functools.reduce(lambda a, b: words.add(a, b)[:2], map(split, inputs)), T)


@_register("Sub")
def sub(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """`x - y`, modulo 2**64."""
  return _wide(words.subtract(split(x), split(y)), T)


@_register("Mul")
def mul(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """`x * y`, modulo 2**64."""
  return _wide(words.multiply(split(x), split(y)), T)


@_register("Neg")
def neg(x: Value, *, T: np.dtype) -> WideInts:
  """`-x`, modulo 2**64."""
  return _wide(words.negate(split(x)), T)


@_register("Square")
def square(x: Value, *, T: np.dtype) -> WideInts:
  """`x * x`, modulo 2**64."""
  return _wide(words.multiply(split(x), split(x)), T)


@_register("Abs")
def abs_(x: Value, *, T: np.dtype) -> WideInts:
  """`x` without its sign."""
  return _wide(_magnitude(split(x), T), T)


@_register("FloorMod")
def floor_mod(x: Value, y: Value, *, T: np.dtype) -> Value:
  """Remainder with the sign of `y`; an ordinary array where a known `y` makes it small enough for one."""
  divisor = split(y)
  rest = _signed_divide(split(x), divisor, T)[1]
  if _is_signed(T):
    is_other_sign = ((rest[0] | rest[1]) != 0) & (words.is_negative(rest) != words.is_negative(divisor))
    rest = words.select(is_other_sign, words.add(rest, divisor)[:2], rest)
  return _narrowed(_wide(rest, T), y)


@_register("Mod", "TruncateMod")
def truncate_mod(x: Value, y: Value, *, T: np.dtype) -> Value:
  """Remainder with the sign of `x`; an ordinary array where a known `y` makes it small enough for one."""
  return _narrowed(_wide(_signed_divide(split(x), split(y), T)[1], T), y)


@_register("FloorDiv")
def floor_div(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """Quotient rounded towards minus infinity."""
  divisor = split(y)
  quotient, rest = _signed_divide(split(x), divisor, T)
  if _is_signed(T):
    is_above = ((rest[0] | rest[1]) != 0) & (words.is_negative(rest) != words.is_negative(divisor))
    quotient = words.select(is_above, words.subtract(quotient, _ones(quotient)), quotient)
  return _wide(quotient, T)


@_register("Div", "RealDiv", "TruncateDiv")
def truncate_div(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """Quotient rounded towards 0."""
  return _wide(_signed_divide(split(x), split(y), T)[0], T)


def _magnitude(a: Words, dtype: np.dtype) -> Words:
  return words.select(words.is_negative(a), words.negate(a), a) if _is_signed(dtype) else a


def _signed_divide(a: Words, b: Words, dtype: np.dtype) -> tuple[Words, Words]:
  """Quotient rounded towards 0, and the remainder, which has the sign of `a`."""
  quotient, rest = words.divide(_magnitude(a, dtype), _magnitude(b, dtype))
  if not _is_signed(dtype):
    return quotient, rest
  negative = words.is_negative(a)
  quotient = words.select(negative != words.is_negative(b), words.negate(quotient), quotient)
  return quotient, words.select(negative, words.negate(rest), rest)


def _ones(like: Words) -> Words:
  return jnp.ones_like(like[0]), jnp.zeros_like(like[0])


def _narrowed(rest: WideInts, divisor: Value) -> Value:
  return rest.truncated() if is_known(divisor) and fits(divisor) else rest


def _logic(op: str, function: Callable[[Any, Any], Any], doc: str) -> None:
  def by_words(x: Value, y: Value, *, T: np.dtype) -> WideInts:
    (x_low, x_high), (y_low, y_high) = split(x), split(y)
    return _wide((function(x_low, y_low), function(x_high, y_high)), T)

  by_words.__doc__ = doc
  _register(op)(by_words)


_logic("BitwiseAnd", lambda a, b: a & b, "Bits set in both.")
_logic("BitwiseOr", lambda a, b: a | b, "Bits set in either.")
_logic("BitwiseXor", lambda a, b: a ^ b, "Bits set in exactly one.")


@_register("Invert")
def invert(x: Value, *, T: np.dtype) -> WideInts:
  """Every bit flipped."""
  low, high = split(x)
  return _wide((~low, ~high), T)


@_register("LeftShift")
def left_shift(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """`x << y`, with `y` clamped to 0 to 63."""
  return _wide(words.shift_left(_traced(x), _shift_amount(y, T)), T)


@_register("RightShift")
def right_shift(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """`x >> y`, with the sign kept and `y` clamped to 0 to 63."""
  return _wide(words.shift_right(_traced(x), _shift_amount(y, T), signed=_is_signed(T)), T)


def _traced(x: Value) -> Words:
  low, high = split(x)
  return jnp.asarray(low), jnp.asarray(high)


def _shift_amount(y: Value, dtype: np.dtype) -> Array:
  low, high = _traced(y)
  amount = jnp.where((high == 0) & (low < 64), low, 63)
  return jnp.where(words.is_negative((low, high)), 0, amount) if _is_signed(dtype) else amount


@_register("PopulationCount", ignores=("T",))
def population_count(x: Value) -> Array:
  """Number of set bits in each element, as uint8."""
  low, high = _traced(x)
  return (jax.lax.population_count(low) + jax.lax.population_count(high)).astype(np.uint8)


@_register("Equal", ignores=("T",))
def equal(x: Value, y: Value, *, incompatible_shape_error: bool = True) -> Array:
  """Whether elements are equal."""
  (x_low, x_high), (y_low, y_high) = split(x), split(y)
  return (x_low == y_low) & (x_high == y_high)


@_register("NotEqual", ignores=("T",))
def not_equal(x: Value, y: Value, *, incompatible_shape_error: bool = True) -> Array:
  """Whether elements differ."""
  return ~equal(x, y)


@_register("Less")
def less(x: Value, y: Value, *, T: np.dtype) -> Array:
  """`x < y`."""
  return words.is_less(split(x), split(y), signed=_is_signed(T))


@_register("Greater")
def greater(x: Value, y: Value, *, T: np.dtype) -> Array:
  """`x > y`."""
  return words.is_less(split(y), split(x), signed=_is_signed(T))


@_register("LessEqual")
def less_equal(x: Value, y: Value, *, T: np.dtype) -> Array:
  """`x <= y`."""
  return ~greater(x, y, T=T)


@_register("GreaterEqual")
def greater_equal(x: Value, y: Value, *, T: np.dtype) -> Array:
  """`x >= y`."""
  return ~less(x, y, T=T)


@_register("Maximum")
def maximum(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """The greater one."""
  return _wide(words.select(less(x, y, T=T), split(y), split(x)), T)


@_register("Minimum")
def minimum(x: Value, y: Value, *, T: np.dtype) -> WideInts:
  """The lesser one."""
  return _wide(words.select(less(x, y, T=T), split(x), split(y)), T)


def _reduction(op: str, combine: Callable[..., WideInts], initial: Callable[[np.dtype], int]) -> None:
  def by_words(
    input: Value, reduction_indices: Static[tuple[int, ...]], *, T: np.dtype, keep_dims: bool = False
  ) -> Value:
    axes = canonical_axes(op, reduction_indices, input.ndim)
    start = [jnp.asarray(word) for word in split(np.array(initial(T), T))]

    def step(a: Words, b: Words) -> Words:
      result = combine(WideInts(*a, T), WideInts(*b, T), T=T)
      return result.low, result.high

    low, high = jax.lax.reduce(_traced(input), tuple(start), step, axes)
    shape = tuple(1 if i in axes else d for i, d in enumerate(input.shape)) if keep_dims else low.shape
    return WideInts(low, high, T).reshape(shape)

  by_words.__doc__ = f"`{op}` over axes, modulo 2**64."
  _register(op, ignores=("Tidx",))(by_words)


_reduction("Sum", add, lambda dtype: 0)
_reduction("Prod", mul, lambda dtype: 1)
_reduction("Max", maximum, lambda dtype: np.iinfo(dtype).min)
_reduction("Min", minimum, lambda dtype: np.iinfo(dtype).max)


@_register("Cast")
def cast(x: Value, *, SrcT: np.dtype, DstT: np.dtype, Truncate: bool = False) -> Value:
  """`x` converted to another dtype, to 64-bit integers or from them.

  Raises:
    UnsupportedOpError: complex numbers become 64-bit integers.
  """
  if DstT in (np.int64, np.uint64):
    return _cast_to_words(x, DstT)
  pair = split(x)
  if DstT == np.bool_:
    return (pair[0] | pair[1]) != 0
  if DstT.kind in "iu":
    return _integer_of(jnp.asarray(pair[0]), DstT)
  return words.to_float32(_traced(x), signed=_is_signed(SrcT)).astype(canonical_dtype(DstT))


def _integer_of(low: Array, dtype: np.dtype) -> Array:
  return jax.lax.bitcast_convert_type(low, np.int32).astype(dtype) if dtype.kind == "i" else low.astype(dtype)


def _cast_to_words(x: Value, dtype: np.dtype) -> WideInts:
  if isinstance(x, WideInts) or is_known(x) or not jnp.issubdtype(x.dtype, jnp.inexact):
    return widened(x, dtype)
  if dtype == np.int64 or jnp.issubdtype(x.dtype, jnp.complexfloating):
    raise UnsupportedOpError(f"Cast: from {x.dtype} to {dtype} with 64-bit types off; enable them (jax_enable_x64).")
  return _wide(words.from_float(x.astype(np.float32)), dtype)


@_register("Bitcast")
def bitcast(input: Value, *, T: np.dtype, type: np.dtype) -> Value:
  """The same bits as another dtype, from 64-bit integers or to them.

  Raises:
    UnsupportedOpError: the other dtype is a 64-bit one too, and not of integers.
  """
  if T in (np.int64, np.uint64):
    return _bits_of(widened(input, T), type)
  if T.itemsize >= 8:
    raise UnsupportedOpError(f"Bitcast: from {T} to {type} with 64-bit types off; enable them (jax_enable_x64).")
  if input.ndim == 0 or input.shape[-1] * T.itemsize != 8:
    raise InvalidInputError(
      f"Bitcast: from {T} to {type} the last dimension must be {8 // T.itemsize}; got shape {input.shape}."
    )
  low, high = _halves(jnp.asarray(input))
  return WideInts(low, high, type)


def _halves(parts: Array) -> Words:
  """Low and high words of integers given in parts along the last axis."""
  if parts.dtype.itemsize < 4:
    parts = parts.reshape(*parts.shape[:-1], 2, parts.shape[-1] // 2)
  parts = jax.lax.bitcast_convert_type(parts, np.uint32)
  return parts[..., 0], parts[..., 1]


def _bits_of(input: WideInts, dtype: np.dtype) -> Value:
  if dtype in (np.int64, np.uint64):
    return WideInts(input.low, input.high, dtype)
  if dtype.itemsize == 8:
    raise UnsupportedOpError(
      f"Bitcast: from {input.dtype} to {dtype} with 64-bit types off; enable them (jax_enable_x64)."
    )
  pairs = jax.lax.bitcast_convert_type(jnp.stack([input.low, input.high], axis=-1), dtype)
  return pairs.reshape(*input.shape, 8 // dtype.itemsize)


@_register("ClipByValue", ignores=("T",))
def clip_by_value(t: Value, clip_value_min: Value, clip_value_max: Value) -> WideInts:
  """`t` between two bounds."""
  dtype = next(v.dtype for v in (t, clip_value_min, clip_value_max) if v.dtype in (np.int64, np.uint64))
  return minimum(maximum(t, clip_value_min, T=dtype), clip_value_max, T=dtype)


@_register("OnesLike", ignores=("T",))
def ones_like(x: Value) -> Array:
  """Ones of the shape of `x`."""
  return jnp.ones_like(x.truncated()) if isinstance(x, WideInts) else jnp.ones_like(x)


@_register("ZerosLike", ignores=("T",))
def zeros_like(x: Value) -> Array:
  """Zeros of the shape of `x`."""
  return jnp.zeros_like(x.truncated()) if isinstance(x, WideInts) else jnp.zeros_like(x)
