"""Unique values are compared with LAPACK's, the others by what they solve."""

import functools

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest

from graftax.testing.call_modules import run_call_module
from graftax.xla_call_module import LiftError
from graftax.xla_call_module.exporting import export_call_module

_DTYPES = ["float32", "complex128"]
_BOUND = {"float32": 2e-6, "complex128": 1e-12}


@pytest.fixture(autouse=True)
def _with_64_bits():
  with jax.enable_x64(True):
    yield


def _draw(shape, dtype, seed=0):
  rng = np.random.default_rng(seed)
  values = rng.standard_normal(shape)
  return (values + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else values).astype(dtype)


def _adjoint(x):
  return x.conj().swapaxes(-1, -2)


def _run(function, *arrays, symbolic):
  scope = jax.export.SymbolicScope()
  batch = jax.export.symbolic_shape("b", scope=scope)
  specs = [jax.ShapeDtypeStruct((*batch, *x.shape[1:]) if symbolic else x.shape, x.dtype) for x in arrays]
  module = export_call_module(lambda *args: jax.tree.leaves(function(*args)), specs)
  return run_call_module(module.attributes, [arrays[i] for i in module.kept], module.outputs)


def _check_equal(function, *arrays, symbolic, bound):
  results = _run(function, *arrays, symbolic=symbolic)
  for got, want in zip(results, jax.tree.leaves(function(*arrays)), strict=True):
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound * np.max(np.abs(want)))
    assert got.dtype == want.dtype


def _positive(x):
  return x @ _adjoint(x) + 5 * np.eye(x.shape[-1], dtype=x.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize(
  "function",
  [
    jnp.linalg.inv,
    jnp.linalg.det,
    jnp.linalg.slogdet,
    jnp.linalg.cond,
    jax.scipy.linalg.expm,
    jax.vmap(jax.scipy.linalg.lu),
    lambda x: jnp.linalg.cholesky(_positive(x)),
    lambda x: jnp.linalg.eigvalsh(_positive(x)),
    lambda x: jnp.linalg.solve(x, jnp.ones_like(x[..., :2])),
    lambda x: jax.scipy.linalg.solve_triangular(x, jnp.ones_like(x[..., :2]), trans=2, lower=True),
  ],
)
def test_functions_of_square_matrices_equal_lapack(function, dtype, symbolic):
  _check_equal(function, _draw((3, 4, 4), dtype), symbolic=symbolic, bound=10 * _BOUND[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 6, 3), (2, 3, 6)])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize(
  "function",
  [
    jnp.linalg.qr,
    functools.partial(jnp.linalg.qr, mode="complete"),
    functools.partial(jnp.linalg.svd, compute_uv=False),
    jnp.linalg.pinv,
    jax.lax.linalg.lu,
  ],
)
def test_functions_of_rectangular_matrices_equal_lapack(function, dtype, symbolic, shape):
  _check_equal(function, _draw(shape, dtype), symbolic=symbolic, bound=10 * _BOUND[dtype])


@pytest.mark.parametrize(
  ("dtype", "symbolic"),
  [("float32", True), *(pytest.param("complex128", symbolic, marks=pytest.mark.slow) for symbolic in (False, True))],
)
def test_eigenvectors_diagonalize(dtype, symbolic):
  x = _draw((2, 5, 5), dtype)
  x = x + _adjoint(x)
  values, vectors = _run(jnp.linalg.eigh, x, symbolic=symbolic)
  np.testing.assert_allclose((vectors * values[:, None]) @ _adjoint(vectors), x, atol=10 * _BOUND[dtype])
  np.testing.assert_allclose(_adjoint(vectors) @ vectors, [np.eye(5)] * 2, atol=_BOUND[dtype])
  np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=10 * _BOUND[dtype])


@pytest.mark.parametrize(("gap", "bound"), [(1, 1e-12), (1e-3, 1e-12), (1e-4, 1e-7), (1e-8, 1e-7), (0, 1e-12)])
def test_eigenvectors_of_float64_have_its_precision(gap, bound):
  x = _draw((1, 12, 12), "float64")
  directions = np.linalg.eigh(x + _adjoint(x))[1]
  x = (directions * (1 + gap * np.arange(12))) @ _adjoint(directions)
  values, vectors = _run(jnp.linalg.eigh, x, symbolic=False)
  np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=bound)
  np.testing.assert_allclose(_adjoint(vectors) @ vectors, [np.eye(12)], atol=1e-12)


def _check_svd(x, results, bound):
  u, s, vh = results
  rank = s.shape[-1]
  np.testing.assert_allclose((u[..., :rank] * s[..., None, :]) @ vh[..., :rank, :], x, atol=bound)
  for q in (u, _adjoint(vh)):
    np.testing.assert_allclose(_adjoint(q) @ q - np.eye(q.shape[-1]), 0, atol=bound)
  np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=bound)


