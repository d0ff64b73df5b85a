"""Small helpers for arrays and lists of arrays."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

__all__ = ["is_inexact", "replaced"]


def is_inexact(x: Any) -> bool:
  """Returns whether an array or spec has a floating-point or complex dtype, and therefore derivatives."""
  return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def replaced(values: Sequence[Any], positions: Sequence[int], some: Sequence[Any]) -> list[Any]:
  """Returns the values as a list, with those at `positions` replaced by `some`."""
  full = list(values)
  for position, value in zip(positions, some, strict=True):
    full[position] = value
  return full
