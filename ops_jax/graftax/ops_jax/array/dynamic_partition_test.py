"""Partition and stitch against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import StaticInputError
from graftax.ops_jax.array import dynamic_partition
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_partition_matches_tensorflow():
  for partitions in ([1, 0, 1, 3], [0, 0, 0, 0], np.arange(12).reshape(4, 3) % 4):
    check_raw_op("DynamicPartition", [_X, np.array(partitions, np.int32)], {"num_partitions": 4}, grad=True)
  check_raw_op("DynamicPartition", [_X[:0], np.zeros(0, np.int32)], {"num_partitions": 2}, vmap=False)
  check_raw_op_rejects(
    "DynamicPartition", [_X, np.array([0, 1, 2, 5], np.int32)], {"num_partitions": 3}, match="must be in"
  )
  check_raw_op_rejects(
    "DynamicPartition", [_X, np.array([0, 1], np.int32)], {"num_partitions": 3}, match="does not start"
  )


@pytest.mark.parametrize("op", ["DynamicStitch", "ParallelDynamicStitch"])
def test_stitch_matches_tensorflow(op):
  indices = [np.array([0, 3], np.int32), np.array(1, np.int32), np.array([[2, 4]], np.int32)]
  data = [_X[:2], _X[2], _X[None, 2:] * 2]
  check_raw_op(op, [indices, data], static=("indices",), grad=True)
  check_raw_op(op, [indices[::-1], [d.astype(np.int32) for d in data[::-1]]], static=("indices",))
  check_raw_op(op, [[np.zeros(0, np.int32)], [_X[:0]]], static=("indices",), vmap=False)


def test_the_last_of_several_rows_stays():
  indices = [np.array([0, 1, 0], np.int32), np.array([1], np.int32)]
  check_raw_op("DynamicStitch", [indices, [_X[:3], _X[3:]]], static=("indices",))


def test_places_without_a_row_are_zero():
  case = raw_op("DynamicStitch", [[np.array([0, 3], np.int32)], [_X[:2] + 1]], static=("indices",))
  np.testing.assert_array_equal(case.run(jnp.asarray(_X[:2] + 1))[0], [[1, 2, 3], [0] * 3, [0] * 3, [4, 5, 6]])


def test_traced_labels_raise_with_advice():
  with pytest.raises(StaticInputError, match="scatter_nd"):
    jax.jit(lambda i: dynamic_partition.dynamic_stitch([i], [_X]))(jnp.arange(4))


def test_symbolic_dimensions_are_stitched():
  (n,) = jax.export.symbolic_shape("n")
  result = dynamic_partition.dynamic_stitch([np.array([1]), np.array([0])], [np.array([n], object), np.array([3])])
  assert list(result) == [3, n]
