"""Small helpers for arrays and lists of arrays."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from graftax.xla_call_module.jax_versions import mulhi

__all__ = ["ArrayFunction", "divided_axes", "is_inexact", "mulhi", "replaced"]

ArrayFunction: TypeAlias = Callable[..., Any]
"""A function of arrays, or of pytrees of arrays; the docstring that names it says what it takes and returns."""


def is_inexact(x: Any) -> bool:
  """Returns whether an array or spec has a floating-point or complex dtype, and therefore derivatives.

  Example:
    >>> is_inexact(jnp.zeros(2, "bfloat16")), is_inexact(jnp.zeros(2, "int32"))
    (True, False)
  """
  return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def divided_axes(x: Any) -> tuple[int, ...]:
  """Returns the axes of an array that a mesh with Explicit axes divides among devices, as its type says.

  Example:
    >>> divided_axes(jnp.zeros((2, 3)))
    ()
  """
  return tuple(axis for axis, name in enumerate(jax.typeof(x).sharding.spec) if name is not None)


def replaced(values: Sequence[Any], positions: Sequence[int], some: Sequence[Any]) -> list[Any]:
  """Returns the values as a list, with those at `positions` replaced by `some`.

  Args:
    values: not changed.
    positions: indices into `values`, one per entry of `some`. The last one counts if an index occurs twice.
    some: the new values, as many as positions.

  Raises:
    ValueError: there are not as many positions as new values.

  Example:
    >>> replaced("abc", [0, 2], ["x", "z"])
    ['x', 'b', 'z']
  """
  full = list(values)
  for position, value in zip(positions, some, strict=True):
    full[position] = value
  return full
