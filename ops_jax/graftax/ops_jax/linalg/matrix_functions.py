"""Functions of matrices: MatrixExponential, MatrixSquareRoot, MatrixLogarithm."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.linalg.decompositions import as_matrices, compute_dtype
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["matrix_exponential", "matrix_logarithm", "matrix_square_root"]

# Square roots are taken until the matrix is this close to the identity; then the quadrature is exact up to rounding.
_NEAR_IDENTITY = 0.25
_MAX_ROOTS = 60
_NUM_NODES = 10


@register("MatrixExponential", ignores=("T",))
def matrix_exponential(input: Array) -> Array:
  """Computes the exponentials of square matrices.

  Source op: `tf.raw_ops.MatrixExponential`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex.

  Returns:
    Shape and dtype of `input`.

  Raises:
    InvalidInputError: the matrices are not square.
  """
  x = as_matrices("MatrixExponential", input, square=True)
  if 0 in x.shape:
    return x
  wide = x.astype(compute_dtype(x.dtype))
  return jax.scipy.linalg.expm(wide, max_squarings=64).astype(x.dtype)


@register("MatrixSquareRoot", ignores=("T",))
def matrix_square_root(input: Array) -> Array:
  """Computes the principal square roots of square matrices.

  Source op: `tf.raw_ops.MatrixSquareRoot`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex. Real matrices must not have negative eigenvalues.

  Returns:
    Shape and dtype of `input`.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: runs on the CPU backend only, as `jax.lax.linalg.schur` does.
  """
  x = as_matrices("MatrixSquareRoot", input, square=True)
  return _square_root(x.astype(compute_dtype(x.dtype))).astype(x.dtype) if x.size else x


@jax.custom_jvp
def _square_root(x: Array) -> Array:
  triangle, vectors = _complex_schur(x)
  root = vectors @ _triangular_root(triangle) @ jnp.conj(jnp.swapaxes(vectors, -1, -2))
  return root if jnp.iscomplexobj(x) else root.real


@_square_root.defjvp
@default_promotion()
def _square_root_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
  # root dot + dot root = tangent, written as one linear system.
  root = _square_root(*primals)
  size = root.shape[-1]
  identity = jnp.eye(size, dtype=root.dtype)
  left = jnp.einsum("...ij,kl->...ikjl", root, identity)
  right = jnp.einsum("ij,...lk->...ikjl", identity, root)
  system = (left + right).reshape(*root.shape[:-2], size * size, size * size)
  dot = jnp.linalg.solve(system, tangents[0].reshape(*root.shape[:-2], size * size, 1))
  return root, dot.reshape(root.shape)


@register("MatrixLogarithm", ignores=("T",))
def matrix_logarithm(input: Array) -> Array:
  """Computes the principal logarithms of square matrices.

  Source op: `tf.raw_ops.MatrixLogarithm`.

  Args:
    input: `[..., n, n]`, complex64 or complex128; invertible.

  Returns:
    Shape and dtype of `input`. There is no gradient, as in TensorFlow.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: runs on the CPU backend only, as `jax.lax.linalg.schur` does.
  """
  x = jax.lax.stop_gradient(as_matrices("MatrixLogarithm", input, square=True))
  if not x.size:
    return x
  triangle, vectors = _complex_schur(x)
  identity = jnp.eye(x.shape[-1], dtype=x.dtype)

  def is_far(state: tuple[jax.Array, jax.Array]) -> jax.Array:
    root, num_roots = state
    return (jnp.max(jnp.abs(root - identity)) > _NEAR_IDENTITY / x.shape[-1]) & (num_roots < _MAX_ROOTS)

  def take_root(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    root, num_roots = state
    return _triangular_root(root), num_roots + 1

  root, num_roots = jax.lax.while_loop(is_far, take_root, (triangle, jnp.int32(0)))
  scale = jnp.exp2(num_roots.astype(jnp.finfo(x.dtype).dtype)).astype(x.dtype)
  logarithm = _logarithm_near_identity(root - identity) * scale
  # The diagonal can be computed more accurately than by repeated roots.
  on_diagonal = jnp.log(jnp.diagonal(triangle, axis1=-2, axis2=-1))
  logarithm = jnp.where(identity == 1, on_diagonal[..., None], logarithm)
  return vectors @ logarithm @ jnp.conj(jnp.swapaxes(vectors, -1, -2))


def _logarithm_near_identity(x: Array) -> Array:
  """Computes log(1 + x) for small upper triangular `x`, by Gauss-Legendre quadrature of x / (1 + t x) over [0, 1]."""
  nodes, weights = np.polynomial.legendre.leggauss(_NUM_NODES)
  identity = jnp.eye(x.shape[-1], dtype=x.dtype)
  total = jnp.zeros_like(x)
  for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
    shifted = identity + np.asarray(node, x.dtype) * x
    total = total + np.asarray(weight, x.dtype) * jax.lax.linalg.triangular_solve(
      shifted, x, left_side=True, lower=False
    )
  return total


def _complex_schur(x: Array) -> tuple[jax.Array, jax.Array]:
  """Returns the upper triangular factor and the unitary vectors."""
  complex_x = x.astype(jnp.result_type(x.dtype, np.complex64))
  return jax.lax.linalg.schur(complex_x)


def _triangular_root(triangle: jax.Array) -> jax.Array:
  """Computes the square root of an upper triangular matrix, superdiagonal by superdiagonal."""
  size = triangle.shape[-1]
  diagonal = jnp.sqrt(jnp.diagonal(triangle, axis1=-2, axis2=-1))
  row, column = np.indices((size, size))
  sums = diagonal[..., :, None] + diagonal[..., None, :]
  divisor = jnp.where(sums == 0, 1, sums)
  root = jnp.where(row == column, diagonal[..., None], 0)

  def fill(offset: int, root: Array) -> Array:
    # Entries nearer to the diagonal are final; their products are the known part of the equation for this entry.
    strict = jnp.where(row == column, 0, root)
    entries = (triangle - strict @ strict) / divisor
    return jnp.where(jnp.asarray(column - row) == offset, entries, root)

  return jax.lax.fori_loop(1, size, fill, root)
