"""Complex numbers against TensorFlow, whose gradients are the conjugates of JAX's."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op

_Z = [1 + 2j, -3 + 0.5j, -1 - 1j, 2 - 0.25j]


@pytest.mark.parametrize(("complex_dtype", "real_dtype"), [(np.complex64, np.float32), (np.complex128, np.float64)])
def test_parts_match_tensorflow(complex_dtype, real_dtype):
  z = np.array(_Z, complex_dtype)
  for op in ("Real", "Imag", "Angle", "ComplexAbs"):
    check_raw_op(op, [z], {"Tout": real_dtype}, grad=True)
    check_raw_op(op, [np.array(1j, complex_dtype)], {"Tout": real_dtype}, vmap=False)
    check_raw_op(op, [np.zeros((2, 0), complex_dtype)], {"Tout": real_dtype}, vmap=False)
  check_raw_op("Conj", [z], grad=True)


@pytest.mark.parametrize(("complex_dtype", "real_dtype"), [(np.complex64, np.float32), (np.complex128, np.float64)])
def test_complex_from_parts_broadcasts(complex_dtype, real_dtype):
  x, y = np.array([[1.0, 2.0]], real_dtype), np.array([[3.0], [4.0]], real_dtype)
  check_raw_op("Complex", [x, y], {"Tout": complex_dtype}, grad=True)
  check_raw_op("Complex", [x[0, 0], y[0, 0]], {"Tout": complex_dtype}, grad=True, vmap=False)


def test_absolute_value_has_derivative_zero_at_zero():
  check_raw_op("ComplexAbs", [np.array([0j, 3 + 4j], np.complex64)], grad=True)
