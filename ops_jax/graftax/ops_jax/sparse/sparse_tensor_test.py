"""Sparse tensors against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.testing.raw_ops import NodeContext, check_raw_op, check_raw_op_rejects, raw_op

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


def test_sparse_dense_product_rejects_other_sizes():
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


def test_reshape_to_another_size_raises():
  check_raw_op_rejects("SparseReshape", [_INDICES, _SHAPE, np.array([5, 2])], match="(5, 2)")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_softmax(dtype):
  inputs = [_INDICES, _VALUES.astype(dtype), _SHAPE]
  check_raw_op("SparseSoftmax", inputs, grad=["sp_values"] if dtype is np.float64 else False, vmap=["sp_values"])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis):
  inputs = [[_INDICES, _INDICES], [_VALUES, _VALUES * 2], [_SHAPE, _SHAPE]]
  check_raw_op("SparseConcat", inputs, {"concat_dim": axis}, vmap=["values"])


_BAD = np.array([[0, 1], [1, 9]]), np.array([[-1, 1], [0, 3]])


@pytest.mark.parametrize("bad", _BAD)
def test_coordinates_out_of_range_raise_where_known(bad):
  values, dense = np.ones(2, np.float32), np.ones((3, 4), np.float32)
  cases = {
    "SparseToDense": [bad, _SHAPE, values, np.float32(0)],
    "SparseTensorDenseMatMul": [bad, values, _SHAPE, dense.T],
    "SparseDenseCwiseAdd": [bad, values, _SHAPE, dense],
    "SparseDenseCwiseMul": [bad, values, _SHAPE, dense],
    "SparseTensorDenseAdd": [bad, values, _SHAPE, dense],
    "SparseReduceSum": [bad, values, _SHAPE, np.array([0 if bad.max() == 9 else 1], np.int32)],
    "SparseReduceMax": [bad, values, _SHAPE, np.array([0 if bad.max() == 9 else 1], np.int32)],
  }
  for op, inputs in cases.items():
    case = raw_op(op, inputs, infer_shapes=False)
    with pytest.raises(InvalidInputError, match=f"{op}: index (9|-1) is not in"):
      case.kernel.run(NodeContext(), inputs)
    if op != "SparseReduceMax":
      with pytest.raises(tf.errors.OpError):
        case.oracle(inputs)


def test_writes_at_traced_coordinates_out_of_range_are_left_out():
  bad, values, dense = np.array([[0, 1], [-1, 1], [3, 0]]), np.ones(3, np.float32), np.zeros((3, 4), np.float32)
  for op, inputs in {
    "SparseToDense": [bad, _SHAPE, values, np.float32(0)],
    "SparseTensorDenseAdd": [bad, values, _SHAPE, dense],
    "SparseReduceSum": [bad, values, _SHAPE, np.array([1], np.int32)],
    "SparseReduceMax": [bad, values, _SHAPE, np.array([1], np.int32)],
    "SparseTensorDenseMatMul": [bad, values, _SHAPE, np.ones((4, 1), np.float32)],
  }.items():
    case = raw_op(op, inputs, infer_shapes=False)
    (got,) = jax.jit(case.run)(*case.dynamic_inputs)
    assert got.sum() == 1 and got.reshape(3, -1)[0].sum() == 1, op


def test_reads_at_traced_coordinates_out_of_range_show():
  bad, values, dense = np.array([[0, 1], [0, -1], [0, 4]]), np.ones(3, np.float32), np.ones((3, 4), np.float32)
  case = raw_op("SparseDenseCwiseMul", [bad, values, _SHAPE, dense], infer_shapes=False)
  np.testing.assert_array_equal(jax.jit(case.run)(*case.dynamic_inputs)[0], [1, np.nan, np.nan])


def test_reshape_of_more_elements_than_32_bits_count():
  inputs = [np.array([[50000, 7]]), np.array([100000, 100000]), np.array([50000, 200000])]
  check_raw_op("SparseReshape", inputs, vmap=False, without_x64=False)
  with jax.enable_x64(False):
    case = raw_op("SparseReshape", inputs)
    np.testing.assert_array_equal(case.kernel.run(NodeContext(), inputs)[0], case.oracle(inputs)[0])
    with pytest.raises(StaticInputError, match="jax_enable_x64"):
      case.run(jnp.asarray(inputs[0]))


def test_softmax_of_more_rows_than_32_bits_count():
  indices = np.array([[0, 0, 1], [70000, 1, 0], [70000, 1, 5], [70000, 70000, 0], [70000, 70000, 4]])
  inputs = [indices, np.array([1, 2, 3, -1, 4], np.float32), np.array([10**5, 10**5, 10])]
  check_raw_op("SparseSoftmax", inputs, vmap=["sp_values"])
  with jax.enable_x64(False):
    case = raw_op("SparseSoftmax", inputs)
    (got,) = case.run(*map(jnp.asarray, case.dynamic_inputs))
    np.testing.assert_allclose(got, case.oracle(inputs)[0], rtol=1e-6)
