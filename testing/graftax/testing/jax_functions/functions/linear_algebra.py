"""Products, decompositions and solvers; decompositions also in other precisions, batched and symbolic."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import Array, lax

from graftax.testing.jax_functions.case import SHARED, Case, c64, c128, f32, f64
from graftax.testing.pytrees import PyTree

_M, _S = (f32(3, 4),), (f32(2, 3, 3),)
_B = ("b, ...",)


def _spd(x: Array) -> Array:
  """Returns positive definite matrices whose eigenvalues are well apart."""
  n = x.shape[-1]
  return x @ jnp.conj(jnp.swapaxes(x, -1, -2)) + jnp.diag(jnp.arange(1, n + 1) * 2.0).astype(x.dtype)


def _well(x: Array) -> Array:
  """Returns matrices that are far from singular."""
  return x + jnp.diag(jnp.arange(1, x.shape[-1] + 1) * 2.0).astype(x.dtype)


def _adjoint(x: Array) -> Array:
  return jnp.conj(jnp.swapaxes(x, -1, -2))


def _eigh_parts(w: Array, v: Array) -> PyTree:
  return w, (v * w[..., None, :] ** 2) @ _adjoint(v), (v * jnp.sin(w)[..., None, :]) @ _adjoint(v)


def _svd_parts(u: Array, s: Array, vh: Array) -> PyTree:
  k = s.shape[-1]
  u, vh = u[..., :, :k], vh[..., :k, :]
  return s, (u * s[..., None, :] ** 2) @ vh, u @ vh


def _eig_parts(w: Array, v: Array) -> PyTree:
  return w.sum(-1), (w**2).sum(-1), jnp.einsum("...ij,...j,...jk->...ik", v, w, jnp.linalg.inv(v))


# name, function of a batch of matrices, invariants, columns of the matrix (rows: 3, or 4 if there are 3 columns less)
_DECOMPOSITIONS: tuple[tuple[str, Callable[..., Any], Callable[..., Any] | None, tuple[int, int]], ...] = (
  ("cholesky", lambda x: jnp.linalg.cholesky(_spd(x)), None, (3, 3)),
  ("qr", lambda x: jnp.linalg.qr(x + jnp.eye(4, 3)), None, (4, 3)),
  ("lu", lambda x: lax.linalg.lu(_well(x)), None, (3, 3)),
  ("eigh", lambda x: jnp.linalg.eigh(_spd(x)), _eigh_parts, (3, 3)),
  ("svd", lambda x: jnp.linalg.svd(_well(x), full_matrices=False), _svd_parts, (3, 3)),
  ("solve", lambda x: jnp.linalg.solve(_well(x), x[..., :2]), None, (3, 3)),
  ("inv", lambda x: jnp.linalg.inv(_well(x)), None, (3, 3)),
  ("det", lambda x: jnp.linalg.det(_well(x)), None, (3, 3)),
  ("slogdet", lambda x: jnp.linalg.slogdet(_well(x)), None, (3, 3)),
  ("pinv", lambda x: jnp.linalg.pinv(x + jnp.eye(4, 3)), None, (4, 3)),
  ("expm", lambda x: jsl.expm(x), None, (3, 3)),
  (
    "triangular_solve",
    lambda x: lax.linalg.triangular_solve(_well(x), x[..., :2], left_side=True, lower=True),
    None,
    (3, 3),
  ),
)
_PRECISIONS = (("", f32), ("_f64", f64), ("_c64", c64), ("_c128", c128))
# TensorFlow's XLA expands `Eigh` into Jacobi rotations, which stop early: measured errors are 3.2e-11 (float64) and
# 8.3e-10 (complex128) of the largest value; those of all other functions are below 1e-14.
_LOOSE = {"eigh_f64": 100.0, "eigh_c128": 3000.0}


def _decompositions() -> tuple[Case, ...]:
  return tuple(
    Case(name + suffix, function, (of(2, *shape),), _B, invariants=invariants, loose=_LOOSE.get(name + suffix, 1.0))
    for name, function, invariants, shape in _DECOMPOSITIONS
    for suffix, of in _PRECISIONS
  )


CASES = (
  Case("dot", lambda x, y: jnp.dot(x, y) + x @ y, (f32(3, 4), f32(4, 2)), ("b, _", None)),
  Case("einsum", lambda x: jnp.einsum("ij,kj->ik", x, x) @ x, _M, _B),
  Case("batched_dot", SHARED["batched_dot"], _S, _B),
  Case("tensordot_outer", lambda x: jnp.tensordot(x, x, 1) + jnp.outer(x[0, 0], x[0, 1]).sum(), (f32(3, 3, 3),)),
  Case("precision_highest", lambda x: jnp.matmul(x, x.T, precision="highest"), _M, _B),
  Case("integer_dot", lambda x: (x * 9).astype("int32") @ (x * 7).astype("int32").T, _M, _B, gradient=False),
  Case("kron_vander", lambda x: jnp.kron(x[:2], x[:2]) + jnp.vander(x[0], 16), _M),
  Case("matrix_power", lambda x: jnp.linalg.matrix_power(x, 5), _S, _B),
  Case("multi_dot_trace", lambda x: jnp.linalg.multi_dot([x, x.T, x]) * jnp.trace(x @ x.T), _M),
  *_decompositions(),
  Case("qr_complete", lambda x: jnp.linalg.qr(x + jnp.eye(4, 3), mode="complete"), (f32(2, 4, 3),), _B, gradient=False),
  Case("qr_wide", lambda x: jnp.linalg.qr(x + jnp.eye(3, 4)), (f32(2, 3, 4),), _B, gradient=False),
  Case("qr_unbatched", lambda x: jnp.linalg.qr(x + jnp.eye(5, 3)), (f32(5, 3),)),
  Case("lu_of_scipy", lambda x: jsl.lu(_well(x)), (f32(3, 3),)),
  Case("lu_factor_solve", lambda x: jsl.lu_solve(jsl.lu_factor(_well(x)), x[:, 0]), (f32(3, 3),)),
  Case("lu_tall", lambda x: lax.linalg.lu(x)[0], (f32(2, 4, 3),), _B),
  Case("lu_wide", lambda x: lax.linalg.lu(x), (f32(2, 3, 4),), _B),
  Case("eigvalsh", lambda x: jnp.linalg.eigvalsh(_spd(x)), _S, _B),
  Case("eigh_upper", lambda x: jnp.linalg.eigh(_spd(x), UPLO="U")[0], _S, _B),
  Case("singular_values", lambda x: jnp.linalg.svd(x, compute_uv=False), (f32(2, 4, 3),), _B),
  Case("svd_full", lambda x: jnp.linalg.svd(x), (f32(2, 4, 3),), _B, invariants=_svd_parts, gradient=False),
  Case("svd_wide", lambda x: jnp.linalg.svd(x, full_matrices=False), (f32(2, 3, 4),), _B, invariants=_svd_parts),
  Case("lstsq", lambda x, y: jnp.linalg.lstsq(x, y)[0], (f32(5, 3), f32(5, 2))),
  Case("lstsq_f64", lambda x, y: jnp.linalg.lstsq(x, y), (f64(5, 3), f64(5, 2)), gradient=False),
  Case(
    "lstsq_batch",
    jax.vmap(lambda x, y: jnp.linalg.lstsq(x, y)[0]),
    (f32(2, 5, 3), f32(2, 5, 2)),
    ("b, ...", "b, ..."),
  ),
  Case("cho_solve", lambda x: jsl.cho_solve(jsl.cho_factor(_spd(x)), x[..., :1]), (f32(3, 3),)),
  Case("solve_triangular", lambda x, y: jsl.solve_triangular(_well(x), y, trans=1), (f32(3, 3), f32(3, 2))),
  Case(
    "triangular_right",
    lambda x: lax.linalg.triangular_solve(_well(x), x, unit_diagonal=True, transpose_a=True),
    _S,
    _B,
  ),
  Case(
    "triangular_conjugate",
    lambda x: lax.linalg.triangular_solve(_well(x), x, left_side=True, transpose_a=True, conjugate_a=True),
    (c64(2, 3, 3),),
    _B,
  ),
  Case(
    "matrix_rank_cond",
    lambda x: (jnp.linalg.matrix_rank(x), jnp.linalg.cond(_well(x))),
    (f32(3, 3),),
    gradient=False,
  ),
  Case("nuclear_norm", lambda x: jnp.linalg.norm(_well(x), "nuc") + jnp.linalg.norm(_well(x), 2), (f32(3, 3),)),
  Case("polar", lambda x: jsl.polar(_well(x)), (f32(3, 3),), gradient=False),
  Case("tridiagonal_solve", SHARED["tridiagonal_solve"], (f32(6), f32(6))),
  Case("block_diag_toeplitz", lambda x: jsl.block_diag(x, x.T) + jsl.toeplitz(jnp.arange(7.0)), _M),
  Case("funm_like", lambda x: jsl.expm_frechet(x, x, compute_expm=False), (f32(3, 3),), gradient=False),
  Case("eig", jnp.linalg.eig, (f32(3, 3),), invariants=_eig_parts, refusal="may", gradient=False),
  Case("eigvals", lambda x: jnp.abs(jnp.linalg.eigvals(x)).sum(), (f32(3, 3),), refusal="may"),
  Case(
    "schur",
    lambda x: jsl.schur(x, output="real"),
    (f32(3, 3),),
    invariants=lambda t, z: z @ t @ z.T,
    refusal="may",
    gradient=False,
  ),
  Case("hessenberg", jsl.hessenberg, (f32(4, 4),), refusal="may", gradient=False),
  Case("sqrtm", lambda x: jsl.sqrtm(_spd(x)), (f32(3, 3),), refusal="may", gradient=False),
)
