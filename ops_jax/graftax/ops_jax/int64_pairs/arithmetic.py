"""Arithmetic of 64-bit integers given as two uint32 arrays `(low, high)`, numpy or JAX.

The arrays have broadcastable shapes. All results are modulo 2**64. Signed integers are in two's complement, so most
functions are the same for both.
"""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value, is_known
from graftax.xla_call_module.lax_extras import add_halves, mulhi

__all__ = [
  "Halves",
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

Halves: TypeAlias = tuple[Value, Value]

_ONE = np.uint32(1), np.uint32(0)
_SIGN = np.uint32(1 << 31)


def negate(a: Halves) -> Halves:
  """Returns `-a`."""
  return add_halves((~a[0], ~a[1]), _ONE)[:2]


def subtract(a: Halves, b: Halves) -> Halves:
  """Returns `a - b`."""
  return add_halves(a, negate(b))[:2]


def multiply(a: Halves, b: Halves) -> Halves:
  """Returns `a * b`."""
  a0, a1, b0, b1 = jnp.broadcast_arrays(*a, *b)
  return a0 * b0, mulhi(a0, b0) + a0 * b1 + a1 * b0


def is_negative(a: Halves) -> Value:
  """Returns whether the highest bit is set."""
  return a[1] >= _SIGN


def is_less(a: Halves, b: Halves, *, signed: bool) -> Value:
  """Returns `a < b`."""
  high_a, high_b = (a[1] ^ _SIGN, b[1] ^ _SIGN) if signed else (a[1], b[1])
  return (high_a < high_b) | ((high_a == high_b) & (a[0] < b[0]))


def select(condition: Value, a: Halves, b: Halves) -> Halves:
  """Returns `a` where the condition is true, and `b` elsewhere."""
  return jnp.where(condition, a[0], b[0]), jnp.where(condition, a[1], b[1])


def shift_left(a: Halves, amount: Value) -> Halves:
  """Returns `a << amount`, for an amount (uint32) from 0 to 63."""
  low, high = a
  within = amount & 31
  # Shift in two steps, because a shift by 32 is undefined.
  crossing = (low >> 1) >> (31 - within)
  return select(amount < 32, (low << within, high << within | crossing), (jnp.zeros_like(low), low << within))


def shift_right(a: Halves, amount: Value, *, signed: bool) -> Halves:
  """Returns `a >> amount`, for an amount (uint32) from 0 to 63; `signed` repeats the highest bit."""
  low, high = a
  within = amount & 31
  crossing = (high << 1) << (31 - within)
  filling = jnp.where(is_negative(a) & signed, np.uint32(0xFFFFFFFF), np.uint32(0))
  shifted = high >> within | (filling << 1) << (31 - within)
  return select(amount < 32, (low >> within | crossing, shifted), (shifted, filling))


def divide(a: Halves, b: Halves) -> tuple[Halves, Halves]:
  """Returns quotient and remainder of unsigned integers; both are unspecified if `b` is 0."""
  if jax.config.jax_enable_x64 or all(map(is_known, (*a, *b))):
    xp = np if all(map(is_known, (*a, *b))) else jnp
    numerator, denominator = (xp.asarray(high, np.uint64) << 32 | xp.asarray(low, np.uint64) for low, high in (a, b))
    return _split(numerator // denominator), _split(numerator % denominator)
  low, high, divisor_low, divisor_high = jnp.broadcast_arrays(*a, *b)
  zeros = jnp.zeros_like(low)

  def shift_in_one_bit(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
    # Long division: `low, high` holds the rest of the numerator above the bits of the quotient found so far.
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


def remainder(a: Halves, b: Halves) -> Halves:
  """Returns `a % b` for unsigned integers; unspecified if `b` is 0."""
  return divide(a, b)[1]


def to_float32(a: Halves, *, signed: bool) -> jax.Array:
  """Returns the nearest float32."""
  negative = jnp.broadcast_to(is_negative(a) & signed, a[1].shape)
  low, high = select(negative, negate(a), a)
  # Keep the leading 32 bits, with the lowest set if any bit below is set: they round to 24 bits as all 64 would.
  num_spare = jax.lax.clz(jnp.asarray(high))
  top = shift_left((low, high), jnp.minimum(num_spare, 32))
  leading = top[1] | (top[0] != 0).astype(np.uint32)
  exponent = 32 - jnp.minimum(num_spare, 32)
  scale = jax.lax.bitcast_convert_type((127 + exponent) << 23, np.float32)
  number = leading.astype(np.float32) * scale
  return jnp.where(negative, -number, number)


def from_int(value: Value) -> Halves:
  """Splits traced integers of at most 32 bits, or booleans; signed integers are sign-extended."""
  if jnp.issubdtype(value.dtype, jnp.signedinteger):
    value = value.astype(np.int32)
    return jax.lax.bitcast_convert_type(value, np.uint32), jax.lax.bitcast_convert_type(value >> 31, np.uint32)
  return value.astype(np.uint32), jnp.zeros(value.shape, np.uint32)


def from_float(value: Value) -> Halves:
  """Converts float32 to unsigned 64-bit integers by truncation, as TensorFlow casts them.

  Negative numbers from -2**63 wrap. Numbers out of range, and NaN, give 2**63.
  """
  value = jnp.trunc(value)
  is_inside = (value >= np.float32(-(2.0**63))) & (value < np.float32(2.0**64))
  magnitude = jnp.where(is_inside, jnp.abs(value), 0)
  high = jnp.floor(magnitude * np.float32(2.0**-32))
  halves = (magnitude - high * np.float32(2.0**32)).astype(np.uint32), high.astype(np.uint32)
  halves = select(value < 0, negate(halves), halves)
  return select(is_inside, halves, (jnp.zeros_like(halves[0]), jnp.full_like(halves[1], _SIGN)))


def stack(scalars: tuple[Value, ...]) -> Value:
  """Stacks scalars into a vector; the result is known if all scalars are known."""
  return np.stack(scalars) if all(map(is_known, scalars)) else jnp.stack([jnp.asarray(scalar) for scalar in scalars])


def _split(value: Value) -> Halves:
  return value.astype(np.uint32), (value >> 32).astype(np.uint32)
