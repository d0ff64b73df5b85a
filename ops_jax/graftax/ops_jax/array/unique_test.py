"""Distinct elements against TensorFlow."""

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
_DTYPES += [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.bool_]


def _check(op, inputs, attrs=None):
  check_raw_op(op, inputs, attrs, jit=False, vmap=False)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("op", ["Unique", "UniqueWithCounts"])
def test_unique_keeps_the_order_of_first_occurrence(op, dtype):
  _check(op, [np.array([7, 1, 7, 3, 1, 0, 3, 7]).astype(dtype)])


@pytest.mark.parametrize("out_idx", [np.int32, np.int64])
def test_unique_index_types(out_idx):
  _check("UniqueWithCounts", [np.array([5, 4, 5])], {"out_idx": out_idx})


def test_unique_of_nothing():
  _check("UniqueWithCounts", [np.zeros(0, np.float32)])
  for shape in ((0, 2), (3, 0)):
    _check("UniqueWithCountsV2", [np.zeros(shape, np.float32), np.array([0])])


def test_each_nan_is_distinct_and_zeros_are_equal():
  _check("Unique", [np.array([np.nan, 1.0, np.nan, -0.0, 0.0, np.inf, np.inf])])


def test_unique_strings():
  _check("Unique", [np.array([b"b", b"a", b"b"], object)])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["UniqueV2", "UniqueWithCountsV2"])
def test_unique_slices(op, axis):
  x = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [2, 0, 0, 2]])
  _check(op, [x, np.array([axis])])
  _check(op, [np.array([3, 1, 3]), np.array([], np.int64)])


def test_unique_of_a_matrix_raises():
  check_raw_op_rejects("Unique", [np.ones((2, 2))], match="(2, 2)")


@pytest.mark.parametrize("dtype", _DTYPES[:-1])
@pytest.mark.parametrize("out_idx", [np.int32, np.int64])
def test_list_diff(dtype, out_idx):
  x = np.array([1, 2, 3, 4, 5, 6, 1]).astype(dtype)
  _check("ListDiff", [x, np.array([1, 3, 5]).astype(dtype)], {"out_idx": out_idx})
  _check("ListDiff", [x, np.array([]).astype(dtype)], {"out_idx": out_idx})
