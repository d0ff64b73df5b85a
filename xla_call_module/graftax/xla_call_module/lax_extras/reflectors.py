"""Householder reflectors: the decompositions and products of LAPACK's `geqrf`, `geqp3` and `ormqr`, as loops."""

import jax.numpy as jnp
from jax import Array, lax

from graftax.xla_call_module.lax_extras.matrices import adjoint, identity_like, min_dim, product, safe_scale
from graftax.xla_call_module.lax_extras.reductions import mapped

__all__ = ["packed_qr", "pivoted_qr", "times_reflectors"]


def packed_qr(a: Array) -> tuple[Array, Array]:
  """Returns `(packed, taus)` of a QR decomposition, as LAPACK's `geqrf`.

  Args:
    a: `[..., m, n]`, real or complex.

  Returns:
    `packed`, `[..., m, n]`: the triangular factor, and the reflectors below its diagonal. `taus`, `[..., min(m, n)]`:
    the factors of the reflectors. Both are of the dtype of `a`.

  Example:
    >>> packed_qr(jnp.array([[3.0], [4.0]]))
    (Array([[-5. ],
           [ 0.5]], dtype=float32), Array([1.6], dtype=float32))
  """
  if 0 in a.shape:
    return a, jnp.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
  scale = safe_scale(a).astype(a.dtype)
  packed, taus = mapped(_packed, a.ndim - 2)(a / scale)
  rows, columns = (lax.broadcasted_iota(jnp.int32, a.shape, a.ndim - axis) for axis in (2, 1))
  return jnp.where(rows <= columns, packed * scale, packed), taus


def pivoted_qr(a: Array, rank: int) -> tuple[Array, Array, Array]:
  """Returns `(q, r, columns)` of a QR decomposition that takes the column with the largest rest in each step.

  `columns` is 0 for empty matrices, as in JAX.

  Args:
    a: `[..., m, n]`, real or complex; the sizes may be symbolic.
    rank: the number of columns of `q` and of rows of `r`.

  Returns:
    `q`, `[..., m, rank]`, `r`, `[..., rank, n]`, and int32 `[..., n]`: `q @ r` is `a[..., columns]`.

  Example:
    >>> pivoted_qr(jnp.array([[1.0, 2.0]]), 1)[2]
    Array([1, 0], dtype=int32)
  """

  def decompose(a: Array) -> tuple[Array, Array, Array]:
    m, n = a.shape
    rows, columns = jnp.arange(m), jnp.arange(n)

    def step(j: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      a, q, order = state
      rest = jnp.where((rows[:, None] >= j) & (columns >= j), jnp.abs(a) ** 2, 0).sum(0)
      best = jnp.argmax(jnp.where(columns >= j, rest, -1))
      swap = jnp.where(columns == j, best, jnp.where(columns == best, j, columns))
      a, order = a[:, swap], order[swap]
      v, tau = _reflector(jnp.where(rows >= j, a[:, j], 0), j)
      a = _reflected(a, v, jnp.conj(tau))
      q = q - tau * product(q, v[:, None]) * jnp.conj(v)
      return a, q, order

    first = a, jnp.eye(m, dtype=a.dtype), columns.astype(jnp.int32)
    found: tuple[Array, Array, Array] = lax.fori_loop(0, min_dim(m, n), step, first)
    a, q, order = found
    return q[:, :rank], jnp.triu(a[:rank]), order

  *batch, m, n = a.shape
  if 0 in a.shape:
    return identity_like(a, m, rank), jnp.zeros((*batch, rank, n), a.dtype), jnp.zeros((*batch, n), jnp.int32)
  scale = safe_scale(a).astype(a.dtype)
  q, r, columns = mapped(decompose, a.ndim - 2)(a / scale)
  return q, r * scale, columns


def times_reflectors(a: Array, taus: Array, c: Array, *, left: bool = True, transpose: bool = False) -> Array:
  """Returns the product of matrices and the orthogonal factor that reflectors make, as LAPACK's `ormqr`.

  Args:
    a: `[..., m, n]`, the reflectors below the diagonal, as `packed_qr` returns them.
    taus: `[..., k]`, their factors.
    c: `[..., m, p]`; `[..., p, m]` if `left` is False.
    left: multiply from the left.
    transpose: multiply by the conjugate transpose.

  Returns:
    The shape and dtype of `c`.

  Example:
    >>> times_reflectors(*packed_qr(jnp.array([[3.0], [4.0]])), jnp.eye(2)).round(1)
    Array([[-0.6, -0.8],
           [-0.8,  0.6]], dtype=float32)
  """
  if not left:
    found = times_reflectors(a, taus, adjoint(c), transpose=not transpose)
    return adjoint(found)
  if 0 in c.shape or 0 in taus.shape:
    return c

  def multiply(a: Array, taus: Array, c: Array) -> Array:
    rows, number = jnp.arange(a.shape[0]), taus.shape[0]

    def step(i: Array, c: Array) -> Array:
      j = i if transpose else number - 1 - i
      v = jnp.where(rows > j, a[:, j], (rows == j).astype(a.dtype))
      return _reflected(c, v, jnp.conj(taus[j]) if transpose else taus[j])

    return lax.fori_loop(0, number, step, c)

  return mapped(multiply, a.ndim - 2)(a, taus, c)


def _packed(a: Array) -> tuple[Array, Array]:
  m, n = a.shape
  rows, columns, number = jnp.arange(m), jnp.arange(n), min(m, n)

  def step(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    a, taus = state
    v, tau = _reflector(jnp.where(rows >= j, a[:, j], 0), j)
    moved = _reflected(a, v, jnp.conj(tau))
    below = (rows[:, None] > j) & (columns == j)
    # Columns before this one have the reflectors of earlier steps below the diagonal.
    return jnp.where(below, v[:, None], jnp.where(columns >= j, moved, a)), taus.at[j].set(tau)

  return lax.fori_loop(0, number, step, (a, jnp.zeros(number, a.dtype)))


def _reflector(x: Array, j: Array) -> tuple[Array, Array]:
  """Returns `(v, tau)` with `v[j] == 1` such that `I - conj(tau) v v^H` maps `x` to a multiple of axis `j`."""
  alpha = x[j]
  norm = jnp.linalg.norm(x)
  # A vector that is already a real multiple of the axis does not change, as in LAPACK.
  is_done = (jnp.linalg.norm(x.at[j].set(0)) == 0) & (jnp.imag(alpha) == 0)
  beta = jnp.where(alpha.real >= 0, -norm, norm).astype(x.dtype)
  tau = jnp.where(is_done, 0, (beta - alpha) / jnp.where(is_done, 1, beta))
  v = jnp.where(is_done, 0, x / jnp.where(is_done, 1, alpha - beta))
  return v.at[j].set(1), tau


def _reflected(a: Array, v: Array, tau: Array) -> Array:
  """Returns `(I - tau v v^H) a`."""
  return a - tau * v[:, None] * product(jnp.conj(v)[None], a)
