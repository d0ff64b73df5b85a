"""LU decomposition with row pivoting."""

import jax
import jax.numpy as jnp
from jax import Array

from graftax.xla_call_module.lax_extras.matrices import min_dim, product

__all__ = ["lu", "pivots_to_permutation"]

# Each block is compiled on its own.
_BLOCK = 128


def lu(a: Array) -> tuple[Array, Array, Array]:
  """Returns `(lu, pivots, permutation)` of matrices `[..., m, n]`; see `jax.lax.linalg.lu`."""
  decompose = _blocked if all(isinstance(dim, int) for dim in a.shape[-2:]) else _unblocked
  for _ in range(a.ndim - 2):
    decompose = jax.vmap(decompose)
  return decompose(a)


def pivots_to_permutation(pivots: Array, *, permutation_size: int) -> Array:
  """Returns the permutation of rows that exchanges of rows lead to; see `jax.lax.linalg.lu_pivots_to_permutation`."""

  def permute(pivots: Array) -> Array:
    start = jnp.arange(permutation_size, dtype=jnp.int32)
    return jax.lax.fori_loop(0, pivots.shape[0], lambda k, rows: _exchange(rows, k, pivots[k]), start)

  for _ in range(pivots.ndim - 1):
    permute = jax.vmap(permute)
  return permute(pivots)


def _blocked(a: Array) -> tuple[Array, Array, Array]:
  m, n = a.shape
  rank = min(m, n)
  pivots, permutation = jnp.zeros((rank,), jnp.int32), jnp.arange(m, dtype=jnp.int32)
  for start in range(0, rank, _BLOCK):
    stop = min(start + _BLOCK, rank)
    panel, panel_pivots, order = _unblocked(a[start:, start:stop])
    pivots = pivots.at[start:stop].set(panel_pivots + start)
    permutation = permutation.at[start:].set(permutation[start:][order])
    a = a.at[start:].set(a[start:][order]).at[start:, start:stop].set(panel)
    if stop < n:
      upper = jax.lax.linalg.triangular_solve(
        panel[: stop - start], a[start:stop, stop:], left_side=True, lower=True, unit_diagonal=True
      )
      rest = a[stop:, stop:] - product(panel[stop - start :], upper)
      a = a.at[start:stop, stop:].set(upper).at[stop:, stop:].set(rest)
  return a, pivots, permutation


def _unblocked(a: Array) -> tuple[Array, Array, Array]:
  m, n = a.shape
  rows, columns = jnp.arange(m), jnp.arange(n)
  rank = min_dim(m, n)
  if m == 0 or n == 0:
    return a, jnp.zeros((rank,), jnp.int32), rows.astype(jnp.int32)

  def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    a, pivots, permutation = state
    column = a[:, k]
    # LAPACK compares complex numbers by this norm, too.
    size = jnp.abs(column.real) + jnp.abs(column.imag) if jnp.iscomplexobj(a) else jnp.abs(column)
    pivot = jnp.argmax(jnp.where(rows >= k, size, -1)).astype(jnp.int32)
    a, permutation = _exchange(a, k, pivot), _exchange(permutation, k, pivot)
    head = a[k, k]
    below = jnp.where(rows > k, a[:, k] / jnp.where(head == 0, 1, head), 0)
    right = jnp.where(columns > k, a[k], 0)
    a = a.at[:, k].set(jnp.where(rows > k, below, a[:, k])) - below[:, None] * right
    return a, pivots.at[k].set(pivot), permutation

  return jax.lax.fori_loop(0, rank, step, (a, jnp.zeros((rank,), jnp.int32), rows.astype(jnp.int32)))


def _exchange(x: Array, i: Array, j: Array) -> Array:
  first, second = x[i], x[j]
  return x.at[i].set(second).at[j].set(first)
