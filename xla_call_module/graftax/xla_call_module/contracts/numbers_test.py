"""A valid call of every CPU kernel that jaxlib registers computes what NumPy and SciPy do, embedded and lifted."""

import functools
import re

import jax
import jax.experimental.sparse
import jax.scipy.linalg
import numpy as np
import pytest
import scipy.linalg
from jax.lax import linalg

from graftax.xla_call_module import Module, embed, lift
from graftax.xla_call_module.contracts.kernels import cpu_targets

_DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
_TARGET = re.compile(r"custom_call @(\w+)")


def _matrix(dtype, *shape):
  rng = np.random.default_rng(sum(shape))
  imaginary = 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else 0
  return (rng.normal(size=shape) + imaginary).astype(dtype)


def _h(x):
  return np.conj(np.swapaxes(x, -1, -2))


def _close(got, want):
  tolerance = 2e-4 if np.result_type(got).itemsize == 4 or np.result_type(got) == np.complex64 else 1e-10
  np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def _orthonormal(q):
  _close(_h(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)))


def _lu(results, a):
  for lu, pivots, permutation, x in zip(*results, a, strict=True):
    _close((np.tril(lu, -1) + np.eye(4, dtype=lu.dtype)) @ np.triu(lu), x[permutation])
    np.testing.assert_array_equal(pivots, scipy.linalg.lu_factor(x)[1])


def _qr(results, a):
  for got, want in zip(results, np.linalg.qr(a), strict=True):
    _close(got, want)


def _pivoted_qr(results, a):
  for q, r, pivots, x in zip(*results, a, strict=True):
    want = scipy.linalg.qr(x, mode="economic", pivoting=True)
    _close(q, want[0])
    _close(r, want[1])
    np.testing.assert_array_equal(pivots, want[2])


def _svd(results, a):
  u, s, vt = results
  _close(u * s[:, None, :] @ vt, a)
  _close(s, np.linalg.svd(a, compute_uv=False))
  _orthonormal(u)
  _orthonormal(_h(vt))


def _eigh(results, a):
  v, w = results
  _close(w, np.linalg.eigvalsh(a))
  _close(a @ v, v * w[:, None, :])
  _orthonormal(v)


def _eig(results, a):
  w, left, right = results
  for got, x in zip(w, a, strict=True):
    _close(np.poly(got), np.poly(x).astype(got.dtype))
  _close(a @ right, right * w[:, None, :])
  _close(_h(left) @ a, w[:, :, None] * _h(left))
  _close(np.linalg.norm(right, axis=1), np.ones(w.shape))


def _schur(results, a):
  t, z = results
  _close(z @ t @ _h(z), a)
  _orthonormal(z)
  assert not np.tril(t, -2).any()


def _hessenberg(results, a):
  for h, x in zip(results[0], a, strict=True):
    _close(np.triu(h, -1), scipy.linalg.hessenberg(x))


def _tridiagonal(results, a):
  _, diagonal, off_diagonal, _ = results
  for d, e, x in zip(diagonal, np.real(off_diagonal), a, strict=True):
    _close(np.linalg.eigvalsh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1)), np.linalg.eigvalsh(x))


def _times_q(results, a, c):
  for got, x, y in zip(results, a, c, strict=True):
    _close(got, scipy.linalg.qr(x, mode="economic")[0] @ y)


def _solved(results, dl, d, du, b):
  for got, low, middle, high, right in zip(results, dl, d, du, b, strict=True):
    _close((np.diag(middle) + np.diag(low[1:], -1) + np.diag(high[:-1], 1)) @ got, right)


def _band(dtype):
  dl, du = _matrix(dtype, 2, 5), _matrix(dtype, 2, 5) + 1
  dl[:, 0] = du[:, -1] = 0
  return dl, _matrix(dtype, 2, 5) + np.dtype(dtype).type(6), du, _matrix(dtype, 2, 5, 3)


def _hermitian(dtype):
  a = _matrix(dtype, 2, 4, 4)
  return (a @ _h(a) + 4 * np.eye(4)).astype(dtype)


def _sparse(dtype, of):
  a = jax.experimental.sparse.BCSR.fromdense(np.arange(12).reshape(4, 3) % 4)
  return a.data.astype(dtype), np.asarray(a.indices, np.int32), np.asarray(a.indptr, np.int32), _matrix(dtype, *of)


def _sparse_product(results, data, indices, indptr, x):
  _close(results, (np.arange(12).reshape(4, 3) % 4).astype(data.dtype) @ x)


def _product(data, indices, indptr, x):
  return jax.experimental.sparse.BCSR((data, indices, indptr), shape=(4, 3)) @ x


