"""Loops over reflectors, against LAPACK."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import packed_qr, pivoted_qr, times_reflectors


def _matrix(shape, dtype):
  rng = np.random.default_rng(0)
  imaginary = 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0
  return (rng.standard_normal(shape) + imaginary).astype(dtype)


_CASES = pytest.mark.parametrize(
  ("shape", "dtype"), [((4, 4), np.float32), ((2, 5, 3), np.complex64), ((3, 5), np.float32), ((1, 1), np.complex64)]
)


@_CASES
def test_the_packed_decomposition_is_that_of_lapack(shape, dtype):
  x = _matrix(shape, dtype)
  packed, taus = jax.jit(packed_qr)(x)
  want, want_taus = jnp.linalg.qr(x, mode="raw")
  np.testing.assert_allclose(packed, want.mT, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(taus, want_taus, rtol=1e-4, atol=1e-5)


@_CASES
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_products_are_those_of_lapack(shape, dtype, left, transpose):
  x, y = _matrix(shape, dtype), _matrix((*shape[:-1], 2), dtype)
  packed, taus = jnp.linalg.qr(x, mode="raw")
  y = y if left else y.swapaxes(-1, -2)
  got = times_reflectors(packed.mT, taus, y, left=left, transpose=transpose)
  want = lax.linalg.ormqr(packed.mT, taus, y, left=left, transpose=transpose)
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@_CASES
def test_pivots_are_those_of_lapack(shape, dtype):
  x = _matrix(shape, dtype)
  size = min(shape[-2:])
  q, r, columns = pivoted_qr(x, size)
  want = lax.linalg.qr(x, pivoting=True, full_matrices=False)
  np.testing.assert_array_equal(columns, want[2])
  np.testing.assert_allclose(q, want[0], rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(r, want[1], rtol=1e-4, atol=1e-5)


def test_a_product_has_derivatives():
  x, y = _matrix((4, 3), np.float32), _matrix((4, 2), np.float32)

  def function(x, y):
    return times_reflectors(*packed_qr(x), y).sum()

  step = 1e-2 * np.ones_like(x)
  slope = (function(x + step, y) - function(x - step, y)) / 2
  np.testing.assert_allclose(jnp.vdot(jax.grad(function)(x, y), step), slope, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("size", [1e-30, 1e-25, 1e25])
def test_squares_of_entries_may_leave_the_range(size):
  x = _matrix((2, 4, 3), np.float32)
  packed, taus = packed_qr(x * np.float32(size))
  want, want_taus = jnp.linalg.qr(x, mode="raw")
  upper = np.arange(4)[:, None] <= np.arange(3)
  np.testing.assert_allclose(packed / np.where(upper, size, 1), want.mT, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(taus, want_taus, rtol=1e-4, atol=1e-5)
  q, r, columns = pivoted_qr(x * np.float32(size), 4)
  want_q, want_r, want_columns = lax.linalg.qr(x, pivoting=True)
  np.testing.assert_allclose(q, want_q, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(r / size, want_r, rtol=1e-4, atol=1e-5)
  np.testing.assert_array_equal(columns, want_columns)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 3, 3)])
def test_empty_matrices(shape):
  x, size = np.zeros(shape, np.float32), min(shape[-2:])
  want, want_taus = jnp.linalg.qr(x, mode="raw")
  packed, taus = packed_qr(x)
  np.testing.assert_array_equal(packed, want.mT)
  np.testing.assert_array_equal(taus, want_taus)
  for full in (False, True):
    want = lax.linalg.qr(x, pivoting=True, full_matrices=full)
    for ours, theirs in zip(pivoted_qr(x, shape[-2] if full else size), want, strict=True):
      np.testing.assert_array_equal(ours, theirs)
  y = np.ones((*shape[:-1], 2), np.float32)
  np.testing.assert_array_equal(times_reflectors(x, taus, y), y)
