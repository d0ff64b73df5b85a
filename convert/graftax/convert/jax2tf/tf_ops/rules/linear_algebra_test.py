"""Decompositions and solvers as plain TensorFlow ops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.testing.plain_ops import check_plain_ops

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("rows", [3, 6])
def test_singular_values_of_an_open_number_of_rows(rows):
  x = np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32)

  def function(x):
    u, s, vt = lax.linalg.svd(x, full_matrices=False)
    return (u * s) @ vt, lax.linalg.svd(x, compute_uv=False)

  check_plain_ops(function, x, polymorphic_shapes="n, _", rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("batch", "dtype"), [((), np.float32), ((2,), np.float64), ((2, 3), np.complex64)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_tridiagonal_systems(batch, dtype, size):
  rng = np.random.default_rng(0)
  lower, diagonal, upper = rng.standard_normal((3, *batch, size)).astype(dtype)
  y = rng.standard_normal((*batch, size, 2)).astype(dtype)
  check_plain_ops(lax.linalg.tridiagonal_solve, lower, diagonal + 4, upper, y)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_singular_tridiagonal_systems(size):
  lower, y = np.ones((3, size), np.float32), np.ones((3, size, 2), np.float32)
  check_plain_ops(lax.linalg.tridiagonal_solve, lower, 0 * lower, 0 * lower, y)


def test_tridiagonal_systems_of_open_size():
  x = np.linspace(1, 2, 5, dtype=np.float32)
  shapes = ("n", "n", "n", "n, 1")
  check_plain_ops(lax.linalg.tridiagonal_solve, x, x + 4, x, x[:, None], polymorphic_shapes=shapes)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("lower", [False, True])
def test_eigenvalues_of_the_triangle_that_is_read(lower, dtype):
  rng = np.random.default_rng(0)
  x = (rng.standard_normal((4, 4)) + (1j * rng.standard_normal((4, 4)) if dtype == np.complex64 else 0)).astype(dtype)
  check_plain_ops(lambda x: lax.linalg.eigh(x, lower=lower, symmetrize_input=False)[1], x, rtol=1e-4, atol=1e-5)


def _matrix(*shape, dtype):
  rng = np.random.default_rng(0)
  imaginary = 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0
  return (rng.standard_normal(shape) + imaginary).astype(dtype)


@pytest.mark.parametrize("size", [2, 5, 30])
def test_vectors_whose_signs_are_fixed_as_the_limits_say(size):
  def sign(v):
    return jnp.sign(jnp.take_along_axis(v, jnp.argmax(jnp.abs(v), axis=-2, keepdims=True), axis=-2))

  def function(x):
    vectors = jnp.linalg.eigh(x)[1]
    u, _, vt = jnp.linalg.svd(x)
    return vectors * sign(vectors), u * sign(u), vt * jnp.swapaxes(sign(u), -1, -2)

  check_plain_ops(function, _matrix(2, size, size, dtype=np.float32), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)])
def test_reflectors(shape, dtype):
  x = _matrix(*shape, dtype=dtype)
  y = _matrix(*shape[:-1], 2, dtype=dtype)

  def function(x, y):
    packed, taus = jnp.linalg.qr(x, mode="raw")
    packed = packed.mT
    on_left = [lax.linalg.ormqr(packed, taus, y, left=True, transpose=transpose) for transpose in (True, False)]
    on_right = [lax.linalg.ormqr(packed, taus, y.mT, left=False, transpose=transpose) for transpose in (True, False)]
    return packed, taus, on_left, on_right, lax.linalg.householder_product(packed[..., : x.shape[-2]], taus)

  check_plain_ops(function, x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)])
def test_decompositions_with_pivots(shape, full_matrices):
  x = _matrix(*shape, dtype=np.float32)
  check_plain_ops(lambda x: lax.linalg.qr(x, pivoting=True, full_matrices=full_matrices), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_eigenvalues_of_general_matrices(dtype):
  def function(x):
    values, vectors = jnp.linalg.eig(x)
    order = jnp.argsort(values)
    return jnp.take_along_axis(values, order, -1), jnp.take_along_axis(vectors, order[..., None, :], -1)

  with jax.enable_x64(dtype == np.float64):
    x = _matrix(2, 4, 4, dtype=dtype)
    check_plain_ops(lambda x: (function(x)[0], abs(function(x)[1]), jnp.sort(jnp.linalg.eigvals(x))), x, rtol=1e-4)
    check_plain_ops(lambda x: x @ function(x)[1] - function(x)[1] * function(x)[0][..., None, :], x, atol=1e-5)


def test_a_primitive_of_a_library_that_calls_lapack_without_a_guarantee():
  @jax.custom_batching.custom_vmap  # has no rule
  def function(x):
    return jax.scipy.linalg.qr_multiply(x, jnp.ones((3, 2), x.dtype), mode="left")[0]

  function.def_vmap(lambda size, are_batched, x: (x, True))  # JAX wants one

  check_plain_ops(function, _matrix(4, 3, dtype=np.float32), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1e-30, 1e-25, 1e25])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_squares_of_entries_may_leave_the_range(size, dtype):
  def function(x):
    (q, r), (_, taus) = lax.linalg.qr(x), jnp.linalg.qr(x, mode="raw")
    pivoted = lax.linalg.qr(x, pivoting=True)
    return q, r / size, taus, pivoted[0], pivoted[1] / size, pivoted[2]

  check_plain_ops(function, _matrix(2, 4, 3, dtype=dtype) * dtype(size), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 3, 3)])
@pytest.mark.parametrize(
  "function",
  [
    lambda x: jnp.linalg.qr(x, mode="raw"),
    lambda x: lax.linalg.qr(x, pivoting=True),
    lambda x: lax.linalg.householder_product(x, x[..., 0, :]) if 0 < x.shape[-2] >= x.shape[-1] else x,
    lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False) if x.shape[-1] == x.shape[-2] else x,
  ],
  ids=["raw", "pivots", "product", "eig"],
)
def test_empty_matrices(function, shape):
  check_plain_ops(function, np.zeros(shape, np.float32))
