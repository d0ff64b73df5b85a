"""Shape queries and changes against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax.array import shape_ops
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("x", [_X, np.float32(1), np.zeros((0, 3), np.int8), np.array([b"a", b"b"], object)])
@pytest.mark.parametrize("out_type", [np.int32, np.int64])
def test_queries_match_tensorflow(x, out_type):
  check_raw_op("Shape", [x], {"out_type": out_type})
  check_raw_op("Size", [x], {"out_type": out_type})
  check_raw_op("Rank", [x])
  check_raw_op("ShapeN", [[x, x]], {"out_type": out_type})


@pytest.mark.parametrize("shape", [[24], [-1], [4, -1, 2], [2, 3, 4], [1, 24, 1]])
def test_reshape_matches_tensorflow(shape):
  check_raw_op("Reshape", [_X, np.array(shape, np.int32)], grad=True)
  check_raw_op("Reshape", [_X.astype(np.int64), np.array(shape, np.int64)], vmap=False)


def test_reshape_of_edges_matches_tensorflow():
  check_raw_op("Reshape", [np.float32(3), np.zeros(0, np.int32)], vmap=False)
  check_raw_op("Reshape", [np.zeros((0, 3), np.float32), np.array([3, -1], np.int32)])
  check_raw_op("Reshape", [np.array([b"a", b"b"], object), np.array([2, 1], np.int32)])
  check_raw_op_rejects("Reshape", [_X, np.array([5, -1], np.int32)], match="does not allow")
  check_raw_op_rejects("Reshape", [_X, np.array([-1, -1], np.int32)], match="does not allow")
  check_raw_op("Reshape", [np.zeros((0, 3), np.float32), np.array([0, -1], np.int32)])
  check_raw_op("Reshape", [np.zeros((2, 0, 6), np.float32), np.array([-1, 0, 4], np.int32)])


@pytest.mark.parametrize("dim", [0, 1, 3, -1, -4])
def test_expand_dims_matches_tensorflow(dim):
  check_raw_op("ExpandDims", [_X, np.int32(dim)], grad=True)
  check_raw_op_rejects("ExpandDims", [_X, np.int32(4)], match="out of range")


@pytest.mark.parametrize("dims", [[], [0], [-1], [0, 3]])
def test_squeeze_matches_tensorflow(dims):
  x = _X.reshape(1, 2, 12, 1)
  check_raw_op("Squeeze", [x], {"axis": dims}, grad=True)
  check_raw_op_rejects("Squeeze", [x], {"axis": [1]}, match="does not allow")


@pytest.mark.parametrize("perm", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_transpose_matches_tensorflow(perm):
  check_raw_op("Transpose", [_X, np.array(perm, np.int32)], grad=True)
  check_raw_op("ConjugateTranspose", [_X + 1j * _X, np.array(perm, np.int32)], grad=True)
  check_raw_op("ConjugateTranspose", [_X, np.array(perm, np.int32)])
  check_raw_op_rejects("Transpose", [_X, np.array([0, 1], np.int32)], match="does not name each")


def test_transpose_of_edges_matches_tensorflow():
  check_raw_op("Transpose", [np.float32(1), np.zeros(0, np.int32)], vmap=False)
  check_raw_op("Transpose", [np.zeros((0, 2), np.float32), np.array([1, 0], np.int32)])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_inverse_permutations_match_tensorflow(dtype):
  check_raw_op("InvertPermutation", [np.array([3, 0, 2, 1], dtype)])
  check_raw_op("InvertPermutation", [np.zeros(0, dtype)], vmap=False)


def test_known_arrays_stay_known():
  x = np.arange(6, dtype=np.int32)
  for result in (shape_ops.reshape(x, (2, 3)), shape_ops.expand_dims(x, 0), shape_ops.transpose(x[None], (1, 0))):
    assert isinstance(result, np.ndarray)


def test_symbolic_shapes_are_queried_and_changed():
  (n,) = jax.export.symbolic_shape("n")
  seen = []

  def halves(x):
    seen.append((shape_ops.shape(x), shape_ops.size(x)))
    return shape_ops.reshape(x, (-1, x.shape[0], 2))

  exported = jax.export.export(jax.jit(halves))(jax.ShapeDtypeStruct((n, 4), np.float32))
  assert exported.out_avals[0].shape[0] == 2
  shape, size = seen[0]
  assert shape[1] == 4
  assert shape.dtype == object
  assert isinstance(size, np.ndarray)
