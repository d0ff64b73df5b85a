"""Ragged tensors against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import lowering
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_SPLITS = np.array([0, 2, 2, 5, 6])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("tsplits", [np.int32, np.int64])
def test_range(dtype, tsplits):
  inputs = [
    np.array([0, 5, 3, 7]).astype(dtype),
    np.array([4, 5, -4, 1]).astype(dtype),
    np.array([1, 1, -2, 3]).astype(dtype),
  ]
  check_raw_op("RaggedRange", inputs, {"Tsplits": tsplits}, jit=False, vmap=False)
  check_raw_op("RaggedRange", [dtype(1), inputs[1], dtype(2)], jit=False, vmap=False)


def test_range_adds_up_its_deltas():
  check_raw_op("RaggedRange", [np.float32(0), np.float32(2), np.float32(0.1)], jit=False, vmap=False, tolerance=(0, 0))
  check_raw_op_rejects("RaggedRange", [np.int32(0), np.int32(2), np.int32(0)], match="delta is 0")


@pytest.mark.parametrize("tsplits", [np.int32, np.int64])
@pytest.mark.parametrize("inner", [(), (2,), (2, 3)])
def test_to_sparse(tsplits, inner):
  values = np.arange(6 * int(np.prod(inner)), dtype=np.float32).reshape(6, *inner)
  check_raw_op("RaggedTensorToSparse", [[_SPLITS.astype(tsplits)], values], vmap=False)
  outer = np.array([0, 1, 1, 4], tsplits)
  check_raw_op("RaggedTensorToSparse", [[outer, _SPLITS.astype(tsplits)], values], vmap=False)


@pytest.mark.parametrize("shape", [[-1, -1], [4, 3], [-1, 2], [5, 6], [2, -1]])
@pytest.mark.parametrize("kind", ["splits", "rowids"])
def test_to_tensor(shape, kind):
  values = np.arange(1, 7, dtype=np.float64)
  if kind == "splits":
    partition, types = [_SPLITS], ["ROW_SPLITS"]
  else:
    partition, types = [np.array(4), np.array([0, 0, 2, 2, 2, 3])], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
  inputs = [np.array(shape), values, np.float64(-1), partition]
  static = ["row_partition_tensors"]
  attrs = {"row_partition_types": types}
  check_raw_op("RaggedTensorToTensor", inputs, attrs, static=static, vmap=["values"], grad=["values"])


def test_outside_of_jit_row_partitions_may_be_computed():
  to_tensor = lowering("RaggedTensorToTensor").function
  values, fill = np.arange(1.0, 7.0, dtype=np.float32), np.float32(0)
  expected = [[1, 2, 0], [0, 0, 0], [3, 4, 5], [6, 0, 0]]
  dense = to_tensor(np.array(-1), values, fill, [jnp.asarray(_SPLITS)], row_partition_types=("ROW_SPLITS",))
  np.testing.assert_array_equal(dense, expected)
  row_ids = [jnp.asarray(4), jnp.asarray([0, 0, 2, 2, 2, 3])]
  dense = to_tensor(np.array(-1), values, fill, row_ids, row_partition_types=("FIRST_DIM_SIZE", "VALUE_ROWIDS"))
  np.testing.assert_array_equal(dense, expected)


def test_a_scalar_shape_stands_for_any():
  to_tensor = lowering("RaggedTensorToTensor").function
  values = np.arange(1.0, 7.0, dtype=np.float32)
  dense = to_tensor(np.array(-1), values, np.float32(0), [_SPLITS], row_partition_types=("ROW_SPLITS",))
  np.testing.assert_array_equal(dense, [[1, 2, 0], [0, 0, 0], [3, 4, 5], [6, 0, 0]])


def test_to_tensor_of_deeper_rows():
  outer = np.array([0, 1, 1, 4])
  values = np.arange(12, dtype=np.float32).reshape(6, 2)
  inputs = [np.array([-1, -1, -1, 2]), values, np.float32(9), [outer, _SPLITS]]
  static = ["row_partition_tensors"]
  check_raw_op(
    "RaggedTensorToTensor", inputs, {"row_partition_types": ["ROW_SPLITS"] * 2}, static=static, vmap=["values"]
  )


def test_a_bounded_shape_lets_splits_be_traced():
  inputs = [np.array([-1, 3]), np.arange(6.0), np.float64(0), [_SPLITS]]
  check_raw_op("RaggedTensorToTensor", inputs, {"row_partition_types": ["ROW_SPLITS"]}, vmap=["values"])
  _, values, default, splits = inputs
  inputs = [np.array([-1, -1, -1]), values, default, [np.array([0, 1, 4]), *splits]]
  unbounded = raw_op("RaggedTensorToTensor", inputs, {"row_partition_types": ["ROW_SPLITS"] * 2})
  with pytest.raises(StaticInputError, match="a shape that bounds the rows"):
    jax.jit(unbounded.run)(*unbounded.dynamic_inputs)


@pytest.mark.parametrize("indices", [np.array([2, 0, 2]), np.array([[3, 1], [0, 2]], np.int32)])
def test_gather(indices):
  values = np.arange(12, dtype=np.float32).reshape(6, 2)
  attrs = {"OUTPUT_RAGGED_RANK": indices.ndim}
  static = ["params_nested_splits"]
  check_raw_op("RaggedGather", [[_SPLITS], values, indices], attrs, static=static, vmap=["params_dense_values"])
  with pytest.raises(InvalidInputError, match="out of range"):
    lowering("RaggedGather").function([_SPLITS], values, indices + 9)
  gather = lowering("RaggedGather").function
  computed = gather([jnp.asarray(_SPLITS)], values, indices)
  for got, known in zip(computed, gather([_SPLITS], values, indices), strict=True):
    np.testing.assert_array_equal(got, known)
  with pytest.raises(StaticInputError, match="row splits depend"):
    jax.jit(lambda splits: gather([splits], values, indices))(_SPLITS)


@pytest.mark.parametrize("nested", [[[0, 7]], [[-1, 3]], [[0, 3, 2]], [[0, 4], [0, 1, 2]], [[]], []])
@pytest.mark.parametrize("given", [np.array, jnp.asarray])
def test_gather_of_row_splits_that_are_not_those_of_the_values(nested, given):
  splits = [given(np.array(split, np.int32)) for split in nested]
  with pytest.raises(InvalidInputError, match="row splits"):
    lowering("RaggedGather").function(splits, given(np.arange(3.0)), np.array([0]))