# What a function computes with JAX, its arguments for a dtype, the check of its results, and its dtypes.
_CASES = {
  "potrf": (
    functools.partial(linalg.cholesky, symmetrize_input=False),
    lambda t: (_hermitian(t),),
    lambda got, a: _close(got, np.linalg.cholesky(a)),
    _DTYPES,
  ),
  "getrf": (linalg.lu, lambda t: (_matrix(t, 2, 4, 4),), _lu, _DTYPES),
  "geqrf, orgqr": (
    functools.partial(linalg.qr, full_matrices=False),
    lambda t: (_matrix(t, 2, 6, 4),),
    _qr,
    _DTYPES,
  ),
  "geqp3": (
    functools.partial(linalg.qr, pivoting=True, full_matrices=False),
    lambda t: (_matrix(t, 2, 6, 4),),
    _pivoted_qr,
    _DTYPES,
  ),
  **{
    name: (
      functools.partial(linalg.svd, full_matrices=False, algorithm=algorithm),
      lambda t: (_matrix(t, 2, 6, 4),),
      _svd,
      _DTYPES,
    )
    for name, algorithm in (("gesdd", linalg.SvdAlgorithm.DEFAULT), ("gesvd", linalg.SvdAlgorithm.QR))
  },
  "syevd": (functools.partial(linalg.eigh, symmetrize_input=False), lambda t: (_hermitian(t),), _eigh, _DTYPES),
  "geev": (linalg.eig, lambda t: (_matrix(t, 2, 4, 4),), _eig, _DTYPES),
  "gees": (linalg.schur, lambda t: (_matrix(t, 2, 4, 4),), _schur, _DTYPES),
  "gehrd": (linalg.hessenberg, lambda t: (_matrix(t, 2, 4, 4),), _hessenberg, _DTYPES),
  "sytrd": (functools.partial(linalg.tridiagonal, lower=True), lambda t: (_hermitian(t),), _tridiagonal, _DTYPES),
  "trsm": (
    functools.partial(linalg.triangular_solve, left_side=True, lower=True),
    lambda t: (np.tril(_hermitian(t)), _matrix(t, 2, 4, 3)),
    lambda got, a, b: _close(a @ got, b),
    _DTYPES,
  ),
  "ormqr": (
    lambda a, c: jax.vmap(lambda a, c: jax.scipy.linalg.qr_multiply(a, c, mode="left")[0])(a, c),
    lambda t: (_matrix(t, 2, 6, 4), _matrix(t, 2, 4, 3)),
    _times_q,
    _DTYPES,
  ),
  "gtsv": (linalg.tridiagonal_solve, _band, _solved, _DTYPES),
  "gtsv, perturbed": (
    functools.partial(linalg.tridiagonal_solve, perturb_singular=True),
    lambda t: tuple(x[0] for x in _band(t)),
    lambda got, *given: _solved(got[None], *(x[None] for x in given)),
    (np.float32, np.float64),
  ),
  "sparse matrix, vector": (_product, lambda t: _sparse(t, (3,)), _sparse_product, _DTYPES),
  "sparse matrix, matrix": (_product, lambda t: _sparse(t, (3, 2)), _sparse_product, _DTYPES),
}
_ALL = [(name, dtype) for name, (_, _, _, dtypes) in _CASES.items() for dtype in dtypes]


def _exported(name, dtype):
  function, make, check, _ = _CASES[name]
  args = make(dtype)
  jitted = jax.jit(function)
  targets = set(_TARGET.findall(jitted.lower(*args).as_text()))
  # Some targets have no guarantee of compatibility.
  unchecked = [jax.export.DisabledSafetyCheck.custom_call(target) for target in targets]
  exported = jax.export.export(jitted, disabled_checks=unchecked)(*args)
  return Module.from_exported(exported), args, check, targets


@pytest.mark.parametrize("name, dtype", _ALL, ids=lambda value: value if isinstance(value, str) else value.__name__)
@pytest.mark.slow
def test_a_call_of_each_kernel_computes_what_numpy_does(name, dtype):
  with jax.enable_x64(True):
    module, args, check, _ = _exported(name, dtype)
    for way in (embed, lift):
      for run in (way(module), jax.jit(way(module))):
        results = [np.asarray(result) for result in run(*args)]
        check(results[0] if len(results) == 1 else results, *args)


@pytest.mark.slow
def test_the_programs_call_every_kernel():
  with jax.enable_x64(True):
    called = set().union(*(_exported(name, dtype)[3] for name, dtype in _ALL))
  assert set(cpu_targets()) <= called
