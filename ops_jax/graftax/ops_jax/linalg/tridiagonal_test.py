"""Tridiagonal matrices against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.linalg.tridiagonal import tridiagonal_solve
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
_LOOSE = {np.float32: (1e-4, 1e-4), np.complex64: (1e-3, 1e-3)}


def _values(shape, dtype, seed=0):
  rng = np.random.default_rng(seed)
  values = rng.normal(size=shape)
  return (values + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_tridiagonal_solve(dtype, batch, size):
  diagonals = _values((*batch, 3, size), dtype)
  diagonals[..., 1, :] += 4
  inputs = [diagonals, _values((*batch, size, 2), dtype, 1)]
  real = np.dtype(dtype).kind == "f"  # TensorFlow's gradient lacks the complex conjugates; see the next test.
  check_raw_op("TridiagonalSolve", inputs, grad=real, vmap=["rhs"], tolerance=_LOOSE.get(dtype, (1e-9, 1e-9)))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_complex_gradient_is_that_of_the_dense_system(size):
  diagonals = _values((3, size), np.complex128)
  diagonals[1] += 4
  rhs = _values((size, 2), np.complex128, 1)

  def dense_solve(diagonals, rhs):
    above, below = jnp.diag(diagonals[0, :-1], 1), jnp.diag(diagonals[2, 1:], -1)
    return jnp.linalg.solve(jnp.diag(diagonals[1]) + above + below, rhs)

  with jax.enable_x64(True):
    _, pull = jax.vjp(tridiagonal_solve, diagonals, rhs)
    _, pull_dense = jax.vjp(dense_solve, diagonals, rhs)
    cotangent = _values((size, 2), np.complex128, 2)
    for got, want in zip(pull(cotangent), pull_dense(cotangent), strict=True):
      np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_tridiagonal_solve_pivots():
  diagonals = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [0.0, 1.0, 2.0]])
  check_raw_op("TridiagonalSolve", [diagonals, np.ones((3, 1))], vmap=["rhs"])
  check_raw_op_rejects("TridiagonalSolve", [np.ones((2, 3)), np.ones((3, 1))], match="(2, 3)")


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_tridiagonal_product(dtype, batch):
  inputs = [_values((*batch, 1, 5), dtype, seed) for seed in range(3)] + [_values((*batch, 5, 2), dtype, 3)]
  check_raw_op("TridiagonalMatMul", inputs, grad=True, tolerance=_LOOSE.get(dtype))
