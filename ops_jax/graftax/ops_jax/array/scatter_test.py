"""Scatters against TensorFlow: slices, duplicates, ties, coordinates out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.array import scatter
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_X = np.arange(12, dtype=np.float32).reshape(4, 3)
_ROWS = np.array([[2], [0], [2]], np.int32)
_POINTS = np.array([[2, 1], [0, 0], [3, 2]], np.int32)
_UNIQUE_ROWS = np.array([[2], [0]], np.int32)


def test_scatter_matches_tensorflow():
  for indices, updates in ((_ROWS, _X[:3]), (_POINTS, _X[:3, 0] + 1)):
    check_raw_op("ScatterNd", [indices, updates, np.array([4, 3], np.int32)], grad=True)
    check_raw_op("ScatterNd", [indices, updates.astype(np.int64), np.array([4, 3], np.int32)], vmap=False)
  check_raw_op("ScatterNd", [_ROWS.astype(np.int64), _X[:3] + 1j, np.array([4, 3], np.int64)], vmap=False)


def test_booleans_are_combined_by_or():
  indices, updates = np.array([[1], [1], [2]], np.int32), np.array([True, False, False])
  check_raw_op("ScatterNd", [indices, updates, np.array([4], np.int32)])
  check_raw_op("ScatterNdNonAliasingAdd", [np.array([True, False, True, False]), indices, updates])


def test_scatter_of_nothing_matches_tensorflow():
  check_raw_op("ScatterNd", [np.zeros((0, 1), np.int32), np.zeros((0, 3), np.float32), np.array([4, 3], np.int32)])


@pytest.mark.parametrize("op", ["TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin"])
def test_updates_match_tensorflow(op):
  check_raw_op(op, [_X, _ROWS, _X[1:] * 1.5 - 4], grad=True)
  check_raw_op(op, [_X, _POINTS, np.array([3.0, -2.0, 99.0], np.float32)], grad=True)
  check_raw_op(op, [_X.astype(np.int32), _ROWS, _X[1:].astype(np.int32)], vmap=False)


def test_replacement_matches_tensorflow():
  check_raw_op("TensorScatterUpdate", [_X, _UNIQUE_ROWS, _X[2:]], grad=True)
  check_raw_op("TensorScatterUpdate", [_X, _POINTS, np.array([3.0, -2.0, 99.0], np.float32)], grad=True)
  check_raw_op("TensorScatterUpdate", [_X > 3, _UNIQUE_ROWS, _X[2:] > 7], vmap=False)
  check_raw_op("TensorScatterUpdate", [_X, _ROWS, _X[1:]], vmap=False)


@pytest.mark.parametrize("op", ["TensorScatterMax", "TensorScatterMin"])
def test_ties_share_the_derivative_like_tensorflow(op):
  tensor, updates = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])
  check_raw_op(op, [tensor, np.array([[0], [1], [1]], np.int32), updates], grad=True)


def test_a_known_coordinate_out_of_range_raises():
  for bad in (5, -1):
    case = raw_op(
      "ScatterNd",
      [np.array([[bad]], np.int32), np.ones((1,), np.float32), np.array([3], np.int32)],
      static=("indices",),
    )
    with pytest.raises(ValueError, match="is not in"):
      case.run(np.ones((1,), np.float32))


def test_a_traced_coordinate_out_of_range_is_dropped():
  for bad in (5, -1):
    np.testing.assert_array_equal(scatter.scatter_nd(jnp.array([[bad]]), jnp.ones(1), (3,)), [0, 0, 0])
    np.testing.assert_array_equal(scatter.tensor_scatter_max(jnp.ones(3), jnp.array([[bad]]), jnp.array([7.0])), 1)


def test_coordinates_out_of_range_can_be_ignored():
  indices, attrs = np.array([[0], [5], [-1]], np.int32), {"bad_indices_policy": "IGNORE"}
  check_raw_op("ScatterNd", [indices, np.ones(3, np.float32), np.array([3], np.int32)], attrs)
  check_raw_op("TensorScatterUpdate", [np.zeros(3, np.float32), indices, np.ones(3, np.float32)], attrs)


def test_shapes_that_do_not_fit_raise():
  check_raw_op_rejects("ScatterNd", [_ROWS, _X[:2], np.array([4, 3], np.int32)], match="do not fit")
  check_raw_op_rejects("TensorScatterAdd", [_X, _ROWS, _X[:2]], match="do not fit")


@pytest.mark.parametrize("op", ["InplaceUpdate", "InplaceAdd", "InplaceSub"])
def test_rows_are_changed_in_place_like_tensorflow(op):
  check_raw_op(op, [_X, np.array([0, 3], np.int32), _X[:2] * 2 + 1], vmap=False)
  if op != "InplaceUpdate":
    check_raw_op(op, [_X, np.array([0, -1, 0], np.int32), _X[:3] * 2 + 1], vmap=False)


def test_symbolic_dimensions_are_scattered():
  (n,) = jax.export.symbolic_shape("n")
  result = scatter.scatter_nd(np.array([[1]], np.int32), np.array([n], object), (3,))
  assert isinstance(result, np.ndarray)
  assert list(result) == [0, n, 0]
