"""Small functions of batches of matrices."""

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["adjoint", "identity_like", "min_dim", "product", "safe_scale"]


def adjoint(a: Array) -> Array:
  """Returns the conjugate transpose of matrices `[..., m, n]`."""
  return jnp.conj(jnp.swapaxes(a, -1, -2))


def identity_like(like: Array, m: int, n: int) -> Array:
  """Returns identity matrices with the batch and the dtype of other matrices.

  Args:
    like: `[..., i, j]`, of any sizes `i` and `j`.
    m: the number of rows.
    n: the number of columns.

  Returns:
    `[..., m, n]`, with ones on the diagonal.

  Example:
    >>> identity_like(jnp.zeros((3, 3)), 1, 2)
    Array([[1., 0.]], dtype=float32)
  """
  return jnp.broadcast_to(jnp.eye(m, n, dtype=like.dtype), (*like.shape[:-2], m, n))


def product(a: Array, b: Array) -> Array:
  """Returns the matrix product in full precision."""
  return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def min_dim(m: int, n: int) -> int:
  """Returns the smaller of two dimensions. For symbolic ones it is an expression, if no comparison tells."""
  if isinstance(m, int) and isinstance(n, int):
    return min(m, n)
  # JAX's function for this is private; the shape rule of LU is not.
  _, pivots, _ = jax.eval_shape(jax.lax.linalg.lu, jax.ShapeDtypeStruct((m, n), jnp.float32))
  return pivots.shape[0]


def safe_scale(a: Array) -> Array:
  """Returns what to divide each matrix by so that squares of entries neither overflow nor underflow.

  Args:
    a: `[..., m, n]`, real or complex, with `m` and `n` above 0.

  Returns:
    `[..., 1, 1]`, real: the largest absolute entry of matrices whose squares would leave the range, and 1 for all
    others.

  Example:
    >>> safe_scale(jnp.array([[3.0], [1e30]]))
    Array([[1.e+30]], dtype=float32)
  """
  limits = jnp.finfo(a.dtype)
  smallest, largest = limits.tiny**0.5 / limits.eps, limits.max**0.5 * limits.eps
  size = jnp.max(jnp.abs(a), axis=(-2, -1), keepdims=True)
  is_far = ((size < smallest) & (size > 0)) | ((size > largest) & jnp.isfinite(size))
  return jnp.where(is_far, size, 1)
