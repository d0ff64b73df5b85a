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
  q, r, columns = pivoted_qr(x, size, size)
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
