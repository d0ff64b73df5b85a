"""Eigenvalues and singular values with TensorFlow's gradients: SelfAdjointEigV2, Svd, Eig, XlaSvd."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.linalg.decompositions import adjoint, as_matrices, compute_dtype, from_lower_triangle
from graftax.xla_call_module.lax_extras import default_promotion

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
  values, vectors = _eigh(from_lower_triangle(x.astype(compute_dtype(x.dtype))))
  return values.astype(x.dtype), vectors.astype(x.dtype) if compute_v else jnp.zeros((0,), x.dtype)


_Pair: TypeAlias = tuple[jax.Array, jax.Array]
_Triple: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]


@jax.custom_jvp
def _eigh(hermitian: jax.Array) -> _Pair:
  vectors, values = jax.lax.linalg.eigh(hermitian, symmetrize_input=False, sort_eigenvalues=True)
  return values, vectors


@_eigh.defjvp
@default_promotion()
def _eigh_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[_Pair, _Pair]:
  values, vectors = _eigh(*primals)
  rotated = adjoint(vectors) @ tangents[0] @ vectors
  mixing = rotated * _reciprocal_gaps(values).astype(rotated.dtype)
  return (values, vectors), (_real_diagonal(rotated), vectors @ mixing)


def _reciprocal(x: jax.Array) -> jax.Array:
  """Returns TensorFlow's `1 / x` for derivatives, which is 0 at 0: of equal values, the vectors are not determined."""
  return x / (x * x + np.asarray(1e-20, x.dtype))


def _reciprocal_gaps(values: jax.Array) -> jax.Array:
  """Returns `[..., i, j]`, the reciprocal of `values[j] - values[i]`; 0 on the diagonal, also for derivatives."""
  gaps = values[..., None, :] - values[..., :, None]
  is_diagonal = jnp.eye(values.shape[-1], dtype=bool)
  return jnp.where(is_diagonal, 0, _reciprocal(jnp.where(is_diagonal, 1, gaps)))


def _real_diagonal(x: jax.Array) -> jax.Array:
  return jnp.real(jnp.diagonal(x, axis1=-2, axis2=-1))


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
    values = _singular_values(wide)
    return values.astype(x.dtype), jnp.zeros((0,), x.dtype), jnp.zeros((0,), x.dtype)
  is_full = full_matrices and x.shape[-1] != x.shape[-2]
  left, values, right = jnp.linalg.svd(wide, full_matrices=True) if is_full else _svd(wide)
  return values.astype(x.dtype), left.astype(x.dtype), adjoint(right).astype(x.dtype)


@jax.custom_jvp
def _svd(x: jax.Array) -> _Triple:
  left, values, right = jnp.linalg.svd(x, full_matrices=False)
  return left, values, right


@_svd.defjvp
@default_promotion()
def _svd_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[_Triple, _Triple]:
  left, values, right = _svd(*primals)
  dot, vectors = tangents[0], adjoint(right)
  rotated = adjoint(left) @ dot @ vectors
  scale = values[..., None, :].astype(rotated.dtype)
  inverse = _reciprocal(scale)
  gaps = _reciprocal_gaps(values * values).astype(rotated.dtype)
  by_column, by_row = rotated * scale, rotated * jnp.swapaxes(scale, -1, -2)
  # Of complex vectors also the phases turn, all of it on the left side.
  phases = (rotated - adjoint(rotated)) / 2 * (jnp.eye(values.shape[-1], dtype=rotated.dtype) * inverse)
  left_dot = left @ (gaps * (by_column + adjoint(by_column)) + phases)
  right_dot = vectors @ (gaps * (by_row + adjoint(by_row)))
  if dot.shape[-2] > dot.shape[-1]:
    left_dot += _outside(left, dot @ vectors) * inverse
  if dot.shape[-2] < dot.shape[-1]:
    right_dot += _outside(vectors, adjoint(dot) @ left) * inverse
  return (left, values, right), (left_dot, _real_diagonal(rotated), adjoint(right_dot))


def _outside(vectors: jax.Array, x: jax.Array) -> jax.Array:
  """Returns the part of columns that is orthogonal to `vectors`."""
  return x - vectors @ (adjoint(vectors) @ x)


@jax.custom_jvp
def _singular_values(x: jax.Array) -> jax.Array:
  return jnp.linalg.svd(x, compute_uv=False)


@_singular_values.defjvp
@default_promotion()
def _singular_values_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> _Pair:
  left, values, right = _svd(*primals)
  return values, _real_diagonal(adjoint(left) @ tangents[0] @ adjoint(right))


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
def _ordered_eig(x: jax.Array) -> _Pair:
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
@default_promotion()
def _ordered_eig_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[_Pair, _Pair]:
  values, vectors = _ordered_eig(*primals)
  rotated = jnp.linalg.solve(vectors, tangents[0] @ vectors)
  moved = vectors @ (rotated * _reciprocal_gaps(values))
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
