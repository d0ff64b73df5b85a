"""Triangular systems and Cholesky decompositions by substitution, for consumers without these ops."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

__all__ = ["cholesky", "solve"]

_MAX_UNROLLED = 16


def cholesky(x: jax.Array) -> jax.Array:
  """Returns the lower triangles of real matrices, column by column; NaN for those that are not positive definite."""
  size = x.shape[-1]
  rows = jnp.arange(size)

  def with_column(j: jax.Array | int, factor: jax.Array) -> jax.Array:
    here = rows == j
    column = _picked(x, here, -1)
    rest = column - (factor * _picked(factor, here, -2)[..., None, :]).sum(-1)
    scaled = rest / jnp.sqrt(_picked(rest, here, -1))[..., None]
    return jnp.where(here, jnp.where(rows >= j, scaled, 0)[..., None], factor)

  found = _repeated(size, with_column, jnp.zeros_like(x))
  is_positive = (jnp.where(rows[:, None] == rows, found, 1) > 0).all((-1, -2))
  return jnp.where(is_positive[..., None, None], found, jnp.nan)


def solve(a: jax.Array, y: jax.Array, *, lower: bool, unit_diagonal: bool) -> jax.Array:
  """Returns the solutions of real triangular systems `a x = y`, row by row."""
  size = a.shape[-1]
  rows = jnp.arange(size)

  def with_row(i: jax.Array | int, x: jax.Array) -> jax.Array:
    j = i if lower else size - 1 - i
    here = rows == j
    column = _picked(a, here, -1)
    row = _picked(x, here, -2)
    solved = row if unit_diagonal else row / _picked(column, here, -1)[..., None]
    later = jnp.where(rows > j if lower else rows < j, column, 0)
    return jnp.where(here[:, None], solved[..., None, :], x - later[..., None] * solved[..., None, :])

  return _repeated(size, with_row, y)


def _picked(x: jax.Array, here: jax.Array, axis: int) -> jax.Array:
  """Returns the place along an axis that a mask tells; what is elsewhere, such as NaN, has no effect."""
  return jnp.where(here if axis == -1 else here[:, None], x, 0).sum(axis)


def _repeated(number: int, step: Callable[[jax.Array | int, jax.Array], jax.Array], x: jax.Array) -> jax.Array:
  if number > _MAX_UNROLLED:
    found: jax.Array = jax.lax.fori_loop(0, number, step, x)
    return found
  for i in range(number):
    x = step(i, x)
  return x
