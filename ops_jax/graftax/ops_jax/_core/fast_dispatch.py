"""Calls `jax.lax` primitives in place of `jax.numpy` functions, if both give the same result.

A `jax.numpy` function is traced as a call of a jitted function that is then inlined, which takes twice as long as
binding the primitive, and graphs are made of thousands of small ops.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import Array

__all__ = ["fast_dispatch"]


def fast_dispatch(primitive: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a function that calls `primitive` if all operands are JAX arrays of one shape and dtype, else `general`."""

  def call(*operands: Array) -> Array:
    # Tracers look their shapes and dtypes up in their avals, which only arrays of JAX have.
    avals = [getattr(operand, "aval", None) for operand in operands]
    first = avals[0]
    if not isinstance(first, jax.core.ShapedArray) or first.dtype == bool:
      return general(*operands)
    for aval in avals[1:]:
      if not isinstance(aval, jax.core.ShapedArray) or aval.shape != first.shape or aval.dtype != first.dtype:
        return general(*operands)
    return primitive(*operands)

  return call
