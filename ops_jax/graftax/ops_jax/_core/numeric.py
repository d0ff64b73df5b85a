"""Numeric helpers that many lowerings share: rounding, and finite limits of dtypes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.values import Array

__all__ = ["highest_finite", "invalid", "lowest_finite", "rank_keys", "round_half_away", "search_sorted"]


def round_half_away(x: Array) -> Array:
  """Rounds floating-point numbers to the nearest integer, halves away from 0, as C's `round`. The derivative is 0.

  Example:
    >>> round_half_away(np.float32([0.5, -2.5, 0.49999997])).tolist()
    [1.0, -3.0, 0.0]
  """
  # Not trunc(x + 0.5): the sum is rounded, so 0.49999997 would become 1.
  return lax.round(jnp.asarray(x), lax.RoundingMethod.AWAY_FROM_ZERO)


def invalid(dtype: Any) -> np.ndarray:
  """Returns the scalar that marks an invalid number: NaN, the least signed or greatest unsigned integer, or true."""
  if jnp.issubdtype(dtype, jnp.inexact):
    return np.asarray(np.nan, dtype)
  if np.dtype(dtype).kind == "b":
    return np.asarray(True)
  return np.asarray(jnp.iinfo(dtype).min or jnp.iinfo(dtype).max, dtype)


def lowest_finite(dtype: Any) -> np.ndarray:
  """Returns the least finite value of a real dtype, as a scalar."""
  return np.asarray(_limits(dtype).min, dtype)


def search_sorted(ordered: Array, values: Array, side: str = "left") -> jax.Array:
  """Returns `jnp.searchsorted(ordered, values, side)` as int32, also if the number of sorted elements is symbolic.

  Example:
    >>> search_sorted(jnp.array([1, 3, 3, 5]), jnp.array([3, 9, 0])).tolist()
    [1, 4, 0]
  """
  ordered, values = jnp.asarray(ordered), jnp.asarray(values)
  size = ordered.shape[0]
  if isinstance(size, int):
    return jnp.searchsorted(ordered, values, side=side).astype(np.int32)
  # JAX 0.12 searches in a known number of elements only. Sizes have 31 bits.

  def is_before(x: jax.Array) -> jax.Array:
    # NaN comes after all numbers, as in `jnp.searchsorted`.
    if side == "left":
      return (x < values) | (jnp.isnan(values) & ~jnp.isnan(x))
    return (x <= values) | jnp.isnan(values)

  def halve(_: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    low, high = ends
    middle = low + (high - low) // 2
    goes_up = is_before(ordered.at[middle].get(mode="clip")) & (low < high)
    return jnp.where(goes_up, middle + 1, low), jnp.where(goes_up, high, middle)

  low = jnp.zeros(values.shape, np.int32)
  return lax.fori_loop(0, 31, halve, (low, jnp.full(values.shape, size, np.int32)))[0]


def rank_keys(x: jax.Array) -> jax.Array:
  """Returns integers in the order in which `jax.lax.top_k` ranks elements with zeros of both signs as equal.

  No integer is a NaN, so that padding with the least one is behind all elements: as a floating-point number, it would
  have to be NaN with a negative sign, which not every implementation ranks last.
  """
  if not jnp.issubdtype(x.dtype, jnp.floating):
    return x
  unsigned_zeros = jnp.where(x == 0, jnp.zeros((), x.dtype), x)
  bits = lax.bitcast_convert_type(unsigned_zeros, jnp.dtype(f"int{8 * x.dtype.itemsize}"))
  return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def highest_finite(dtype: Any) -> np.ndarray:
  """Returns the greatest finite value of a real dtype, as a scalar."""
  return np.asarray(_limits(dtype).max, dtype)


def _limits(dtype: Any) -> Any:
  return jnp.finfo(dtype) if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype)
