"""QR decompositions and products with their orthogonal factor."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from graftax.xla_call_module.lax_extras.matrices import adjoint, identity_like, min_dim, product, safe_scale
from graftax.xla_call_module.lax_extras.reflectors import pivoted_qr

__all__ = ["geqrf", "householder_product", "ormqr", "qr"]


def qr(a: Array, *, pivoting: bool, full_matrices: bool, **options: Any) -> tuple[Array, ...]:
  """Returns `(q, r)`, or `(q, r, columns)` with pivoting; see `jax.lax.linalg.qr`.

  Args:
    a: `[..., m, n]`.
    pivoting: choose the column with the largest rest in each step.
    full_matrices: return `q` as `[..., m, m]` and `r` as `[..., m, n]`, else `min(m, n)` columns and rows.
    options: the choice of a library on GPUs.
  """
  del options
  *batch, m, n = a.shape
  rank = m if full_matrices else min_dim(m, n)
  if pivoting:
    return pivoted_qr(a, rank)
  if m == 0 or n == 0:
    q = identity_like(a, m, rank)
    return q, jnp.zeros((*batch, rank, n), a.dtype)
  scale = safe_scale(a).astype(a.dtype)
  reflectors, taus = _reflectors(a / scale)
  r = _upper_triangle(jax.lax.slice_in_dim(reflectors, 0, rank, axis=-2)) * scale
  if not full_matrices or m <= n:
    q = householder_product(jax.lax.slice_in_dim(reflectors, 0, rank, axis=-1), taus)
  else:
    wide = jax.lax.pad(reflectors, jnp.zeros((), a.dtype), [*[(0, 0, 0)] * (len(batch) + 1), (0, m - n, 0)])
    q = householder_product(wide, taus)
  return q, r


def geqrf(a: Array) -> tuple[Array, Array]:
  """Returns the reflectors below the diagonal of `r`, `[..., m, n]`, and their factors; as LAPACK's GEQRF.

  It is what `jnp.linalg.qr(a, mode="raw")` computes.
  """
  if 0 in a.shape:
    return a, jnp.zeros((*a.shape[:-2], min_dim(*a.shape[-2:])), a.dtype)
  scale = safe_scale(a).astype(a.dtype)
  reflectors, taus = _reflectors(a / scale)
  return jax.lax.select(_is_upper(a.shape), reflectors * scale, reflectors), taus


def householder_product(a: Array, taus: Array) -> Array:
  """Returns the first `n` columns of the product of reflectors, `a`: `[..., m, n]`, `taus`: `[..., k]`."""
  if 0 in a.shape or 0 in taus.shape:
    return identity_like(a, *a.shape[-2:])
  return jax.ffi.ffi_call(
    "ProductOfElementaryHouseholderReflectors",
    jax.ShapeDtypeStruct(a.shape, a.dtype),
    custom_call_api_version=1,
    vmap_method="broadcast_all",
  )(a, taus)


def ormqr(a: Array, taus: Array, c: Array, *, left: bool, transpose: bool) -> Array:
  """Returns the product of `c` with the square orthogonal factor; see `jax.lax.linalg.ormqr`."""
  m, n = a.shape[-2:]
  if 0 in c.shape or 0 in taus.shape:
    return c
  square = (
    a[..., :m] if m <= n else jax.lax.pad(a, jnp.zeros((), a.dtype), [*[(0, 0, 0)] * (a.ndim - 1), (0, m - n, 0)])
  )
  q = householder_product(square, taus)
  q = adjoint(q) if transpose else q
  return product(q, c) if left else product(c, q)


def _reflectors(a: Array) -> tuple[Array, Array]:
  *batch, m, n = a.shape
  results = [jax.ShapeDtypeStruct(a.shape, a.dtype), jax.ShapeDtypeStruct((*batch, min_dim(m, n)), a.dtype)]
  reflectors, taus = jax.ffi.ffi_call("Qr", results, custom_call_api_version=1, vmap_method="broadcast_all")(a)
  return reflectors, taus


def _upper_triangle(a: Array) -> Array:
  # In place of jnp.triu, which becomes a function of the module: `lift` recognizes a decomposition by these ops.
  return jax.lax.select(_is_upper(a.shape), a, jax.lax.full_like(a, 0))


def _is_upper(shape: tuple[int, ...]) -> Array:
  rows, columns = (jax.lax.broadcasted_iota(jnp.int32, shape[-2:], axis) for axis in (0, 1))
  return jax.lax.broadcast_in_dim(jax.lax.le(rows, columns), shape, (len(shape) - 2, len(shape) - 1))
