"""Matrix products against TensorFlow."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.linalg.matmul import batch_mat_mul, cross, mat_mul
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
_COMPLEX = [np.complex64, np.complex128]
_INTEGERS = [np.int32, np.int64]
_UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]


def _values(shape, dtype, seed=0):
  values = np.random.default_rng(seed).uniform(-4, 4, shape)
  if np.dtype(dtype).kind == "c":
    values = values + 1j * np.random.default_rng(seed + 1).uniform(-4, 4, shape)
  return values.astype(dtype) if np.dtype(dtype).kind != "u" else np.abs(values).astype(dtype)


@pytest.mark.parametrize("dtype", _FLOATS + _COMPLEX + _INTEGERS)
def test_mat_mul_has_every_dtype(dtype):
  check_raw_op("MatMul", [_values((3, 4), dtype), _values((4, 5), dtype, 2)])


@pytest.mark.parametrize("dtype", _UNSIGNED)
def test_unsigned_mat_mul_is_that_of_numpy(dtype):
  # TensorFlow declares these types but has no CPU kernel for them.
  a, b = _values((3, 4), dtype), _values((4, 5), dtype, 2)
  with jax.enable_x64(True):
    product = mat_mul(a, b)
  np.testing.assert_array_equal(product, a @ b, strict=True)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_mat_mul_transposes_without_conjugating(transpose_a, transpose_b, dtype):
  a = _values((4, 3) if transpose_a else (3, 4), dtype)
  b = _values((5, 4) if transpose_b else (4, 5), dtype, 2)
  check_raw_op("MatMul", [a, b], {"transpose_a": transpose_a, "transpose_b": transpose_b}, grad=True)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0))])
def test_mat_mul_of_nothing_is_zero(shapes):
  check_raw_op("MatMul", [_values(shapes[0], np.float32), _values(shapes[1], np.float32)])


def test_mat_mul_second_derivative():
  check_raw_op("MatMul", [_values((2, 3), np.float64), _values((3, 2), np.float64, 2)], grad=True, grad_order=2)


def test_integer_mat_mul_wraps():
  a = np.full((1, 2), 2**31 - 1, np.int32)
  check_raw_op("MatMul", [a, a.T])


def test_mat_mul_keeps_nan_and_inf():
  a = np.array([[np.nan, 1.0], [np.inf, 0.0]], np.float32)
  check_raw_op("MatMul", [a, np.ones((2, 2), np.float32)])


@pytest.mark.parametrize("shapes", [((3,), (3, 2)), ((2, 3), (2, 3)), ((1, 2, 2), (2, 2))])
def test_mat_mul_rejects_what_does_not_multiply(shapes):
  inputs = [np.ones(shapes[0], np.float32), np.ones(shapes[1], np.float32)]
  check_raw_op_rejects("MatMul", inputs, match=str(shapes[0]))


@pytest.mark.parametrize("dtype", [*_FLOATS, *_COMPLEX, np.int16, *_INTEGERS])
def test_batch_mat_mul_broadcasts_in_every_dtype(dtype):
  check_raw_op("BatchMatMulV2", [_values((2, 1, 3, 4), dtype), _values((5, 4, 2), dtype, 2)])


@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize("op", ["BatchMatMul", "BatchMatMulV2"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_batch_mat_mul_conjugates(op, adj_x, adj_y, dtype):
  x = _values((2, 4, 3) if adj_x else (2, 3, 4), dtype)
  y = _values((2, 5, 4) if adj_y else (2, 4, 5), dtype, 2)
  check_raw_op(op, [x, y], {"adj_x": adj_x, "adj_y": adj_y}, grad=True)


def test_broadcast_batch_mat_mul_sums_its_gradient():
  check_raw_op("BatchMatMulV2", [_values((2, 1, 3, 4), np.float64), _values((5, 4, 2), np.float64, 2)], grad=True)


@pytest.mark.parametrize("tout", [np.int32])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_batch_mat_mul_v3_sums_in_the_wider_type(dtype, tout):
  x = np.full((2, 3, 40), 120, dtype)
  check_raw_op("BatchMatMulV3", [x, np.swapaxes(x, 1, 2)], {"Tout": tout})


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
def test_batch_mat_mul_v3_of_one_type(dtype):
  check_raw_op("BatchMatMulV3", [_values((2, 3, 4), dtype), _values((4, 2), dtype, 2)], {"Tout": dtype})


def test_batch_mat_mul_rejects_vectors():
  with pytest.raises(InvalidInputError, match=r"\(3,\)"):
    batch_mat_mul(np.ones(3, np.float32), np.ones((3, 2), np.float32))
  with pytest.raises(InvalidInputError, match=r"\(2, 3\)"):
    batch_mat_mul(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
  "dtypes", [(np.float32, np.float32), (ml_dtypes.bfloat16, np.float32), (np.float32, ml_dtypes.bfloat16)]
)
def test_sparse_mat_mul_is_a_float32_product(transpose_a, transpose_b, dtypes):
  a = _values((4, 3) if transpose_a else (3, 4), dtypes[0])
  b = _values((5, 4) if transpose_b else (4, 5), dtypes[1], 2)
  attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b, "a_is_sparse": True}
  check_raw_op("SparseMatMul", [a, b], attrs, grad=dtypes == (np.float32, np.float32))


@pytest.mark.parametrize("dtype", [*_FLOATS, np.int8, np.int16, np.uint8, np.uint16, *_INTEGERS])
def test_cross_has_every_dtype(dtype):
  check_raw_op("Cross", [_values((2, 3), dtype), _values((2, 3), dtype, 2)], grad=dtype == np.float64)


def test_cross_rejects_other_lengths():
  check_raw_op_rejects("Cross", [np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)], match="(2, 2)")
  with pytest.raises(InvalidInputError, match=r"\(3,\)"):
    cross(np.ones(3, np.float32), np.ones((1, 3), np.float32))


def test_mat_mul_of_known_values_is_computed():
  np.testing.assert_array_equal(mat_mul(np.eye(2, dtype=np.float32), np.ones((2, 1), np.float32)), [[1], [1]])
