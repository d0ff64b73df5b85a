"""Set operations against TensorFlow."""

import numpy as np
import pytest

from graftax.graphdef_ir import Budget, LimitExceededError, Limits
from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.sparse.sets import dense_to_dense_set_operation, set_size, sparse_to_sparse_set_operation
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_A = np.array([[[1, 2, 3, 3], [4, 5, 6, 6]], [[0, 0, 0, 0], [9, -2, 9, 1]]])
_B = np.array([[[2, 3, 9], [7, 7, 4]], [[1, 0, 2], [5, 6, 7]]])
_OPERATIONS = ("a-b", "b-a", "intersection", "union")


def _sparse(dense):
  indices = np.argwhere(dense)
  return indices, dense[tuple(indices.T)], np.array(dense.shape)


@pytest.mark.parametrize("operation", _OPERATIONS)
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16])
def test_set_operations(operation, dtype):
  a, b = _A.astype(dtype), _B.astype(dtype)
  attrs = {"set_operation": operation}
  parts = ["indices", "values", "shape"]
  sparse_a, sparse_b = ([f"set{n}_{part}" for part in parts] for n in (1, 2))
  check_raw_op("DenseToDenseSetOperation", [a, b], attrs, static=["set1", "set2"])
  check_raw_op("DenseToSparseSetOperation", [a, *_sparse(b)], attrs, static=["set1", *sparse_b])
  check_raw_op("SparseToSparseSetOperation", [*_sparse(a), *_sparse(b)], attrs, static=[*sparse_a, *sparse_b])


def test_sets_without_elements():
  empty = np.zeros((2, 0), np.int64)
  check_raw_op("DenseToDenseSetOperation", [empty, empty], {"set_operation": "union"}, static=["set1", "set2"])
  check_raw_op("DenseToDenseSetOperation", [_A[0], empty], {"set_operation": "a-b"}, static=["set1", "set2"])


def test_very_many_sets_without_elements_take_no_memory():
  empty = np.zeros((10**12, 0), np.int64)
  indices, values, shape = dense_to_dense_set_operation(empty, empty, set_operation="union")
  assert indices.shape == (0, 2) and values.shape == (0,) and shape.tolist() == [10**12, 0]


def test_sizes_of_sets():
  static = ["set_indices", "set_values", "set_shape"]
  check_raw_op("SetSize", [*_sparse(_A)], static=static)
  check_raw_op("SetSize", [np.zeros((0, 2), np.int64), np.zeros(0, np.int32), np.array([3, 2])], static=static)


def test_what_are_no_sets_raises():
  indices, values, shape = _sparse(_A[0])
  size = tuple(shape.tolist())
  with pytest.raises(InvalidInputError, match=r"\[2, 4\] and \[1, 3\]"):
    dense_to_dense_set_operation(_A[0], _B[0, :1], set_operation="union")
  with pytest.raises(InvalidInputError, match="'xor'; expected one of"):
    dense_to_dense_set_operation(_A[0], _B[0], set_operation="xor")
  with pytest.raises(InvalidInputError, match="rank of at least 2"):
    dense_to_dense_set_operation(_A[0, 0], _B[0, 0], set_operation="union")
  with pytest.raises(InvalidInputError, match="do not increase"):
    sparse_to_sparse_set_operation(indices[::-1], values, size, indices, values, size, set_operation="union")
  with pytest.raises(InvalidInputError, match="outside of shape"):
    set_size(indices, values, (2, 3))
  with pytest.raises(InvalidInputError, match="coordinates of shape"):
    set_size(indices, values[:1], size)
  with pytest.raises(InvalidInputError, match=r"values of shape \(\); expected a vector"):
    set_size(indices[:0], np.int32(1), size)
  with pytest.raises(LimitExceededError, match="SetSize"):
    set_size(indices, values, (10**9, 10**9, 4)[1:], budget=Budget(Limits(array_bytes=1000)))
