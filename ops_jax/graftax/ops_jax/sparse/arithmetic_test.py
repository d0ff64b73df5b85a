"""Merged and reduced sparse tensors against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax import lowering
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax.sparse.arithmetic import sparse_add
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

A = np.array([[0, 1], [1, 0], [1, 2], [3, 3]]), np.array([1.0, -2.0, 3.0, 0.5], np.float32)
B = np.array([[0, 0], [1, 0], [3, 3]]), np.array([4.0, -0.5, -0.5], np.float32)
SHAPE = np.array([4, 4])
OPERANDS = [A[0], A[1], SHAPE, B[0], B[1], SHAPE]


def test_sums():
  check_raw_op("SparseAdd", [*OPERANDS, np.float32(0)], grad=True)
  check_raw_op("SparseAdd", [*OPERANDS, np.float32(2.5)], static=("a_values", "b_values"))


@pytest.mark.parametrize("op", ["SparseSparseMaximum", "SparseSparseMinimum"])
def test_extrema(op):
  check_raw_op(op, OPERANDS)


def test_empty_operands():
  empty = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
  check_raw_op("SparseAdd", [A[0], A[1], SHAPE, *empty, SHAPE, np.float32(0)], vmap=["a_values"])


@pytest.mark.parametrize("op", ["SparseReduceSumSparse", "SparseReduceMaxSparse"])
@pytest.mark.parametrize("axes", [[], [0], [-1], [0, 2], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_reductions(op, axes, keep_dims):
  indices = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 3], [1, 0, 1], [2, 1, 0]])
  values = np.array([1.0, -3.0, 2.5, 4.0, -1.0], np.float32)
  check_raw_op(op, [indices, values, np.array([3, 2, 4]), np.array(axes, np.int32)], {"keep_dims": keep_dims})


@pytest.mark.parametrize("op", ["SparseReduceSumSparse", "SparseReduceMaxSparse"])
@pytest.mark.parametrize("axis", [-3, 2])
def test_axes_that_do_not_exist_are_refused(op, axis):
  check_raw_op_rejects(op, [A[0], A[1], SHAPE, np.array([axis], np.int32)], match=f"axis {axis}")


def test_gradient_ops():
  total = np.array([[0, 0], [0, 1], [1, 0], [1, 2]])
  gradient = np.array([1.0, 2.0, 3.0, 4.0])
  check_raw_op("SparseAddGrad", [gradient, A[0], B[0], total], vmap=["backprop_val_grad"])
  window = np.array([[0, 0], [0, 2]])
  check_raw_op("SparseSliceGrad", [gradient[:2], A[0], np.array([1, 0]), window], vmap=["backprop_val_grad"])


def test_what_is_traced_or_does_not_fit_raises():
  with pytest.raises(InvalidInputError, match="expected the same"):
    lowering("SparseSparseMaximum").function(A[0], A[1], (4, 4), B[0], B[1], (4, 5))
  with pytest.raises(StaticInputError, match="threshold"):
    jax.jit(lambda v: sparse_add(A[0], v, (4, 4), B[0], B[1], (4, 4), np.float32(1)))(A[1])
