"""Eigenvalues and singular values with TensorFlow's gradients: SelfAdjointEigV2, Svd, Eig, XlaSvd."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.linalg.decompositions import adjoint, as_matrices, compute_dtype, from_lower_triangle

__all__ = ["eig", "self_adjoint_eig", "self_adjoint_eig_v2", "svd", "xla_self_adjoint_eig", "xla_svd"]


@register("SelfAdjointEigV2", "BatchSelfAdjointEigV2", ignores=("T",))
def self_adjoint_eig_v2(input: Array, *, compute_v: bool = True) -> tuple[Array, Array]:
  """Computes eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices.

  Source op: `tf.raw_ops.SelfAdjointEigV2`.

  Args:
    input: `[..., n, n]`, float16, float32, float64 or complex. Only the lower triangle is read, and so the gradient is
      zero above the diagonal, as TensorFlow's is.
    compute_v: whether to return eigenvectors.

  Returns:
    Eigenvalues `[..., n]` and eigenvectors `[..., n, n]` (in the columns), dtype of `input`; without `compute_v` an
    empty `[0]` in place of the latter.

  Raises:
    InvalidInputError: the matrices are not square.

  Differs from TF: each eigenvector is determined up to its sign (complex: a factor of magnitude 1) only, and LAPACK
    chooses another one than Eigen; a gradient that depends on the choice differs with it.
  """
  x = as_matrices("SelfAdjointEigV2", input, square=True)
  hermitian = from_lower_triangle(x.astype(compute_dtype(x.dtype)))
  vectors, values = jax.lax.linalg.eigh(hermitian, symmetrize_input=False, sort_eigenvalues=True)
  return values.astype(x.dtype), vectors.astype(x.dtype) if compute_v else jnp.zeros((0,), x.dtype)


@register("SelfAdjointEig", "BatchSelfAdjointEig", ignores=("T",))
def self_adjoint_eig(input: Array) -> Array:
  """Computes eigenvalues of symmetric matrices and, in the rows below, their eigenvectors.

  Source op: `tf.raw_ops.SelfAdjointEig`.

  Args:
    input: `[..., n, n]`, float16, float32 or float64.

  Returns:
    `[..., n + 1, n]`, dtype of `input`.
  """
  values, vectors = self_adjoint_eig_v2(input)
  return jnp.concatenate([values[..., None, :], vectors], axis=-2)


@register("Svd", "BatchSvd", ignores=("T",))
def svd(input: Array, *, compute_uv: bool = True, full_matrices: bool = False) -> tuple[Array, Array, Array]:
  """Computes singular values, descending, with left and right singular vectors.

  Source op: `tf.raw_ops.Svd`.

  Args:
    input: `[..., m, n]`, float16, float32, float64 or complex.
    compute_uv: whether to return singular vectors.
    full_matrices: complete them to square matrices.

  Returns:
    Values `[..., min(m, n)]`, left vectors and right vectors (in the columns, not adjoint), dtype of `input`; without
    `compute_uv` an empty `[0]` in place of each of the latter.

  Raises:
    NotImplementedError: when differentiated, if `full_matrices` and the matrices are not square.

  Differs from TF: each pair of vectors is determined up to a common sign (complex: a factor of magnitude 1) only, and
    LAPACK chooses another one than Eigen; a gradient that depends on the choice differs with it.
  """
  x = as_matrices("Svd", input)
  wide = x.astype(compute_dtype(x.dtype))
  if not compute_uv:
    values = jnp.linalg.svd(wide, compute_uv=False)
    return values.astype(x.dtype), jnp.zeros((0,), x.dtype), jnp.zeros((0,), x.dtype)
  is_full = full_matrices and x.shape[-1] != x.shape[-2]
  left, values, right = jnp.linalg.svd(wide, full_matrices=is_full)
  return values.astype(x.dtype), left.astype(x.dtype), adjoint(right).astype(x.dtype)


@register("Eig", ignores=("T",))
def eig(input: Array, *, Tout: np.dtype, compute_v: bool = True) -> tuple[Array, Array]:
  """Computes eigenvalues and eigenvectors of square matrices, in TensorFlow's order.

  Source op: `tf.raw_ops.Eig`.

  Args:
    input: `[..., n, n]`, float32, float64 or complex.
    Tout: complex64 or complex128.
    compute_v: whether to return eigenvectors.

  Returns:
    Eigenvalues `[..., n]` and eigenvectors `[..., n, n]` (in the columns, of length 1), of `Tout`; without `compute_v`
    an empty `[0]` in place of the latter.

  Raises:
    InvalidInputError: the matrices are not square.

  The order for real matrices is that in which the QR algorithm finds them, for complex ones that of magnitude.

  Differs from TF: eigenvectors are determined up to a factor of magnitude 1 only. LAPACK and Eigen, which TensorFlow
    calls, find the eigenvalues of some real matrices in another order. Of eigenvalues of a complex matrix that have
    equal magnitude, the one with the larger imaginary part comes first; TensorFlow's order depends on rounding.
  """
  x = as_matrices("Eig", input, square=True)
  values, vectors = _ordered_eig(x)
  values, vectors = (y.astype(canonical_dtype(Tout)) for y in (values, vectors))
  return values, vectors if compute_v else jnp.zeros((0,), vectors.dtype)


@jax.custom_jvp
def _ordered_eig(x: Array) -> tuple[Array, Array]:
  values, vectors = jnp.linalg.eig(x)
  if not jnp.iscomplexobj(x):
    return values, vectors
  # Magnitudes of conjugate pairs differ by rounding only, which is removed before sorting.
  magnitude = jnp.abs(values)
  scale = jnp.max(magnitude, axis=-1, keepdims=True, initial=0) + jnp.finfo(values.dtype).tiny
  digits = 2.0 ** (0.75 * jnp.finfo(values.dtype).nmant)
  order = jnp.lexsort((-values.imag, jnp.round(magnitude / scale * digits)), axis=-1)
  return jnp.take_along_axis(values, order, -1), jnp.take_along_axis(vectors, order[..., None, :], -1)


@_ordered_eig.defjvp
def _ordered_eig_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
  values, vectors = _ordered_eig(*primals)
  rotated = jnp.linalg.solve(vectors, tangents[0] @ vectors)
  gaps = values[..., None, :] - values[..., :, None]
  is_diagonal = jnp.eye(values.shape[-1], dtype=bool)
  mixing = jnp.where(is_diagonal, 0, rotated / jnp.where(is_diagonal, 1, gaps))
  moved = vectors @ mixing
  # Vectors keep their length, so the tangent's component along the vector is removed.
  along = jnp.real(jnp.sum(jnp.conj(vectors) * moved, axis=-2, keepdims=True)).astype(moved.dtype)
  return (values, vectors), (jnp.diagonal(rotated, axis1=-2, axis2=-1), moved - vectors * along)


@register("XlaSvd", ignores=("T", "max_iter", "epsilon", "precision_config"))
def xla_svd(a: Array) -> tuple[Array, Array, Array]:
  """Computes singular values with left and right singular vectors.

  Source op: `XlaSvd` (tf2xla).

  Args:
    a: `[..., m, n]`, float32 or float64.

  Returns:
    Values `[..., min(m, n)]`, left vectors and right vectors (in the columns), dtype of `a`.
  """
  return svd(a)


@register("XlaSelfAdjointEig", ignores=("T", "max_iter", "epsilon"))
def xla_self_adjoint_eig(a: Array, *, lower: bool) -> tuple[Array, Array]:
  """Computes eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices.

  Source op: `XlaSelfAdjointEig` (tf2xla).

  Args:
    a: `[..., n, n]`.
    lower: read the lower rather than the upper triangle.

  Returns:
    Eigenvalues `[..., n]` and eigenvectors `[..., n, n]` (in the columns), dtype of `a`.
  """
  return self_adjoint_eig_v2(a if lower else adjoint(a))
