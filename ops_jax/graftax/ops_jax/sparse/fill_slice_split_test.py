"""Parts of sparse tensors against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op

_INDICES = np.array([[0, 1], [0, 3], [2, 0], [2, 2]])
_VALUES = np.array([1.5, -2.0, 3.0, 0.25])
_SHAPE = np.array([3, 4])


def test_empty_rows_are_filled():
  indices = np.array([[1, 0], [3, 0], [3, 2]])
  inputs = [indices, np.arange(3.0), np.array([5, 4]), np.float64(-1)]
  check_raw_op("SparseFillEmptyRows", inputs, vmap=["values"], grad=["values", "default_value"])
  check_raw_op("SparseFillEmptyRowsGrad", [np.array([1, 3, 4]), np.arange(6.0)], vmap=["grad_values"])


@pytest.mark.parametrize(("start", "size"), [([0, 0], [2, 2]), ([1, 0], [9, 9]), ([0, 1], [1, 3])])
def test_slice(start, size):
  check_raw_op("SparseSlice", [_INDICES, _VALUES, _SHAPE, np.array(start), np.array(size)], vmap=["values"])


@pytest.mark.parametrize(("axis", "num_split"), [(0, 2), (1, 2), (1, 3)])
def test_split(axis, num_split):
  inputs = [np.array(axis), _INDICES, _VALUES, _SHAPE]
  check_raw_op("SparseSplit", inputs, {"num_split": num_split}, vmap=["values"])
