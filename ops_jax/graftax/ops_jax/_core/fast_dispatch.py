"""`jax.lax` primitives in place of `jax.numpy` functions, where both are the same.

A `jax.numpy` function is traced as a call of a jitted function that is then inlined, which takes twice as long as
binding the primitive, and graphs are made of thousands of small ops.
"""

from collections.abc import Callable
from typing import Any

import jax

__all__ = ["short_cut"]

# Any in this module: what `jax.numpy` functions take and return.


def short_cut(primitive: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
  """`general`, or `primitive` where all operands are JAX arrays of one shape and one dtype, as most are in a graph."""

  def call(*operands: Any) -> Any:
    first = operands[0]
    for operand in operands:
      if not isinstance(operand, jax.Array) or operand.shape != first.shape or operand.dtype != first.dtype:
        return general(*operands)
    return general(*operands) if first.dtype == bool else primitive(*operands)

  return call
