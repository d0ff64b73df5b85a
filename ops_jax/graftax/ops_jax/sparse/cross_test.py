"""Crossed features against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax.sparse.cross import sparse_cross
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_BIG = (1 << 40) + 12345
_SPARSE = [
  (np.array([[0, 0], [0, 1], [2, 0]]), np.array([5, -7, _BIG]), np.array([3, 2])),
  (np.array([[0, 0], [1, 0], [2, 0], [2, 2]]), np.array([1, 2, 3, -(1 << 62)]), np.array([3, 3])),
]
_DENSE = [np.array([[1, 2], [3, 4], [5, 6]])]
_INDICES, _VALUES, _SHAPES = (list(parts) for parts in zip(*_SPARSE, strict=True))


@pytest.mark.parametrize("num_buckets", [0, 10, 1000])
@pytest.mark.parametrize("hash_key", [0xDECAFCAFFE, 1])
def test_hashed_crosses(num_buckets, hash_key):
  attrs = {"hashed_output": True, "num_buckets": num_buckets, "hash_key": hash_key}
  inputs = [_INDICES, _VALUES, _SHAPES, _DENSE]
  static = ["indices", "values", "shapes", "dense_inputs"]
  check_raw_op("SparseCross", inputs, {**attrs, "out_type": np.int64, "internal_type": np.int64}, static=static)


@pytest.mark.parametrize("order", ["RSD", "DRS"])
def test_ragged_crosses(order):
  attrs = {"input_order": order, "hashed_output": True, "num_buckets": 50, "hash_key": 0xDECAFCAFFE}
  attrs.update(out_values_type=np.int64, out_row_splits_type=np.int64)
  inputs = [[np.array([4, 5, 6])], [np.array([0, 2, 2, 3])], _INDICES[:1], _VALUES[:1], _SHAPES[:1], _DENSE]
  static = "ragged_values ragged_row_splits sparse_indices sparse_values sparse_shape dense_inputs".split()
  check_raw_op("RaggedCross", inputs, attrs, static=static)


def test_strings_and_other_batches_are_refused():
  attrs = {"hashed_output": True, "num_buckets": 10, "hash_key": 1}
  with pytest.raises(GraftaxError, match="holds strings"):
    sparse_cross([], [], [], [np.array([[b"a"]], object)], **attrs)
  with pytest.raises(GraftaxError, match=r"batches of \[2, 3\]"):
    sparse_cross([], [], [], [_DENSE[0], _DENSE[0][:2]], **attrs)
  with pytest.raises(GraftaxError, match="hashed_output is not set"):
    sparse_cross([], [], [], _DENSE, **{**attrs, "hashed_output": False})


def test_traced_features_are_refused():
  with pytest.raises(GraftaxError, match="must be known while tracing"):
    jax.jit(lambda x: sparse_cross([], [], [], [x], hashed_output=True, num_buckets=9, hash_key=1))(_DENSE[0])
