"""Means of integers, with sums of 64 bits even if JAX's 64-bit types are off."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.values import Array

__all__ = ["integer_mean"]


def integer_mean(x: Array, axes: tuple[int, ...], keep_dims: bool, num_elements: Any = None) -> jax.Array:
  """Computes means over axes, rounded towards 0, and 0 for no elements; the sum is exact up to 64 bits.

  Args:
    x: any shape, integer.
    axes: axes to reduce, not negative.
    keep_dims: keep them with size 1.
    num_elements: how many elements are averaged, a scalar that may be traced, if some of those of `x` are padding of 0;
      by default all are.

  Returns:
    The remaining axes, dtype of `x`.
  """
  x = jnp.asarray(x)
  count: Any = 1
  for axis in axes:
    count = count * x.shape[axis]
  is_signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
  largest = int(jnp.iinfo(x.dtype).max) + 1
  if isinstance(count, int) and count * largest <= 2**31:
    total = jnp.sum(x, axes, dtype=np.int32 if is_signed else np.uint32)
  elif jax.config.jax_enable_x64:
    total = jnp.sum(x, axes, dtype=np.int64 if is_signed else np.uint64)
  else:
    total = None
  count = count if num_elements is None else num_elements
  if total is None:
    mean = _mean_by_words(x, axes, count, is_signed)
  else:
    mean = lax.div(total, jnp.maximum(jnp.full_like(total, count), 1))
  mean = mean.astype(x.dtype)
  return lax.expand_dims(mean, axes) if keep_dims else mean


def _mean_by_words(x: jax.Array, axes: tuple[int, ...], count: Any, is_signed: bool) -> jax.Array:
  """Computes the mean by a sum of two 32-bit words and a long division, as uint32 that wraps."""
  if is_signed:
    x = x.astype(np.int32)
    words = lax.bitcast_convert_type(x, np.uint32), lax.bitcast_convert_type(x >> 31, np.uint32)
  else:
    words = x.astype(np.uint32), jnp.zeros(x.shape, np.uint32)
  zero = np.uint32(0)
  low, high = lax.reduce(words, (zero, zero), _added, axes)
  is_negative = (high >> 31) == 1 if is_signed else jnp.zeros(high.shape, bool)
  low, high = _negated_where(is_negative, low, high)
  quotient = _quotient(low, high, jnp.maximum(jnp.asarray(count, np.uint32), 1))
  return lax.bitcast_convert_type(jnp.where(is_negative, -quotient, quotient), np.int32 if is_signed else np.uint32)


def _added(a: Any, b: Any) -> tuple[Array, Array]:
  low = a[0] + b[0]
  return low, a[1] + b[1] + (low < a[0]).astype(np.uint32)


def _negated_where(condition: Array, low: Array, high: Array) -> tuple[Array, Array]:
  negated_low = ~low + np.uint32(1)
  negated_high = ~high + (negated_low == 0).astype(np.uint32)
  return jnp.where(condition, negated_low, low), jnp.where(condition, negated_high, high)


def _quotient(low: Array, high: Array, divisor: Array) -> Array:
  # A mean is not larger than the numbers, so the quotient has one word and `high` starts below the divisor. The divisor
  # is less than 2 ** 31, so the remainder can be doubled.
  def shift_in_one_bit(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    rest, low, quotient = state
    rest = rest << 1 | low >> 31
    fits = rest >= divisor
    return jnp.where(fits, rest - divisor, rest), low << 1, quotient << 1 | fits.astype(np.uint32)

  return lax.fori_loop(0, 32, shift_in_one_bit, (high, low, jnp.zeros_like(low)))[2]
