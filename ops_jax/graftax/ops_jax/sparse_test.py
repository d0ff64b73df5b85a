"""Sparse tensors against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_INDICES = np.array([[0, 1], [0, 3], [2, 0], [2, 2]])
_VALUES = np.array([1.5, -2.0, 3.0, 0.25])
_SHAPE = np.array([3, 4])
_DTYPES = [np.float32, np.float64, np.int32, np.int64, np.complex64]


@pytest.mark.parametrize("dtype", [*_DTYPES, np.bool_])
@pytest.mark.parametrize("tindices", [np.int32, np.int64])
def test_to_dense(dtype, tindices):
  inputs = [_INDICES.astype(tindices), _SHAPE.astype(tindices), _VALUES.astype(dtype), np.array(1, dtype)]
  grad = ["sparse_values", "default_value"] if dtype is np.float64 else False
  check_raw_op("SparseToDense", inputs, grad=grad, vmap=["sparse_values", "default_value"])


def test_to_dense_of_a_vector_and_of_scalars():
  check_raw_op(
    "SparseToDense", [np.array([1, 3]), np.array([5]), np.array([7, 8]), np.array(0)], vmap=["sparse_values"]
  )
  check_raw_op("SparseToDense", [np.array(2), np.array([5]), np.array(7), np.array(0)], vmap=["sparse_values"])
  check_raw_op("SparseToDense", [_INDICES, _SHAPE, np.array(7), np.array(0)], vmap=["sparse_values"])


@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.complex128])
def test_sparse_dense_product(adjoint_a, adjoint_b, dtype):
  b = np.random.default_rng(0).uniform(-3, 3, (3 if adjoint_a else 4, 2))
  b = (b * (1 + 1j) if np.dtype(dtype).kind == "c" else b).astype(dtype)
  values = (_VALUES * (2 - 1j) if np.dtype(dtype).kind == "c" else _VALUES).astype(dtype)
  inputs = [_INDICES, values, _SHAPE, np.conj(b.T) if adjoint_b else b]
  attrs = {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b}
  grad = ["a_values", "b"] if dtype in (np.float64, np.complex128) else False
  check_raw_op("SparseTensorDenseMatMul", inputs, attrs, grad=grad, vmap=["a_values", "b"])


def test_sparse_dense_product_refuses_other_sizes():
  check_raw_op_rejects("SparseTensorDenseMatMul", [_INDICES, _VALUES, _SHAPE, np.ones((3, 2))], match="4 and 3")


@pytest.mark.parametrize("op", ["SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"])
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (4,), (3, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_elementwise_with_a_dense_tensor(op, shape, dtype):
  dense = np.random.default_rng(0).uniform(1, 9, shape).astype(dtype)
  inputs = [_INDICES, (_VALUES * 10).astype(dtype), _SHAPE, dense]
  # TensorFlow has gradients of the product and the quotient with respect to the values alone.
  grad = ["sp_values"] if dtype is np.float64 and op != "SparseDenseCwiseAdd" else False
  check_raw_op(op, inputs, grad=grad, vmap=["sp_values", "dense"])


def test_adding_to_a_dense_tensor():
  inputs = [_INDICES, _VALUES, _SHAPE, np.ones((3, 4))]
  check_raw_op("SparseTensorDenseAdd", inputs, grad=["a_values", "b"], vmap=["a_values", "b"])


@pytest.mark.parametrize("op", ["SparseReduceSum", "SparseReduceMax"])
@pytest.mark.parametrize("axes", [[0], [1], [-1], [0, 1], []])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_reductions(op, axes, keep_dims, dtype):
  inputs = [_INDICES, (_VALUES * 8).astype(dtype), _SHAPE, np.array(axes, np.int32)]
  grad = ["input_values"] if op == "SparseReduceSum" and dtype is np.float64 else False
  check_raw_op(op, inputs, {"keep_dims": keep_dims}, grad=grad, vmap=["input_values"])


def test_reorder():
  order = np.array([2, 0, 3, 1])
  inputs = [_INDICES[order], _VALUES[order], _SHAPE]
  check_raw_op("SparseReorder", inputs, vmap=["input_values"], grad=["input_values"])


@pytest.mark.parametrize("shape", [[4, 3], [12], [-1], [2, -1, 3], [3, 4]])
def test_reshape(shape):
  check_raw_op("SparseReshape", [_INDICES, _SHAPE, np.array(shape)], vmap=False)


def test_reshape_to_another_size_is_refused():
  check_raw_op_rejects("SparseReshape", [_INDICES, _SHAPE, np.array([5, 2])], match="(5, 2)")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_softmax(dtype):
  inputs = [_INDICES, _VALUES.astype(dtype), _SHAPE]
  check_raw_op("SparseSoftmax", inputs, grad=["sp_values"] if dtype is np.float64 else False, vmap=["sp_values"])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis):
  inputs = [[_INDICES, _INDICES], [_VALUES, _VALUES * 2], [_SHAPE, _SHAPE]]
  check_raw_op("SparseConcat", inputs, {"concat_dim": axis}, vmap=["values"])
