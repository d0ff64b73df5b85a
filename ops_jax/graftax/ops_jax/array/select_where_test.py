"""Selection by condition against TensorFlow."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.array.select_where import select_v2, where
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16, np.complex64, np.bool_])
def test_select_matches_tensorflow(dtype):
  t, e = np.ones((2, 3), dtype), np.zeros((2, 3), dtype)
  for condition in (np.array(True), np.array([True, False]), np.arange(6).reshape(2, 3) % 2 == 0):
    check_raw_op("Select", [condition, t, e], grad=dtype == np.float32, vmap=("t",))
  check_raw_op("SelectV2", [np.array([[True], [False]]), t, e[:, :1]], grad=dtype == np.float32)
  check_raw_op("SelectV2", [np.array(True), t[0], e], vmap=False)


def test_known_strings_are_selected():
  check_raw_op(
    "SelectV2", [np.array([True, False]), np.array(b"a", object), np.array([b"b", b"c"], object)], static=("condition",)
  )


def test_select_rejects_what_tensorflow_rejects():
  x = np.ones((2, 3), np.float32)
  check_raw_op_rejects("Select", [np.array([True]), x, x], match="does not fit")
  check_raw_op_rejects("Select", [np.array(True), x, x[0]], match="must be equal")


@pytest.mark.parametrize(
  "x",
  [
    np.array([[True, False], [True, True]]),
    np.array([0.0, np.nan, -1.0, 0.0], np.float32),
    np.zeros((2, 3), np.int32),
    np.zeros((0, 3), np.int32),
    np.array([1j, 0]),
    np.ones((1, 2, 1, 2), np.int8),
  ],
)
def test_positions_of_true_elements_match_tensorflow(x):
  check_raw_op("Where", [x])


def test_a_true_scalar_has_one_position_without_coordinates():
  assert where(np.array(True)).shape == (1, 0)
  assert where(np.array(False)).shape == (0, 0)


def test_symbolic_dimensions_are_selected():
  (n,) = jax.export.symbolic_shape("n")
  assert list(select_v2(np.array([True, False]), np.array([n, 1], object), np.int32(5))) == [n, 5]