@pytest.mark.parametrize(
  ("dtype", "full_matrices", "shape"),
  [
    ("complex128", True, (2, 3, 5)),
    pytest.param("complex128", False, (2, 5, 3), marks=pytest.mark.slow),
    pytest.param("float32", True, (2, 5, 3), marks=pytest.mark.slow),
    pytest.param("float32", False, (2, 4, 4), marks=pytest.mark.slow),
  ],
)
def test_singular_vectors_are_orthogonal_and_rebuild_the_matrix(dtype, full_matrices, shape):
  x = _draw(shape, dtype)
  results = _run(functools.partial(jnp.linalg.svd, full_matrices=full_matrices), x, symbolic=full_matrices)
  _check_svd(x, results, 10 * _BOUND[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", _DTYPES)
def test_singular_matrices_have_orthogonal_singular_vectors(dtype):
  x = _draw((4, 6, 5), dtype)
  x[0] = 0
  x[1, :, 3:] = 0
  x[2] = x[2, :, :1] * x[2, :1, :]
  x[3] *= 1e-18
  _check_svd(x, _run(jnp.linalg.svd, x, symbolic=False), 20 * _BOUND[dtype])


@pytest.mark.slow
def test_matrices_whose_squares_leave_the_range_are_decomposed():
  # XLA's own decompositions square the entries: in float32 those of 1e-25 vanish and those of 1e25 are infinite.
  x = _draw((5, 4, 4), "float32") * np.array([1, 1e-18, 1e-25, 1e18, 1e25], np.float32)[:, None, None]
  x = x + _adjoint(x)
  size = np.abs(x).max((1, 2), keepdims=True)

  def check(rebuilt, *orthogonal):
    np.testing.assert_allclose(rebuilt / size, x / size, atol=1e-5)
    for q in orthogonal:
      np.testing.assert_allclose(_adjoint(q) @ q, [np.eye(4)] * 5, atol=1e-5)

  q, r = _run(jnp.linalg.qr, x, symbolic=True)
  check(q @ r, q)
  values, vectors = _run(jnp.linalg.eigh, x, symbolic=True)
  check(vectors * values[:, None] @ _adjoint(vectors), vectors)
  u, s, vh = _run(jnp.linalg.svd, x, symbolic=True)
  check(u * s[:, None] @ vh, u, _adjoint(vh))


@pytest.mark.slow
@pytest.mark.parametrize(
  "function", [jnp.linalg.inv, jnp.linalg.qr, functools.partial(jnp.linalg.svd, compute_uv=False), jnp.linalg.eigvalsh]
)
def test_sizes_of_matrices_may_be_symbolic(function):
  x = _positive(_draw((2, 5, 5), "float64"))
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, n, n"), x.dtype)
  module = export_call_module(lambda x: jax.tree.leaves(function(x)), [spec])
  results = run_call_module(module.attributes, [x], module.outputs)
  for got, want in zip(results, jax.tree.leaves(function(x)), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_blocked_lu_equals_lapack():
  x = _draw((150, 170), "float64")
  _check_equal(jax.lax.linalg.lu, x, symbolic=False, bound=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_pivoted_qr_equals_lapack(dtype, shape):
  _check_equal(lambda x: jax.scipy.linalg.qr(x, pivoting=True), _draw(shape, dtype), symbolic=False, bound=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("first", [4, 0, 1e-12])  # small pivots need an exchange of rows
def test_tridiagonal_systems_equal_lapack(first):
  d = _draw((3, 5), "float64")
  scale = np.array([first, 1, first, 1, 1])
  _check_equal(
    lambda d, b: jax.lax.linalg.tridiagonal_solve(d, d * scale, 2 * d, b),
    d,
    _draw((3, 5, 2), "float64"),
    symbolic=True,
    bound=1e-10,
  )


@pytest.mark.slow
def test_gradients_of_linear_algebra_equal_jax():
  def function(x):
    s = jnp.linalg.svd(x, full_matrices=False)[1]
    _, log = jnp.linalg.slogdet(x @ x.T + jnp.eye(3))
    return jnp.sum(s**3) + log + jnp.sum(jnp.linalg.pinv(x) ** 2)

  _check_equal(jax.vmap(jax.grad(function)), _draw((2, 3, 5), "float64"), symbolic=True, bound=1e-9)


def test_matrices_that_are_not_positive_definite_have_a_factor_of_nan():
  x = np.stack([np.diag([1.0, -1.0, 1.0]), np.eye(3)])
  (got,) = _run(jnp.linalg.cholesky, x, symbolic=False)
  np.testing.assert_array_equal(got, jnp.linalg.cholesky(x))


@pytest.mark.parametrize(
  "function",
  [jnp.linalg.eig, jax.scipy.linalg.schur, jax.scipy.linalg.hessenberg, jax.scipy.linalg.sqrtm],
)
def test_what_has_no_expansion_raises_while_exporting(function):
  with pytest.raises(LiftError, match=r"of \w+\[4, 4\] cannot be exported: on CPU JAX calls LAPACK"):
    export_call_module(lambda x: jax.tree.leaves(function(x)), [jax.ShapeDtypeStruct((4, 4), np.float64)])


@pytest.mark.parametrize("shape", [(2, 6, 3), (2, 3, 6), (2, 4, 4)])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_raw_qr_equals_lapack(dtype, symbolic, shape):
  # Before, the module called LAPACK, which TensorFlow does not have.
  _check_equal(lambda a: jnp.linalg.qr(a, mode="raw"), _draw(shape, dtype), symbolic=symbolic, bound=10 * _BOUND[dtype])


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_raw_qr_neither_overflows_nor_underflows(size):
  a = _draw((4, 3), "float32") * np.float32(size)
  _check_equal(lambda a: [jnp.linalg.qr(a, mode="raw")[0]], a, symbolic=False, bound=1e-5)


@pytest.mark.parametrize(
  "function",
  [
    lambda a: jax.lax.linalg.cholesky_update(jnp.linalg.cholesky(_positive(a)).T, a[0]),
    lambda a: jax.lax.linalg.symmetric_product(a, jnp.zeros_like(a), symmetrize_output=True),
    lambda a: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), a[0]),
    lambda a: jax.scipy.linalg.polar(a)[0],
  ],
)
def test_less_common_decompositions_equal_lapack(function):
  _check_equal(function, _draw((4, 4), "float64"), symbolic=False, bound=1e-10)
