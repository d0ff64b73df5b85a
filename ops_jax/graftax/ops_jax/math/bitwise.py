"""Bits of integers: BitwiseAnd, Invert, LeftShift, PopulationCount. Dtype and broadcast shape are kept."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "population_count", "right_shift"]


@register("BitwiseAnd", ignores=("T",))
def bitwise_and(x: Array, y: Array) -> Array:
  """Returns the bits that are set in both."""
  return keep_known(np.bitwise_and, jnp.bitwise_and, x, y)


@register("BitwiseOr", ignores=("T",))
def bitwise_or(x: Array, y: Array) -> Array:
  """Returns the bits that are set in at least one."""
  return keep_known(np.bitwise_or, jnp.bitwise_or, x, y)


@register("BitwiseXor", ignores=("T",))
def bitwise_xor(x: Array, y: Array) -> Array:
  """Returns the bits that are set in exactly one."""
  return keep_known(np.bitwise_xor, jnp.bitwise_xor, x, y)


@register("Invert", ignores=("T",))
def invert(x: Array) -> Array:
  """Flips every bit."""
  return keep_known(np.invert, jnp.invert, x)


@register("LeftShift", ignores=("T",))
def left_shift(x: Array, y: Array) -> Array:
  """Returns `x << y`, with `y` clamped to the valid shifts of the type."""
  return _shifted(np.left_shift, jnp.left_shift, x, y)


@register("RightShift", ignores=("T",))
def right_shift(x: Array, y: Array) -> Array:
  """Returns `x >> y` with the sign kept, and `y` clamped to the valid shifts of the type."""
  return _shifted(np.right_shift, jnp.right_shift, x, y)


@register("PopulationCount", ignores=("T",))
def population_count(x: Array) -> Array:
  """Returns the number of set bits in each element, as uint8."""
  return lax.population_count(jnp.asarray(x)).astype(np.uint8)


def _shifted(np_shift: Callable[..., Any], jax_shift: Callable[..., Any], x: Array, y: Array) -> Array:
  def clamped(number: Array) -> Array:
    return number.clip(0, number.dtype.itemsize * 8 - 1)

  return keep_known(lambda x, y: np_shift(x, clamped(y)), lambda x, y: jax_shift(x, clamped(jnp.asarray(y))), x, y)
