"""Functions of matrices against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax.linalg.matrix_functions import matrix_exponential
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_TOLERANCE = {
  np.float32: (1e-3, 1e-3),
  np.complex64: (1e-3, 1e-3),
  np.float64: (1e-9, 1e-9),
  np.complex128: (1e-9, 1e-9),
}


def _values(shape, dtype, seed=0):
  rng = np.random.default_rng(seed)
  values = rng.normal(size=shape)
  return (values + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def _positive(shape, dtype):
  x = _values(shape, dtype)
  return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)])
def test_exponential(dtype, shape):
  linalg = pytest.importorskip("scipy.linalg")
  x = _values(shape, dtype)
  with jax.enable_x64(True):
    got = matrix_exponential(x)
  assert got.dtype == dtype
  np.testing.assert_allclose(got, linalg.expm(x), rtol=_TOLERANCE[dtype][0], atol=_TOLERANCE[dtype][1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)])
def test_square_root(dtype, shape):
  grad = dtype is np.float64
  x = _positive(shape, dtype)
  check_raw_op("MatrixSquareRoot", [x], grad=grad, vmap=False, tolerance=_TOLERANCE[dtype], grad_tolerance=(1e-7, 1e-7))


def test_square_root_of_a_triangular_matrix():
  check_raw_op("MatrixSquareRoot", [np.array([[4.0, 1.0], [0.0, 4.0]])])
  check_raw_op_rejects("MatrixSquareRoot", [np.ones((2, 3))], match="(2, 3)")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)])
def test_logarithm(dtype, shape):
  check_raw_op("MatrixLogarithm", [_values(shape, dtype)], vmap=False, tolerance=_TOLERANCE[dtype])
  check_raw_op("MatrixLogarithm", [_positive(shape, dtype)], vmap=False, tolerance=_TOLERANCE[dtype])


def test_logarithm_of_matrices_without_enough_eigenvectors():
  check_raw_op("MatrixLogarithm", [np.array([[1, 1], [0, 1]], np.complex128)], tolerance=(1e-9, 1e-9))
  check_raw_op(
    "MatrixLogarithm", [np.array([[-2, 1, 0], [0, -2, 1], [0, 0, 5]], np.complex128)], tolerance=(1e-9, 1e-9)
  )
