"""Matrix and cross products: MatMul, BatchMatMul in all versions, SparseMatMul, Cross."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["batch_mat_mul", "batch_mat_mul_v3", "cross", "mat_mul", "sparse_mat_mul"]


@register("MatMul", ignores=("T", "grad_a", "grad_b"))
def mat_mul(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
  """Multiplies two matrices.

  Source op: `tf.raw_ops.MatMul`.

  Args:
    a: `[n, k]`, or `[k, n]` with `transpose_a`; any numeric dtype.
    b: `[k, m]`, or `[m, k]` with `transpose_b`; dtype of `a`.
    transpose_a: multiply with the transpose of `a` (without conjugating it).
    transpose_b: multiply with the transpose of `b` (without conjugating it).

  Returns:
    `[n, m]`, dtype of `a`. Integer overflow wraps, as in TF.

  Raises:
    InvalidInputError: an input is not a matrix, or the inner sizes differ.
  """
  a, b = jnp.asarray(a), jnp.asarray(b)
  inner_a, inner_b = (0 if transpose_a else 1), (1 if transpose_b else 0)
  if a.ndim != 2 or b.ndim != 2 or a.shape[inner_a] != b.shape[inner_b]:
    raise InvalidInputError(
      f"MatMul: shapes {a.shape} and {b.shape} with transpose_a={transpose_a!r}, transpose_b={transpose_b!r} do not "
      f"multiply; expected two matrices with equal inner sizes."
    )
  return jax.lax.dot_general(a, b, (((inner_a,), (inner_b,)), ((), ())))


@register("BatchMatMul", "BatchMatMulV2", ignores=("T", "grad_x", "grad_y"))
def batch_mat_mul(x: Array, y: Array, *, adj_x: bool = False, adj_y: bool = False) -> Array:
  """Multiplies matrices in the last two axes; the leading axes broadcast.

  Source op: `tf.raw_ops.BatchMatMulV2`. `BatchMatMul` is the same without broadcasting.

  Args:
    x: `[..., n, k]`, or `[..., k, n]` with `adj_x`; any numeric dtype.
    y: `[..., k, m]`, or `[..., m, k]` with `adj_y`; dtype of `x`.
    adj_x: multiply with the conjugate transpose of `x`.
    adj_y: multiply with the conjugate transpose of `y`.

  Returns:
    `[..., n, m]`, dtype of `x`. Integer overflow wraps, as in TF.

  Raises:
    InvalidInputError: an input has rank below 2, or the shapes do not fit.
  """
  return _product(x, y, adj_x, adj_y, None)


@register("BatchMatMulV3", ignores=("Ta", "Tb", "grad_x", "grad_y"))
def batch_mat_mul_v3(x: Array, y: Array, *, Tout: np.dtype, adj_x: bool = False, adj_y: bool = False) -> Array:
  """Multiplies matrices in the last two axes, summed in the dtype of the result; the leading axes broadcast.

  Source op: `tf.raw_ops.BatchMatMulV3`.

  Args:
    x: `[..., n, k]`, or `[..., k, n]` with `adj_x`; any numeric dtype.
    y: `[..., k, m]`, or `[..., m, k]` with `adj_y`; any numeric dtype.
    Tout: dtype of the result and of the sums, for example int32 for int8 inputs.
    adj_x: multiply with the conjugate transpose of `x`.
    adj_y: multiply with the conjugate transpose of `y`.

  Returns:
    `[..., n, m]` of `Tout`.

  Raises:
    InvalidInputError: an input has rank below 2, or the shapes do not fit.
  """
  return _product(x, y, adj_x, adj_y, canonical_dtype(Tout))


def _product(x: Array, y: Array, adj_x: bool, adj_y: bool, dtype: np.dtype | None) -> Array:
  x, y = jnp.asarray(x), jnp.asarray(y)
  if x.ndim < 2 or y.ndim < 2:
    raise InvalidInputError(f"BatchMatMul: shapes {x.shape} and {y.shape}; expected rank 2 or more.")
  x = jnp.conj(jnp.swapaxes(x, -1, -2)) if adj_x else x
  y = jnp.conj(jnp.swapaxes(y, -1, -2)) if adj_y else y
  try:
    return jnp.matmul(x, y, preferred_element_type=dtype)
  except (TypeError, ValueError) as e:
    raise InvalidInputError(f"BatchMatMul: shapes {x.shape} and {y.shape} (after adj) do not multiply: {e}") from e


@register("SparseMatMul", ignores=("Ta", "Tb", "a_is_sparse", "b_is_sparse"))
def sparse_mat_mul(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
  """Multiplies two dense matrices, many of whose entries are expected to be zero.

  Source op: `tf.raw_ops.SparseMatMul`.

  Args:
    a: `[n, k]`, or `[k, n]` with `transpose_a`; float32 or bfloat16.
    b: `[k, m]`, or `[m, k]` with `transpose_b`; float32 or bfloat16.
    transpose_a: multiply with the transpose of `a`.
    transpose_b: multiply with the transpose of `b`.

  Returns:
    `[n, m]`, float32.
  """
  return mat_mul(
    jnp.asarray(a).astype(np.float32),
    jnp.asarray(b).astype(np.float32),
    transpose_a=transpose_a,
    transpose_b=transpose_b,
  )


@register("Cross", ignores=("T",))
def cross(a: Array, b: Array) -> Array:
  """Computes cross products of 3-vectors in the last axis.

  Source op: `tf.raw_ops.Cross`.

  Args:
    a: `[..., 3]`, any real dtype.
    b: shape and dtype of `a`.

  Returns:
    Shape and dtype of `a`.

  Raises:
    InvalidInputError: the shapes differ, or the last axis is not 3 long.
  """
  a, b = jnp.asarray(a), jnp.asarray(b)
  if a.ndim == 0 or a.shape != b.shape or a.shape[-1] != 3:
    raise InvalidInputError(f"Cross: shapes {a.shape} and {b.shape}; expected equal shapes that end in 3.")
  rotations = jnp.array([1, 2, 0]), jnp.array([2, 0, 1])
  a1, a2 = (jnp.take(a, r, axis=-1) for r in rotations)
  b1, b2 = (jnp.take(b, r, axis=-1) for r in rotations)
  return a1 * b2 - a2 * b1
