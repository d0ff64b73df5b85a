"""Factors of matrices against TensorFlow."""

import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.linalg.decompositions import lu
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
_LOOSE = {np.float16: (2e-2, 2e-2), np.float32: (2e-4, 2e-4), np.complex64: (2e-4, 2e-4)}


def _tolerance(dtype):
  return _LOOSE.get(dtype, (1e-9, 1e-9))


def _values(shape, dtype, seed=0):
  rng = np.random.default_rng(seed)
  values = rng.normal(size=shape)
  return (values + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def _positive(shape, dtype):
  x = _values(shape, dtype)
  return (x @ np.conj(np.swapaxes(x, -1, -2)) + 3 * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_cholesky_and_its_symmetric_gradient(shape, dtype):
  check_raw_op("Cholesky", [_positive(shape, dtype)], grad=True, forward=False, vmap=False, tolerance=_tolerance(dtype))


def test_cholesky_reads_the_lower_triangle_alone():
  x = _positive((3, 3), np.float64) + np.triu(np.full((3, 3), 5.0), 1)
  check_raw_op("Cholesky", [x], vmap=False)


def test_cholesky_of_nothing():
  check_raw_op("Cholesky", [np.zeros((2, 0, 0), np.float32)])


def test_cholesky_of_what_is_not_square_raises():
  check_raw_op_rejects("Cholesky", [np.ones((2, 3), np.float32)], match="(2, 3)")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky_grad(dtype):
  factor = np.linalg.cholesky(_positive((2, 3, 3), dtype))
  check_raw_op("CholeskyGrad", [factor, _values((2, 3, 3), dtype)], vmap=False, tolerance=_tolerance(dtype))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_qr_has_the_signs_and_the_gradient_of_tensorflow(shape, dtype):
  # TensorFlow's gradient of wide complex matrices leaves out a conjugate; the derivative here is checked by jvp.
  grad = not (np.dtype(dtype).kind == "c" and shape[-2] < shape[-1])
  check_raw_op("Qr", [_values(shape, dtype)], grad=grad, vmap=False, tolerance=_tolerance(dtype))


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_full_qr(shape):
  check_raw_op("Qr", [_values(shape, np.float64)], {"full_matrices": True}, grad=shape[0] <= shape[1], vmap=False)


def test_qr_of_a_triangular_matrix_keeps_signs():
  check_raw_op("Qr", [np.array([[-1.0, 2.0], [0.0, 3.0]])])


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("output_idx_type", [np.int32, np.int64])
def test_lu(dtype, output_idx_type):
  check_raw_op("Lu", [_values((2, 4, 4), dtype)], {"output_idx_type": output_idx_type}, tolerance=_tolerance(dtype))


def test_lu_orders_the_rows_of_its_product():
  x = _values((4, 4), np.float32)
  factors, order = lu(x)
  product = (jnp.tril(factors, -1) + jnp.eye(4)) @ jnp.triu(factors)
  np.testing.assert_allclose(product, x[np.asarray(order)], atol=1e-5)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_lu_pivots_by_modulus(dtype):
  # 3 has the larger modulus beside 2 + 2j, though not the larger sum of the parts.
  x = np.array([[2 + 2j, 4, 1], [3, 1, 2j], [1j, 0, 1]], dtype)
  check_raw_op("Lu", [x], tolerance=_tolerance(dtype))
  check_raw_op("Lu", [np.stack([x, x[::-1]])], tolerance=_tolerance(dtype))
