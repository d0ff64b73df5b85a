"""Counts of integers as sparse tensors, against TensorFlow."""

import numpy as np
import pytest

from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.sparse.counts import (
  dense_count_sparse_output,
  ragged_count_sparse_output,
  sparse_count_sparse_output,
)
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_NO_WEIGHTS = np.zeros(0, np.float32)
_VALUES = np.array([5, 1, 1, 0, 7, 1])
_WEIGHTS = np.array([0.5, 2, 3, -1, 4, 8], np.float32)
_ATTRS = [{}, {"minlength": 9}, {"maxlength": 3}, {"maxlength": 0}, {"minlength": 2, "maxlength": 3}]


@pytest.mark.parametrize("attrs", _ATTRS)
@pytest.mark.parametrize(("binary", "weights"), [(False, _NO_WEIGHTS), (True, _NO_WEIGHTS), (False, _WEIGHTS)])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (6, 1)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_dense_counts(attrs, binary, weights, shape, dtype):
  inputs = [_VALUES.reshape(shape).astype(dtype), weights.reshape(shape) if weights.size else weights]
  check_raw_op("DenseCountSparseOutput", inputs, {**attrs, "binary_output": binary}, static=["values", "weights"])


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_counts_of_nothing(shape):
  inputs = [np.zeros(shape, np.int64), _NO_WEIGHTS]
  check_raw_op("DenseCountSparseOutput", inputs, {"binary_output": False}, static=["values", "weights"])


@pytest.mark.parametrize("attrs", _ATTRS)
@pytest.mark.parametrize("weights", [_NO_WEIGHTS, _WEIGHTS])
@pytest.mark.parametrize("rank", [1, 2])
def test_sparse_counts(attrs, weights, rank):
  indices = np.array([[0, 0], [0, 1], [0, 3], [2, 4], [3, 5], [3, 6]])[:, 2 - rank :]
  inputs = [indices, _VALUES, np.array([5, 8])[2 - rank :], weights]
  static = ["indices", "values", "dense_shape", "weights"]
  check_raw_op("SparseCountSparseOutput", inputs, {**attrs, "binary_output": False}, static=static)


@pytest.mark.parametrize("attrs", _ATTRS)
@pytest.mark.parametrize("weights", [_NO_WEIGHTS, _WEIGHTS])
def test_ragged_counts(attrs, weights):
  inputs = [np.array([0, 0, 3, 6]), _VALUES, weights]
  static = ["splits", "values", "weights"]
  check_raw_op("RaggedCountSparseOutput", inputs, {**attrs, "binary_output": False}, static=static)


@pytest.mark.parametrize("minlength", [-1, 3])
def test_the_largest_integer_is_counted_only_with_a_maxlength(minlength):
  attrs = {"binary_output": False, "output_type": np.dtype(np.float32), "minlength": minlength}
  values = np.array([2**63 - 1, 5])
  with pytest.raises(InvalidInputError, match=r"DenseCountSparseOutput: .*9223372036854775807.*maxlength"):
    dense_count_sparse_output(values, _NO_WEIGHTS, **attrs)
  _, counts, _ = dense_count_sparse_output(values, _NO_WEIGHTS, **attrs, maxlength=9)
  np.testing.assert_array_equal(counts, [1])
  _, counts, shape = dense_count_sparse_output(values - 1, _NO_WEIGHTS, **attrs)
  np.testing.assert_array_equal(counts, [1, 1])
  np.testing.assert_array_equal(shape, [2**63 - 1])


def test_what_does_not_fit_raises():
  attrs = {"binary_output": False, "output_type": np.dtype(np.float32)}
  indices = np.array([[0, 0], [9, 0]])
  with pytest.raises(InvalidInputError, match="negative, such as -2"):
    dense_count_sparse_output(np.array([1, -2]), _NO_WEIGHTS, **attrs)
  with pytest.raises(InvalidInputError, match=r"weights of shape \(6,\)"):
    dense_count_sparse_output(np.array([1, 2]), _WEIGHTS, **attrs)
  with pytest.raises(InvalidInputError, match="outside"):
    sparse_count_sparse_output(indices, np.array([1, 2]), (3, 4), _NO_WEIGHTS, **attrs)
  with pytest.raises(InvalidInputError, match="one coordinate"):
    sparse_count_sparse_output(indices, np.array([1, 2]), (3,), _NO_WEIGHTS, **attrs)
  for splits in ([], [0, 1], [0, 2, 1, 2], [1, 2]):
    with pytest.raises(InvalidInputError, match="expected splits"):
      ragged_count_sparse_output(np.array(splits), np.array([1, 2]), _NO_WEIGHTS, **attrs)
