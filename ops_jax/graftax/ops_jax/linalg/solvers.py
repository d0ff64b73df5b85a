"""Linear systems, inverses and determinants: MatrixSolve, MatrixTriangularSolve, MatrixInverse, MatrixDeterminant."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.linalg.decompositions import adjoint as conjugate_transpose
from graftax.ops_jax.linalg.decompositions import as_matrices, compute_dtype

__all__ = [
  "banded_triangular_solve",
  "log_matrix_determinant",
  "matrix_determinant",
  "matrix_inverse",
  "matrix_solve",
  "matrix_solve_ls",
  "matrix_triangular_solve",
]


@register("MatrixInverse", "BatchMatrixInverse", ignores=("T",))
def matrix_inverse(input: Array, *, adjoint: bool = False) -> Array:
  """Computes inverse matrices.

  Source op: `tf.raw_ops.MatrixInverse`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex.
    adjoint: invert the conjugate transpose.

  Returns:
    Shape and dtype of `input`.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: a singular matrix gives infinities or NaN instead of raising an error.
  """
  x = as_matrices("MatrixInverse", input, square=True)
  wide = x.astype(compute_dtype(x.dtype))
  return jnp.linalg.inv(_adjoint_if(adjoint, wide)).astype(x.dtype)


@register("MatrixDeterminant", "BatchMatrixDeterminant", ignores=("T",))
def matrix_determinant(input: Array) -> Array:
  """Computes determinants.

  Source op: `tf.raw_ops.MatrixDeterminant`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex.

  Returns:
    `[...]`, dtype of `input`.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: TensorFlow's gradient for complex matrices uses the determinant instead of its conjugate; ours uses
    the conjugate.
  """
  x = as_matrices("MatrixDeterminant", input, square=True)
  return jnp.linalg.det(x.astype(compute_dtype(x.dtype))).astype(x.dtype)


@register("LogMatrixDeterminant", ignores=("T",))
def log_matrix_determinant(input: Array) -> tuple[Array, Array]:
  """Computes the sign and the logarithm of the absolute value of determinants.

  Source op: `tf.raw_ops.LogMatrixDeterminant`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex.

  Returns:
    Sign (complex: of magnitude 1) and logarithm, both `[...]` with the dtype of `input`.

  Raises:
    InvalidInputError: the matrices are not square.
  """
  x = as_matrices("LogMatrixDeterminant", input, square=True)
  sign, log = jnp.linalg.slogdet(x.astype(compute_dtype(x.dtype)))
  # TensorFlow passes no gradient through the sign, though for complex matrices it has one.
  return jax.lax.stop_gradient(sign.astype(x.dtype)), log.astype(x.dtype)


@register("MatrixSolve", "BatchMatrixSolve", ignores=("T",))
def matrix_solve(matrix: Array, rhs: Array, *, adjoint: bool = False) -> Array:
  """Solves linear systems.

  Source op: `tf.raw_ops.MatrixSolve`.

  Args:
    matrix: `[..., n, n]`, float16, float32, float64 or complex.
    rhs: `[..., n, k]`, dtype of `matrix`.
    adjoint: solve with the conjugate transpose.

  Returns:
    Shape and dtype of `rhs`.

  Raises:
    InvalidInputError: the shapes do not fit.

  Differs from TF: a singular matrix gives infinities or NaN instead of raising an error.
  """
  a, b = _system("MatrixSolve", matrix, rhs, square=True)
  dtype = compute_dtype(a.dtype)
  if 0 in b.shape:
    return b
  return jnp.linalg.solve(_adjoint_if(adjoint, a.astype(dtype)), b.astype(dtype)).astype(a.dtype)


@register("MatrixSolveLs", "BatchMatrixSolveLs", ignores=("T",))
def matrix_solve_ls(matrix: Array, rhs: Array, l2_regularizer: Array, *, fast: bool = True) -> Array:
  """Solves linear systems by least squares.

  Source op: `tf.raw_ops.MatrixSolveLs`.

  Args:
    matrix: `[..., m, n]`, float16, float32, float64 or complex.
    rhs: `[..., m, k]`, dtype of `matrix`.
    l2_regularizer: scalar float64; weight of the solution's squared length. Only with `fast`.
    fast: solve the normal equations; otherwise by a singular value decomposition, for matrices of any rank.

  Returns:
    `[..., n, k]`, dtype of `matrix`.

  Raises:
    InvalidInputError: the shapes do not fit.
  """
  a, b = _system("MatrixSolveLs", matrix, rhs, square=False)
  dtype = compute_dtype(a.dtype)
  wide, target = a.astype(dtype), b.astype(dtype)
  if not fast:
    return (jnp.linalg.pinv(wide) @ target).astype(a.dtype)
  rows, columns = a.shape[-2:]
  weight = jnp.asarray(l2_regularizer).astype(dtype) * jnp.eye(min(rows, columns), dtype=dtype)
  if rows >= columns:
    solution = _solve_positive(conjugate_transpose(wide) @ wide + weight, conjugate_transpose(wide) @ target)
  else:
    solution = conjugate_transpose(wide) @ _solve_positive(wide @ conjugate_transpose(wide) + weight, target)
  return solution.astype(a.dtype)


def _solve_positive(matrix: Array, rhs: Array) -> Array:
  factor = jnp.linalg.cholesky(matrix)
  half = jax.lax.linalg.triangular_solve(factor, rhs, left_side=True, lower=True)
  return jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


@register("MatrixTriangularSolve", "BatchMatrixTriangularSolve", ignores=("T",))
def matrix_triangular_solve(matrix: Array, rhs: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
  """Solves triangular linear systems; the leading axes broadcast.

  Source op: `tf.raw_ops.MatrixTriangularSolve`.

  Args:
    matrix: `[..., n, n]`, floating or complex; only one triangle is read.
    rhs: `[..., n, k]`, dtype of `matrix`.
    lower: read the lower rather than the upper triangle.
    adjoint: solve with the conjugate transpose.

  Returns:
    `[..., n, k]`, dtype of `rhs`.

  Raises:
    InvalidInputError: the shapes do not fit.
  """
  a = as_matrices("MatrixTriangularSolve", matrix, square=True)
  b = as_matrices("MatrixTriangularSolve", rhs)
  if a.shape[-1] != b.shape[-2]:
    raise InvalidInputError(f"MatrixTriangularSolve: shapes {a.shape} and {b.shape} do not fit.")
  batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
  dtype = compute_dtype(a.dtype)
  return jax.lax.linalg.triangular_solve(
    jnp.broadcast_to(a, batch + a.shape[-2:]).astype(dtype),
    jnp.broadcast_to(b, batch + b.shape[-2:]).astype(dtype),
    left_side=True,
    lower=lower,
    transpose_a=adjoint,
    conjugate_a=adjoint,
  ).astype(b.dtype)


@register("BandedTriangularSolve", ignores=("T",))
def banded_triangular_solve(matrix: Array, rhs: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
  """Solves triangular linear systems that are stored by diagonals.

  Source op: `tf.raw_ops.BandedTriangularSolve`.

  Args:
    matrix: `[..., k, n]`, floating or complex. With `lower` row `i` is the `i`-th diagonal below the main one, right
      aligned; otherwise the last row is the main diagonal and those before it lie above, left aligned.
    rhs: `[..., n, m]`, dtype of `matrix`.
    lower: whether the diagonals lie below the main one.
    adjoint: solve with the conjugate transpose.

  Returns:
    `[..., n, m]`, dtype of `rhs`.
  """
  bands = as_matrices("BandedTriangularSolve", matrix)
  num_bands, size = bands.shape[-2:]
  rows = np.arange(size)
  dense = jnp.zeros((*bands.shape[:-2], size, size), bands.dtype)
  for band in range(num_bands):
    offset = -band if lower else num_bands - 1 - band
    inside = (rows + offset >= 0) & (rows + offset < size)
    dense = dense.at[..., rows[inside], rows[inside] + offset].set(bands[..., band, rows[inside]])
  return matrix_triangular_solve(dense, rhs, lower=lower, adjoint=adjoint)


def _adjoint_if(wanted: bool, x: Array) -> Array:
  return conjugate_transpose(x) if wanted else x


def _system(op: str, matrix: Array, rhs: Array, *, square: bool) -> tuple[jax.Array, jax.Array]:
  a, b = as_matrices(op, matrix, square=square), as_matrices(op, rhs)
  if a.shape[:-1] != b.shape[:-1]:
    raise InvalidInputError(f"{op}: shapes {a.shape} and {b.shape}; expected equal leading axes and rows.")
  return a, b
