"""Arithmetic of 64-bit integers given as pairs `(low, high)` of uint32 words, numpy or JAX, of broadcastable shapes."""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value, is_known

__all__ = [
  "Words",
  "add",
  "divide",
  "from_float",
  "from_int",
  "is_less",
  "is_negative",
  "multiply",
  "negate",
  "remainder",
  "select",
  "shift_left",
  "shift_right",
  "stack",
  "subtract",
  "to_float32",
]

Words: TypeAlias = tuple[Value, Value]

_ONE = np.uint32(1), np.uint32(0)
_SIGN = np.uint32(1 << 31)


def add(a: Words, b: Words) -> tuple[Value, Value, Value]:
  """`(low, high, carry)` of the sum of two unsigned integers."""
  with np.errstate(over="ignore"):
    low = a[0] + b[0]
    carry = (low < a[0]).astype(np.uint32)
    partial = a[1] + b[1]
    high = partial + carry
    overflow = (partial < a[1]) | (high < partial)
  return low, high, overflow.astype(np.uint32)


def negate(a: Words) -> Words:
  """`-a`, modulo 2**64."""
  return add((~a[0], ~a[1]), _ONE)[:2]


def subtract(a: Words, b: Words) -> Words:
  """`a - b`, modulo 2**64."""
  return add(a, negate(b))[:2]


def multiply(a: Words, b: Words) -> Words:
  """`a * b`, modulo 2**64."""
  a0, a1, b0, b1 = jnp.broadcast_arrays(*a, *b)
  return a0 * b0, jax.lax.mulhi(a0, b0) + a0 * b1 + a1 * b0


def is_negative(a: Words) -> Value:
  """Whether the highest bit is set."""
  return a[1] >= _SIGN


def is_less(a: Words, b: Words, *, signed: bool) -> Value:
  """`a < b`."""
  high_a, high_b = (a[1] ^ _SIGN, b[1] ^ _SIGN) if signed else (a[1], b[1])
  return (high_a < high_b) | ((high_a == high_b) & (a[0] < b[0]))


def select(condition: Value, a: Words, b: Words) -> Words:
  """`a` where the condition holds, else `b`."""
  return jnp.where(condition, a[0], b[0]), jnp.where(condition, a[1], b[1])


def shift_left(a: Words, amount: Value) -> Words:
  """`a << amount`, for an amount (uint32) of 0 to 63."""
  low, high = a
  within = amount & 31
  # In two steps, since a shift by 32 is not defined.
  crossing = (low >> 1) >> (31 - within)
  return select(amount < 32, (low << within, high << within | crossing), (jnp.zeros_like(low), low << within))


def shift_right(a: Words, amount: Value, *, signed: bool) -> Words:
  """`a >> amount`, for an amount (uint32) of 0 to 63; `signed` fills with the highest bit."""
  low, high = a
  within = amount & 31
  crossing = (high << 1) << (31 - within)
  filling = jnp.where(is_negative(a) & signed, np.uint32(0xFFFFFFFF), np.uint32(0))
  shifted = high >> within | (filling << 1) << (31 - within)
  return select(amount < 32, (low >> within | crossing, shifted), (shifted, filling))


def divide(a: Words, b: Words) -> tuple[Words, Words]:
  """Quotient and remainder of unsigned integers, by long division; an unspecified number where `b` is 0."""
  if jax.config.jax_enable_x64 or all(map(is_known, (*a, *b))):
    xp = np if all(map(is_known, (*a, *b))) else jnp
    numerator, denominator = (xp.asarray(high, np.uint64) << 32 | xp.asarray(low, np.uint64) for low, high in (a, b))
    return _split(numerator // denominator), _split(numerator % denominator)
  low, high, divisor_low, divisor_high = jnp.broadcast_arrays(*a, *b)
  zeros = jnp.zeros_like(low)

  def shift_in_one_bit(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
    # The quotient's bits enter from below where the numerator's bits have left.
    low, high, rest_low, rest_high = state
    overflow = rest_high >> 31
    rest_high = rest_high << 1 | rest_low >> 31
    rest_low = rest_low << 1 | high >> 31
    low, high = low << 1, high << 1 | low >> 31
    fits = (overflow == 1) | ~is_less((rest_low, rest_high), (divisor_low, divisor_high), signed=False)
    rest = select(fits, subtract((rest_low, rest_high), (divisor_low, divisor_high)), (rest_low, rest_high))
    return (low | fits.astype(np.uint32), high, *rest)

  low, high, rest_low, rest_high = jax.lax.fori_loop(0, 64, shift_in_one_bit, (low, high, zeros, zeros))
  return (low, high), (rest_low, rest_high)


def remainder(a: Words, b: Words) -> Words:
  """`a % b` for unsigned integers; `b` must not be 0."""
  return divide(a, b)[1]


def to_float32(a: Words, *, signed: bool) -> jax.Array:
  """The nearest float32."""
  negative = jnp.broadcast_to(is_negative(a) & signed, a[1].shape)
  low, high = select(negative, negate(a), a)
  # The leading 32 bits, with the lowest telling whether any bit below is set, round to 24 bits as all 64 would.
  num_spare = jax.lax.clz(jnp.asarray(high))
  top = shift_left((low, high), jnp.minimum(num_spare, 32))
  leading = top[1] | (top[0] != 0).astype(np.uint32)
  exponent = 32 - jnp.minimum(num_spare, 32)
  scale = jax.lax.bitcast_convert_type((127 + exponent) << 23, np.float32)
  number = leading.astype(np.float32) * scale
  return jnp.where(negative, -number, number)


def from_int(value: Value) -> Words:
  """Words of a traced integer of at most 32 bits, or of a boolean; signed ones are sign-extended."""
  if jnp.issubdtype(value.dtype, jnp.signedinteger):
    value = value.astype(np.int32)
    return jax.lax.bitcast_convert_type(value, np.uint32), jax.lax.bitcast_convert_type(value >> 31, np.uint32)
  return value.astype(np.uint32), jnp.zeros(value.shape, np.uint32)


def from_float(value: Value) -> Words:
  """Words of the unsigned integer below a float32, as TensorFlow casts it.

  Negative numbers wrap from -2**63 on; 2**63 stands for what is out of range.
  """
  value = jnp.trunc(value)
  is_inside = (value >= np.float32(-(2.0**63))) & (value < np.float32(2.0**64))
  magnitude = jnp.where(is_inside, jnp.abs(value), 0)
  high = jnp.floor(magnitude * np.float32(2.0**-32))
  words = (magnitude - high * np.float32(2.0**32)).astype(np.uint32), high.astype(np.uint32)
  words = select(value < 0, negate(words), words)
  return select(is_inside, words, (jnp.zeros_like(words[0]), jnp.full_like(words[1], _SIGN)))


def stack(words: tuple[Value, ...]) -> Value:
  """A vector of words, known if all of them are."""
  return np.stack(words) if all(map(is_known, words)) else jnp.stack([jnp.asarray(word) for word in words])


def _split(value: Value) -> Words:
  return value.astype(np.uint32), (value >> 32).astype(np.uint32)
