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
    first = operands[0]
    for operand in operands:
      if not isinstance(operand, jax.Array) or operand.shape != first.shape or operand.dtype != first.dtype:
        return general(*operands)
    return general(*operands) if first.dtype == bool else primitive(*operands)

  return call
