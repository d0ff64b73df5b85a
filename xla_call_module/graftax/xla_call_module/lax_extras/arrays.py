"""Questions about arrays, and lists of them."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

__all__ = ["is_inexact", "replaced"]


def is_inexact(x: Any) -> bool:
  """Returns whether an array or spec is of floating-point or complex numbers, so that it has derivatives."""
  return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def replaced(values: Sequence[Any], positions: Sequence[int], some: Sequence[Any]) -> list[Any]:
  """Returns the values, with those at `positions` replaced by `some`."""
  full = list(values)
  for position, value in zip(positions, some, strict=True):
    full[position] = value
  return full
