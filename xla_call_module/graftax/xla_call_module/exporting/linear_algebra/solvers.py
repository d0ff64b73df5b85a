"""Cholesky decomposition, triangular and tridiagonal systems."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Primitive

from graftax.xla_call_module import mlir

__all__ = [
  "cholesky",
  "cholesky_by_columns",
  "triangular_solve",
  "triangular_solve_by_rows",
  "tridiagonal_solve",
]

_cholesky_p = Primitive("stablehlo_cholesky")
_cholesky_p.def_abstract_eval(lambda a: a)
mlir.register_lowering(_cholesky_p, mlir.lower_cholesky)

_triangular_solve_p = Primitive("stablehlo_triangular_solve")
_triangular_solve_p.def_abstract_eval(lambda a, b, **_: b)
mlir.register_lowering(_triangular_solve_p, mlir.lower_triangular_solve)


def cholesky(a: Array) -> Array:
  """Returns the lower factor of Hermitian matrices `[..., n, n]`; all NaN if a matrix is not positive definite."""
  if a.shape[-1] == 0:
    return a
  return _nan_if_failed(_cholesky_p.bind(a))


def cholesky_by_columns(a: Array) -> Array:
  """Returns what `cholesky` does, with a loop in place of `stablehlo.cholesky`."""
  if a.shape[-1] == 0:
    return a
  rows = jnp.arange(a.shape[-1])

  def add_column(j: Array, factor: Array) -> Array:
    row = jax.lax.dynamic_index_in_dim(factor, j, -2, keepdims=False)
    column = jax.lax.dynamic_index_in_dim(a, j, -1, keepdims=False)
    column -= jnp.einsum("...ij,...j->...i", factor, row.conj(), precision="highest")
    pivot = jnp.sqrt(jax.lax.dynamic_index_in_dim(column, j, -1).real).astype(a.dtype)
    return jax.lax.dynamic_update_index_in_dim(factor, jnp.where(rows >= j, column / pivot, 0), j, -1)

  return _nan_if_failed(jax.lax.fori_loop(0, a.shape[-1], add_column, jnp.zeros_like(a)))


def _nan_if_failed(factor: Array) -> Array:
  # XLA's expansion leaves NaN from the column on in which it fails; LAPACK's callers get NaN everywhere.
  failed = jnp.isnan(factor).any(axis=(-2, -1), keepdims=True)
  return jnp.where(failed, jnp.full((), jnp.nan, factor.dtype), factor)


def triangular_solve(
  a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
  """Returns the solution of triangular systems; see `jax.lax.linalg.triangular_solve`."""
  if 0 in b.shape:
    return b
  if conjugate_a and not transpose_a:
    a, conjugate_a = jnp.conj(a), False
  transpose = "NO_TRANSPOSE" if not transpose_a else "ADJOINT" if conjugate_a else "TRANSPOSE"
  return _triangular_solve_p.bind(
    a, b, left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, transpose=transpose
  )


def triangular_solve_by_rows(
  a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
  """Returns what `triangular_solve` does, with a loop in place of `stablehlo.triangular_solve`."""
  if 0 in b.shape:
    return b
  if not left_side:
    options = {"lower": lower, "transpose_a": not transpose_a, "conjugate_a": conjugate_a}
    transposed = triangular_solve_by_rows(a, b.mT, left_side=True, unit_diagonal=unit_diagonal, **options)
    return transposed.mT
  a = jnp.conj(a) if conjugate_a else a
  if transpose_a:
    a, lower = a.mT, not lower
  length = a.shape[-1]
  diagonal = jnp.diagonal(a, axis1=-2, axis2=-1)
  others = jnp.tril(a, -1) if lower else jnp.triu(a, 1)

  def add_row(step: Array, x: Array) -> Array:
    i = step if lower else length - 1 - step
    weights = jax.lax.dynamic_index_in_dim(others, i, -2, keepdims=False)
    known = jnp.einsum("...j,...jk->...k", weights, x, precision="highest")
    row = jax.lax.dynamic_index_in_dim(b, i, -2, keepdims=False) - known
    if not unit_diagonal:
      row = row / jax.lax.dynamic_index_in_dim(diagonal, i, -1)
    return jax.lax.dynamic_update_index_in_dim(x, row, i, -2)

  return jax.lax.fori_loop(0, length, add_row, jnp.zeros_like(b))


def tridiagonal_solve(lower: Array, diagonal: Array, upper: Array, b: Array, **options: Any) -> Array:
  """Returns the solution of tridiagonal systems by elimination with row pivoting, as LAPACK does.

  Args:
    lower: `[..., n]`, the first entry is not used.
    diagonal: `[..., n]`.
    upper: `[..., n]`, the last entry is not used.
    b: `[..., n, k]`.
    options: `perturb_singular`, which has an effect on GPUs only.
  """
  del options
  solve = _tridiagonal_solve
  for _ in range(diagonal.ndim - 1):
    solve = jax.vmap(solve)
  return solve(lower, diagonal, upper, b)


def _tridiagonal_solve(lower: Array, diagonal: Array, upper: Array, b: Array) -> Array:
  upper = upper.at[-1].set(0)

  def eliminate(row: tuple[Array, Array, Array], below: tuple[Array, ...]) -> tuple[Any, tuple[Array, ...]]:
    pivot, right, value = row
    left, middle, far, other = below
    swap = jnp.abs(left) > jnp.abs(pivot)
    upper_row = [jnp.where(swap, y, x) for x, y in ((pivot, left), (right, middle), (0, far), (value, other))]
    lower_row = [jnp.where(swap, x, y) for x, y in ((pivot, left), (right, middle), (0, far), (value, other))]
    factor = lower_row[0] / upper_row[0]
    return tuple(y - factor * x for x, y in zip(upper_row[1:], lower_row[1:], strict=True)), tuple(upper_row)

  def substitute(below: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
    first, second = below
    pivot, right, far, value = row
    x = (value - right * first - far * second) / pivot
    return (x, first), x

  (pivot, _, value), rows = jax.lax.scan(
    eliminate, (diagonal[0], upper[0], b[0]), (lower[1:], diagonal[1:], upper[1:], b[1:])
  )
  last = value / pivot
  _, x = jax.lax.scan(substitute, (last, jnp.zeros_like(last)), rows, reverse=True)
  return jnp.concatenate([x, last[None]])
