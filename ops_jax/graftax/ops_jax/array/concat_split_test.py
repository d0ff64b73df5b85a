"""Joining and splitting against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax.array import concat_split
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
_DTYPES = (np.float32, np.int32, np.bool_, np.complex64, np.uint8)


@pytest.mark.parametrize("axis", [0, 1, -1, -4])
def test_pack_and_unpack_match_tensorflow(axis):
  check_raw_op("Pack", [[_X, _X + 1, _X * 2]], {"axis": axis}, grad=True)
  axis = max(axis, -3)
  check_raw_op("Unpack", [_X], {"num": _X.shape[axis], "axis": axis}, grad=True)


def test_pack_and_unpack_of_edges_match_tensorflow():
  for dtype in _DTYPES:
    check_raw_op("Pack", [[np.ones((), dtype), np.zeros((), dtype)]], vmap=False)
    check_raw_op("Unpack", [np.ones((2,), dtype)], {"num": 2}, vmap=False)
  check_raw_op("Pack", [[np.array(b"a", object), np.array(b"b", object)]])
  check_raw_op("Unpack", [np.zeros((0, 2), np.float32)], {"num": 0}, vmap=False)
  check_raw_op_rejects("Unpack", [_X], {"num": 3}, match="must be num=3")
  check_raw_op_rejects("Pack", [[_X, _X[0]]], match="shapes must be equal")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_matches_tensorflow(axis):
  parts = [_X, _X * 2, np.take(_X, [0], axis), np.take(_X, [], axis)]
  check_raw_op("ConcatV2", [parts, np.int32(axis)], grad=True, vmap=False)
  check_raw_op("Concat", [np.int32(axis), parts[:2]], grad=axis >= 0)
  for dtype in _DTYPES:
    check_raw_op("ConcatV2", [[p.astype(dtype) for p in parts[:3]], np.int64(axis)], vmap=False)


def test_concat_rejects_what_tensorflow_rejects():
  check_raw_op_rejects("ConcatV2", [[_X, _X[:, :2]], np.int32(0)], match="do not join")
  check_raw_op_rejects("ConcatV2", [[_X, _X], np.int32(3)], match="out of range")


def test_parallel_concat_joins_rows():
  result = concat_split.parallel_concat([_X[:1], _X[1:]])
  np.testing.assert_array_equal(result, _X)


def test_concat_offsets_match_tensorflow():
  shapes = [np.array([2, 3, 4], np.int32), np.array([2, 7, 4], np.int32), np.array([2, 0, 4], np.int32)]
  check_raw_op("ConcatOffset", [np.int32(1), shapes], static=("shape",))
  check_raw_op("ConcatOffset", [np.int32(-2), shapes], static=("shape",))
  check_raw_op("ConcatOffset", [np.int32(1), shapes], vmap=False)
  check_raw_op_rejects("ConcatOffset", [np.int32(0), shapes], match="do not join")


@pytest.mark.parametrize(("axis", "num"), [(0, 2), (1, 3), (-1, 2), (2, 1)])
def test_split_matches_tensorflow(axis, num):
  check_raw_op("Split", [np.int32(axis), _X], {"num_split": num}, grad=True)
  check_raw_op_rejects("Split", [np.int32(1), _X], {"num_split": 2}, match="not a multiple")


@pytest.mark.parametrize("sizes", [[1, 3], [-1, 1], [2, 0, -1], [4]])
def test_split_by_sizes_matches_tensorflow(sizes):
  check_raw_op("SplitV", [_X, np.array(sizes, np.int64), np.int32(-1)], {"num_split": len(sizes)}, grad=True)
  check_raw_op_rejects("SplitV", [_X, np.array([1, 2], np.int32), np.int32(2)], {"num_split": 2}, match="do not add up")


@pytest.mark.parametrize("multiples", [[1, 1, 1], [2, 1, 3], [0, 1, 2]])
def test_tile_matches_tensorflow(multiples):
  check_raw_op("Tile", [_X, np.array(multiples, np.int32)], grad=True)
  check_raw_op("Tile", [_X.astype(np.int8), np.array(multiples, np.int64)], vmap=False)
  check_raw_op_rejects("Tile", [_X, np.array([1, 2], np.int32)], match="do not fit")


def test_known_arrays_stay_known():
  x = np.arange(6, dtype=np.int32)
  results = [concat_split.pack([x, x]), concat_split.concat_v2([x, x], 0), concat_split.tile(x, (2,))]
  results += concat_split.unpack(x, num=6) + concat_split.split(0, x, num_split=2) + concat_split.split_v(x, (2, -1), 0)
  assert all(isinstance(r, np.ndarray) and r.dtype == np.int32 for r in results)


def test_symbolic_dimensions_are_joined_and_split():
  (n,) = jax.export.symbolic_shape("n")
  packed = concat_split.pack([np.array(n, object), np.int32(3)])
  assert list(packed) == [n, 3]
  first, second = concat_split.unpack(packed, num=2)
  assert first.shape == ()
  assert first.item() == n
  assert second.dtype == np.int32
  assert list(concat_split.concat_v2([packed, np.array([1], np.int32)], 0)) == [n, 3, 1]
  offsets = concat_split.concat_offset(0, [packed, packed])
  assert list(offsets[1]) == [n, 0]
