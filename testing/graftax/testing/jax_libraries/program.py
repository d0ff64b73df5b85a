"""What a program is, and the derivatives that are compared."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from graftax.testing.pytrees import Leaf

__all__ = ["DOORS", "Program", "Programs", "door", "drawn", "vectors"]

Programs = Mapping[str, tuple[Any, ...]]
"""Functions with their arguments, by name."""

DOORS = ("value", "gradient", "second order")


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
  """A function that uses a JAX library.

  Attributes:
    name: unique.
    function: takes positional arrays, and returns nested arrays.
    args: its arguments as NumPy arrays.
  """

  name: str
  function: Callable[..., Array]
  args: tuple[np.ndarray, ...]


def drawn(*shape: int, low: float = 0.1, high: float = 0.9, seed: int = 0) -> np.ndarray:
  """Returns random float32 numbers between two bounds."""
  return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def door(
  function: Callable[..., Sequence[Array]], order: int, directions: Sequence[Leaf]
) -> Callable[..., list[Array]]:
  """Returns the function itself, its gradient, or a derivative of second order, as a function of flat arrays.

  The gradient is that of the results' product with fixed vectors, and the second order is the gradient of the
  gradient's product with others.

  Args:
    function: takes flat arrays and returns flat arrays.
    order: 0, 1 or 2.
    directions: the vectors for each of the orders below; see `vectors`.
  """
  found = function
  for level in range(order):
    found = _derivative(found, directions[level])
  return lambda *args: list(found(*args))


def _derivative(function: Callable[..., Sequence[Array]], directions: Sequence[Leaf]) -> Callable[..., Sequence[Array]]:
  def gradient(*args: Array) -> list[Array]:
    moving = [i for i, x in enumerate(args) if jnp.issubdtype(jnp.result_type(x), jnp.floating)]

    def total(*values: Array) -> Array:
      given = dict(zip(moving, values, strict=True))
      results = function(*(given.get(i, x) for i, x in enumerate(args)))
      kept = [y for y in results if jnp.issubdtype(y.dtype, jnp.floating)]
      return sum((jnp.vdot(y, v) for y, v in zip(kept, directions, strict=True)), jnp.zeros(()))

    return list(jax.grad(total, argnums=tuple(range(len(moving))))(*(args[i] for i in moving)))

  return gradient


def vectors(arrays: Sequence[Array | np.ndarray], seed: int) -> list[np.ndarray]:
  """Returns a random array for each array of floating point."""
  rng = np.random.default_rng(seed)
  kept = [x for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)]
  return [rng.uniform(-1, 1, x.shape).astype(x.dtype) for x in kept]
