"""Factorizations with TensorFlow's gradients: Cholesky, Qr, Lu."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT32, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["adjoint", "as_matrices", "cholesky", "cholesky_grad", "compute_dtype", "from_lower_triangle", "lu", "qr"]


def as_matrices(op: str, value: Array, *, square: bool = False) -> jax.Array:
  """Returns `value` as a JAX array, checked to hold matrices in its last two axes."""
  value = jnp.asarray(value)
  if value.ndim < 2 or (square and value.shape[-1] != value.shape[-2]):
    expected = "square matrices" if square else "matrices"
    raise InvalidInputError(f"{op}: shape {value.shape}; expected {expected} in the last two axes.")
  return value


def compute_dtype(dtype: np.dtype) -> np.dtype:
  """Returns the dtype of a factorization: float32 for the 16-bit types, which LAPACK lacks."""
  return np.dtype(np.float32) if np.dtype(dtype).itemsize == 2 else np.dtype(dtype)


def adjoint(x: Array) -> jax.Array:
  """Returns the conjugate transpose of the last two axes."""
  return jnp.conj(jnp.swapaxes(x, -1, -2))


def from_lower_triangle(x: Array) -> jax.Array:
  """Returns the Hermitian matrix whose lower triangle is that of `x`; only its lower triangle has a derivative."""
  diagonal = jnp.real(jnp.diagonal(x, axis1=-2, axis2=-1)).astype(x.dtype)
  strict = jnp.tril(x, -1)
  return strict + adjoint(strict) + diagonal[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)


@jax.custom_jvp
def _value_with_other_derivative(value: jax.Array, source: jax.Array) -> jax.Array:
  """Returns `value`, differentiated as if it were `source`."""
  del source
  return value


@_value_with_other_derivative.defjvp
@default_promotion()
def _value_with_other_derivative_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
  return _value_with_other_derivative(*primals), tangents[1]


@register("Cholesky", "BatchCholesky", ignores=("T",))
def cholesky(input: Array) -> Array:
  """Computes lower triangular Cholesky factors of positive definite matrices.

  Source op: `tf.raw_ops.Cholesky`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex. Only the lower triangle is read; the gradient is
      symmetric, as TensorFlow's is.

  Returns:
    Shape and dtype of `input`; zero above the diagonal.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: a matrix that is not positive definite gives NaN instead of raising an error.
  """
  x = as_matrices("Cholesky", input, square=True)
  wide = x.astype(compute_dtype(x.dtype))
  hermitian = _value_with_other_derivative(from_lower_triangle(wide), (wide + adjoint(wide)) / 2)
  return jnp.tril(jax.lax.linalg.cholesky(hermitian, symmetrize_input=False)).astype(x.dtype)


@register("CholeskyGrad", "BatchCholeskyGrad", ignores=("T",))
def cholesky_grad(l: Array, grad: Array) -> Array:  # noqa: E741  (the op calls it so)
  """Computes the gradient of a Cholesky factor with respect to the factored matrix.

  Source op: `tf.raw_ops.CholeskyGrad`.

  Args:
    l: `[..., n, n]`, the factor; float16, float32 or float64.
    grad: shape and dtype of `l`; only its lower triangle is read.

  Returns:
    Shape and dtype of `l`; symmetric.
  """
  dtype = jnp.asarray(l).dtype
  factor = jnp.tril(as_matrices("CholeskyGrad", l, square=True)).astype(compute_dtype(dtype))
  middle = jnp.tril(adjoint(factor) @ jnp.tril(jnp.asarray(grad).astype(factor.dtype)))
  middle = middle - jnp.eye(factor.shape[-1], dtype=factor.dtype) * middle / 2
  solve = jax.lax.linalg.triangular_solve
  left = solve(factor, middle, left_side=True, lower=True, transpose_a=True)
  full = solve(factor, left, left_side=False, lower=True)
  return ((full + adjoint(full)) / 2).astype(dtype)


@register("Qr", ignores=("T",))
def qr(input: Array, *, full_matrices: bool = False) -> tuple[Array, Array]:
  """Computes orthogonal and upper triangular factors by Householder reflections, with TensorFlow's signs.

  Source op: `tf.raw_ops.Qr`.

  Args:
    input: `[..., m, n]`, float16, float32, float64 or complex.
    full_matrices: make the orthogonal factor square.

  Returns:
    `q`: `[..., m, min(m, n)]`, or `[..., m, m]` with `full_matrices`. `r`: its last axis, by `n`. Dtype of `input`.

  Raises:
    NotImplementedError: when differentiated, if `full_matrices` and `m > n`; TensorFlow has no gradient there either.
  """
  x = as_matrices("Qr", input)
  wide = x.astype(compute_dtype(x.dtype))
  rows, columns = x.shape[-2:]
  if rows >= columns:
    q, r = jax.lax.linalg.qr(wide, full_matrices=full_matrices and rows > columns)
  else:
    # The orthogonal factor of the leading square block is that of the whole matrix, and has a derivative.
    q, leading = jax.lax.linalg.qr(wide[..., :rows], full_matrices=False)
    r = jnp.concatenate([leading, adjoint(q) @ wide[..., rows:]], axis=-1)
  return q.astype(x.dtype), jnp.triu(r).astype(x.dtype)


@register("Lu", ignores=("T",))
def lu(input: Array, *, output_idx_type: np.dtype = INT32) -> tuple[Array, Array]:
  """Computes lower and upper triangular factors in one matrix, with the row order of partial pivoting.

  Source op: `tf.raw_ops.Lu`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex.
    output_idx_type: int32 or int64.

  Returns:
    Factors, shape and dtype of `input`: the upper one, and below the diagonal the lower one, whose diagonal is 1. Row
    order `[..., n]`: the product of the factors is `input` with its rows taken in this order.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: a singular matrix gives infinities instead of raising an error.
  """
  x = as_matrices("Lu", input, square=True)
  if jnp.iscomplexobj(x):
    factors, order = _complex_lu(x)
  else:
    factors, _, order = jax.lax.linalg.lu(x.astype(compute_dtype(x.dtype)))
  return factors.astype(x.dtype), order.astype(canonical_dtype(output_idx_type))


def _complex_lu(x: Array) -> tuple[Array, Array]:
  """Returns factors and row order with pivots of largest modulus.

  LAPACK, which XLA calls, picks the largest sum of the absolute real and imaginary parts, and so another order.
  """
  rows = np.arange(x.shape[-1])

  def step(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
    a, order = carry
    pivot = jnp.argmax(jnp.where(rows >= k, jnp.abs(a[:, k]), -1))
    swapped = jnp.where(rows == k, pivot, jnp.where(rows == pivot, k, rows))
    a, order = a[swapped], order[swapped]
    column = jnp.where(rows > k, a[:, k] / a[k, k], 0)
    a = a - column[:, None] * jnp.where(rows > k, a[k], 0)
    return a.at[:, k].set(jnp.where(rows > k, column, a[:, k])), order

  def factorize(matrix: Array) -> tuple[Array, Array]:
    return jax.lax.fori_loop(0, len(rows), step, (matrix, jnp.asarray(rows, np.int32)))

  factors, order = jax.vmap(factorize)(x.reshape(-1, *x.shape[-2:]))
  return factors.reshape(x.shape), order.reshape(x.shape[:-1])
