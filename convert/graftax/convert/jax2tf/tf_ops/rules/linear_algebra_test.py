"""Decompositions and solvers as plain TensorFlow ops."""

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
