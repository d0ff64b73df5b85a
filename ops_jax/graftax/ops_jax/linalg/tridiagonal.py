"""Tridiagonal matrices: TridiagonalSolve, TridiagonalMatMul."""

import jax
import jax.numpy as jnp

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["tridiagonal_mat_mul", "tridiagonal_solve"]


@register("TridiagonalSolve", ignores=("T", "partial_pivoting", "perturb_singular"))
def tridiagonal_solve(diagonals: Array, rhs: Array) -> Array:
  """Solves tridiagonal linear systems, with partial pivoting.

  Source op: `tf.raw_ops.TridiagonalSolve`.

  Args:
    diagonals: `[..., 3, n]`, float32, float64 or complex: above, on and below the main diagonal. The last element of
      the first and the first of the last row are not read.
    rhs: `[..., n, k]`, dtype of `diagonals`.

  Returns:
    Shape and dtype of `rhs`.

  Raises:
    InvalidInputError: the shapes do not fit.

  Differs from TF: pivots also with `partial_pivoting=False`, which changes only the rounding; a singular matrix gives
    infinities or NaN instead of raising an error, or with `perturb_singular` the solution for one close to it; the
    gradient of complex systems is conjugated, as that of the dense solve is, where TensorFlow's is not.
  """
  diagonals, rhs = jnp.asarray(diagonals), jnp.asarray(rhs)
  if diagonals.ndim < 2 or diagonals.shape[-2] != 3 or rhs.shape[:-1] != (*diagonals.shape[:-2], diagonals.shape[-1]):
    raise InvalidInputError(
      f"TridiagonalSolve: shapes {diagonals.shape} and {rhs.shape}; expected [..., 3, n] and [..., n, k]."
    )
  size = diagonals.shape[-1]
  if 0 in rhs.shape:
    return rhs
  if size == 1:
    return rhs / diagonals[..., 1, :, None]
  above = diagonals[..., 0, :].at[..., -1].set(0)
  below = diagonals[..., 2, :].at[..., 0].set(0)
  return jax.lax.linalg.tridiagonal_solve(below, diagonals[..., 1, :], above, rhs)


@register("TridiagonalMatMul", ignores=("T",))
def tridiagonal_mat_mul(superdiag: Array, maindiag: Array, subdiag: Array, rhs: Array) -> Array:
  """Multiplies tridiagonal matrices with dense ones.

  Source op: `tf.raw_ops.TridiagonalMatMul`.

  Args:
    superdiag: `[..., 1, n]`, float32, float64 or complex; the last element is not read.
    maindiag: `[..., 1, n]`, dtype of `superdiag`.
    subdiag: `[..., 1, n]`, dtype of `superdiag`; the first element is not read.
    rhs: `[..., n, k]`, dtype of `superdiag`.

  Returns:
    Shape and dtype of `rhs`.
  """
  above, middle, below = (jnp.swapaxes(jnp.asarray(d), -1, -2) for d in (superdiag, maindiag, subdiag))
  rhs = jnp.asarray(rhs)
  nothing = jnp.zeros_like(rhs[..., :1, :])
  from_next = jnp.concatenate([above[..., :-1, :] * rhs[..., 1:, :], nothing], axis=-2)
  from_previous = jnp.concatenate([nothing, below[..., 1:, :] * rhs[..., :-1, :]], axis=-2)
  return middle * rhs + from_next + from_previous
