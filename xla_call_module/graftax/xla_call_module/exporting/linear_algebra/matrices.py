"""Small functions of batches of matrices."""

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["adjoint", "identity", "min_dim", "product"]


def adjoint(a: Array) -> Array:
  """Returns the conjugate transpose of matrices `[..., m, n]`."""
  return jnp.conj(jnp.swapaxes(a, -1, -2))


def identity(like: Array, m: int, n: int) -> Array:
  """Returns `[..., m, n]` with ones on the diagonal, with the batch and the dtype of `like`."""
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
