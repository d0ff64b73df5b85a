"""Eigenvalues and eigenvectors of Hermitian matrices."""

import jax
import jax.numpy as jnp
from jax import Array

from graftax.xla_call_module.lax_extras.matrices import adjoint, safe_scale

__all__ = ["eigh"]

_MAX_SWEEPS = 100

# Jacobi's method stops if the off-diagonal part is smaller than this share of the matrix.
_TOLERANCE = {"float32": 1e-7, "complex64": 1e-7, "float64": 1e-15, "complex128": 1e-15}


def eigh(
  a: Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None, algorithm: object
) -> tuple[Array, Array]:
  """Returns `(eigenvectors, eigenvalues)` of `[..., n, n]`, in ascending order; see `jax.lax.linalg.eigh`."""
  del sort_eigenvalues, algorithm  # as on CPU, where LAPACK always sorts and there is one algorithm
  n = a.shape[-1]
  if subset_by_index is not None and tuple(subset_by_index) != (0, n):
    raise NotImplementedError("subset_by_index not supported on CPU and GPU")
  eigenvalues = jax.ShapeDtypeStruct(a.shape[:-1], a.real.dtype)
  if 0 in a.shape:
    return a, jnp.zeros(eigenvalues.shape, eigenvalues.dtype)
  triangle = jnp.tril(a) if lower else adjoint(jnp.triu(a))
  strict = jnp.tril(triangle, -1)
  hermitian = strict + adjoint(strict) + (triangle - strict).real.astype(a.dtype)
  scale = safe_scale(hermitian)
  scaled = hermitian / scale.astype(a.dtype)
  vectors, values = jax.ffi.ffi_call(
    "Eigh",
    [jax.ShapeDtypeStruct(a.shape, a.dtype), eigenvalues],
    custom_call_api_version=1,
    legacy_backend_config=f"1,1,{_MAX_SWEEPS},{_TOLERANCE[str(a.dtype)]}",
    vmap_method="broadcast_all",
  )(scaled)
  if values.dtype == jnp.float64:
    vectors = _refined(scaled, vectors, values)
  return vectors, values * scale[..., 0]


def _refined(a: Array, vectors: Array, values: Array) -> Array:
  """Returns eigenvectors with residuals near float64's precision, by one step (Ogita and Aishima, 2018).

  XLA leaves off-diagonal entries below the precision of float32 as they are, so its vectors are only right to 1e-8.
  Between vectors of near eigenvalues the first order is not enough, and they stay as they are.
  """
  identity = jnp.eye(a.shape[-1], dtype=a.dtype)
  rest = _product(adjoint(vectors), _product(a, vectors)) - values[..., None, :].astype(a.dtype) * identity
  gaps = values[..., None, :] - values[..., :, None]
  is_apart = jnp.abs(gaps) > 1e-4 * jnp.abs(values).max(axis=-1)[..., None, None]
  step = jnp.where(is_apart, rest / jnp.where(is_apart, gaps, 1), 0)
  moved = vectors + _product(vectors, step)
  # Orthogonal to first order; with one iteration of Newton and Schulz, to the precision of float64.
  return _product(moved, 1.5 * identity - 0.5 * _product(adjoint(moved), moved))


def _product(x: Array, y: Array) -> Array:
  return jnp.matmul(x, y, precision="highest")
