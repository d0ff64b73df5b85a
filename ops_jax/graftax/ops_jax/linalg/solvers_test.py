"""Linear systems, inverses and determinants against TensorFlow."""

import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.linalg.solvers import matrix_triangular_solve
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
_LOOSE = {np.float32: (5e-4, 5e-4), np.complex64: (5e-4, 5e-4)}


def _tolerance(dtype):
  return _LOOSE.get(dtype, (1e-9, 1e-9))


def _values(shape, dtype, seed=0, shift=0.0):
  rng = np.random.default_rng(seed)
  values = rng.normal(size=shape)
  if shift:
    values = values + shift * np.eye(*shape[-2:])
  return (values + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_inverse(adjoint, dtype):
  x = _values((2, 3, 3), dtype, shift=3)
  check_raw_op("MatrixInverse", [x], {"adjoint": adjoint}, grad=True, vmap=False, tolerance=_tolerance(dtype))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 3), (2, 4, 4)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_determinants(shape, dtype):
  x = _values(shape, dtype)
  # TensorFlow's gradient of a complex determinant lacks a conjugate.
  grad = shape[-1] > 0 and np.dtype(dtype).kind == "f"
  check_raw_op("MatrixDeterminant", [x], grad=grad, vmap=shape[-1] > 0, tolerance=_tolerance(dtype))
  check_raw_op("LogMatrixDeterminant", [x], grad=grad, vmap=shape[-1] > 0, tolerance=_tolerance(dtype))


def test_determinant_of_a_singular_matrix_is_zero():
  check_raw_op("MatrixDeterminant", [np.ones((2, 2))])
  check_raw_op_rejects("MatrixDeterminant", [np.ones((2, 3))], match="(2, 3)")


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_solve(adjoint, dtype):
  inputs = [_values((2, 3, 3), dtype, shift=3), _values((2, 3, 2), dtype, 1)]
  check_raw_op("MatrixSolve", inputs, {"adjoint": adjoint}, grad=True, vmap=["rhs"], tolerance=_tolerance(dtype))


def test_solve_for_nothing():
  check_raw_op("MatrixSolve", [np.ones((3, 3)), np.ones((3, 0))], jit=False, vmap=False)
  check_raw_op_rejects("MatrixSolve", [np.ones((3, 3)), np.ones((2, 1))], match="(2, 1)")


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3), (2, 4, 3)])
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("l2", [0.0, 0.7])
def test_least_squares(shape, dtype, l2):
  inputs = [_values(shape, dtype), _values((*shape[:-1], 2), dtype, 1), np.float64(l2)]
  grad = ["matrix", "rhs"] if np.dtype(dtype).kind == "f" else False
  loose = (2e-2, 2e-2) if dtype in _LOOSE else (1e-8, 1e-8)
  check_raw_op("MatrixSolveLs", inputs, grad=grad, vmap=["rhs"], tolerance=loose, forward=False)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
def test_slow_least_squares(shape):
  inputs = [_values(shape, np.float64), _values((shape[0], 2), np.float64, 1), np.float64(0)]
  check_raw_op("MatrixSolveLs", inputs, {"fast": False}, vmap=["rhs"])


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_triangular_solve_broadcasts(lower, adjoint, dtype):
  inputs = [_values((2, 1, 3, 3), dtype, shift=3), _values((4, 3, 2), dtype, 1)]
  attrs = {"lower": lower, "adjoint": adjoint}
  check_raw_op("MatrixTriangularSolve", inputs, attrs, grad=True, vmap=["rhs"], tolerance=_tolerance(dtype))


def test_bfloat16_triangular_solve_is_rounded_float32():
  # TensorFlow has this type under XLA alone.
  matrix, rhs = _values((3, 3), ml_dtypes.bfloat16, shift=3), _values((3, 2), ml_dtypes.bfloat16, 1)
  solution = matrix_triangular_solve(matrix, rhs)
  expected = np.linalg.solve(np.tril(matrix.astype(np.float32)), rhs.astype(np.float32))
  np.testing.assert_allclose(solution.astype(np.float32), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("bands", [1, 2, 4])
def test_banded_triangular_solve(lower, adjoint, bands):
  matrix = _values((bands, 4), np.float64)
  matrix[0 if lower else -1] += 4
  attrs = {"lower": lower, "adjoint": adjoint}
  # TensorFlow's gradient of a single diagonal has the wrong rank.
  inputs = [matrix, _values((4, 2), np.float64, 1)]
  check_raw_op("BandedTriangularSolve", inputs, attrs, grad=bands > 1, vmap=["rhs"])
