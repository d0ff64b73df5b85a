"""Singular value decomposition by rotations of columns (one-sided Jacobi), which is accurate for small values, too.

The columns of R^H, where A = QR, are rotated in pairs until all are orthogonal. Their norms are the singular values.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from graftax.xla_call_module.exporting.linear_algebra.householder import qr
from graftax.xla_call_module.lax_extras.matrices import adjoint, identity_like, product

__all__ = ["svd"]

_MAX_SWEEPS = 40


def svd(
  a: Array,
  *,
  full_matrices: bool,
  compute_uv: bool,
  subset_by_index: tuple[int, int] | None = None,
  algorithm: object = None,
) -> tuple[Array, ...]:
  """Returns `(s, u, vh)`, or `(s,)` without vectors, of matrices `[..., m, n]`; see `jax.lax.linalg.svd`."""
  del algorithm
  *batch, m, n = a.shape
  if m < n:
    s, *vectors = svd(adjoint(a), full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
    return (s, adjoint(vectors[1]), adjoint(vectors[0])) if vectors else (s,)
  if subset_by_index is not None and tuple(subset_by_index) != (0, n):
    raise NotImplementedError("subset_by_index not implemented for CPU and GPU")
  if n == 0 or 0 in batch:
    s = jnp.zeros((*batch, n), a.real.dtype)
    return (s, identity_like(a, m, m if full_matrices else n), identity_like(a, n, n)) if compute_uv else (s,)
  q, r = qr(a, pivoting=False, full_matrices=full_matrices)
  s, *vectors = _decompose_lower(adjoint(r[..., :n, :]), compute_uv)
  if not vectors:
    return (s,)
  left, right = vectors
  u = product(q[..., :n], right)
  u = jnp.concatenate([u, q[..., n:]], axis=-1) if full_matrices else u
  return s, u, adjoint(left)


def _decompose_lower(a: Array, compute_uv: bool) -> tuple[Array, ...]:
  """Returns `(s, u, v)`, or `(s,)` without vectors, with `a = u diag(s) v^H` for square matrices."""
  n = a.shape[-1]
  # Squares of entries must neither overflow nor underflow.
  scale = jnp.max(jnp.abs(a), axis=(-2, -1), keepdims=True)
  scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
  columns = a / scale.astype(a.dtype)
  columns = jnp.concatenate([columns, identity_like(a, n, n)], axis=-2) if compute_uv else columns
  columns = _orthogonalized(columns, n)
  norms = jnp.sqrt(_squares(columns[..., :n, :]))
  order = jnp.argsort(-norms, axis=-1)
  s = jnp.take_along_axis(norms, order, axis=-1) * scale[..., 0]
  if not compute_uv:
    return (s,)
  columns = jnp.take_along_axis(columns, order[..., None, :], axis=-1)
  # The columns are orthogonal and their norms descend, so their QR decomposition only divides them by their norms, and
  # completes the basis where they vanish, or are so short that reflectors of them would be inexact.
  limits = jnp.finfo(a.dtype)
  is_long = jnp.linalg.norm(columns[..., :n, :], axis=-2, keepdims=True) > limits.tiny**0.5 / limits.eps
  u, r = qr(jnp.where(is_long, columns[..., :n, :], 0), pivoting=False, full_matrices=False)
  diagonal = jnp.diagonal(r, axis1=-2, axis2=-1)
  size = jnp.abs(diagonal)
  phase = jnp.where(size > 0, diagonal / jnp.where(size > 0, size, 1).astype(a.dtype), 1)
  return s, u * phase[..., None, :], columns[..., n:, :]


def _orthogonalized(x: Array, n: int) -> Array:
  """Rotates pairs of columns of `x`: `[..., rows, n]` until their first `n` rows are orthogonal."""
  # Indices instead of slices and padding, because `n` may be symbolic.
  half = (n + 1) // 2
  width = 2 * half
  positions = jnp.arange(width)
  x = jnp.where(positions < n, _columns(x, jnp.minimum(positions, n - 1)), 0)
  # Column 0 stays and the others move by one, so that each pair meets once in `width - 1` rounds.
  moved = jnp.where(positions == 0, 0, jnp.where(positions == 1, width - 1, positions - 1))
  eps = jnp.finfo(x.dtype).eps
  tolerance = eps * jnp.sqrt(jnp.asarray(n, x.real.dtype))

  def rotate(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    x, worst = state
    left, right = x[..., :half], x[..., half:][..., ::-1]
    left, right, angle = _rotated(left, right, n, eps)
    x = jnp.concatenate([left, right[..., ::-1]], axis=-1)
    return _columns(x, moved), jnp.maximum(worst, jnp.max(angle))

  def sweep(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    x, _, count = state
    x, worst = jax.lax.fori_loop(0, width - 1, rotate, (x, jnp.zeros((), x.real.dtype)))
    return x, worst, count + 1

  def unfinished(state: tuple[Array, Array, Array]) -> Array:
    _, worst, count = state
    return (worst > tolerance) & (count < _MAX_SWEEPS)

  start = x, jnp.full((), jnp.inf, x.real.dtype), jnp.int32(0)
  x, _, _ = jax.lax.while_loop(unfinished, sweep, start)
  return _columns(x, jnp.arange(n))


def _columns(x: Array, positions: Array) -> Array:
  return x.at[..., positions].get(mode="promise_in_bounds")


def _rotated(left: Array, right: Array, n: int, eps: np.floating[Any]) -> tuple[Array, Array, Array]:
  """Rotates each column of `left` with that of `right` so that they become orthogonal.

  Returns:
    The columns, and the cosine of the angle that they had.
  """
  a, b = _squares(left[..., :n, :]), _squares(right[..., :n, :])
  inner = jnp.sum(jnp.conj(left[..., :n, :]) * right[..., :n, :], axis=-2)
  size = jnp.abs(inner)
  norms = jnp.sqrt(a) * jnp.sqrt(b)
  angle = jnp.where(norms > 0, size / jnp.where(norms > 0, norms, 1), 0)
  turn = angle > eps
  safe = jnp.where(turn, size, 1)
  phase = jnp.where(turn, inner / safe.astype(inner.dtype), 1)
  zeta = (b - a) / (2 * safe)
  sign = jnp.where(zeta >= 0, 1, -1).astype(zeta.dtype)
  tangent = jnp.where(turn, sign / (jnp.abs(zeta) + jnp.sqrt(1 + zeta * zeta)), 0)
  cosine = 1 / jnp.sqrt(1 + tangent * tangent)
  sine = cosine * tangent
  right = right * jnp.conj(phase)[..., None, :]
  cosine, sine = cosine[..., None, :], sine[..., None, :]
  return cosine * left - sine * right, sine * left + cosine * right, angle


def _squares(x: Array) -> Array:
  return jnp.sum(jnp.real(x) ** 2 + jnp.imag(x) ** 2 if jnp.iscomplexobj(x) else x * x, axis=-2)
