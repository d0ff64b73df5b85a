"""Gathers against TensorFlow: batches, negative axes, positions out of range."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.array import gather
from graftax.ops_jax.array.gather import positions_or_end
from graftax.ops_jax.lists.tensor_list import tensor_list_scatter_into_existing_list, tensor_list_scatter_v2
from graftax.testing.raw_ops import NodeContext, check_raw_op, check_raw_op_rejects, raw_op

_X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[0, 2, 1, 2], 1, [[0, 1], [2, 2]], np.zeros((0, 2), np.int64)])
def test_gather_matches_tensorflow(axis, indices):
  indices = np.array(indices, np.int64 if axis == 1 else np.int32)
  check_raw_op("GatherV2", [_X, indices, np.int32(axis)], grad=True)
  check_raw_op("GatherV2", [_X, indices, np.int32(axis)], static=("indices",), grad=True)


_SLICES = {
  "all": np.arange(12),
  "one": np.array(7),
  "one in a vector": np.array([7]),
  "every third": np.arange(1, 12, 3),
  "backwards": np.arange(10, 1, -4),
  "frames": 2 * np.arange(5)[:, None] + np.arange(3),
  "frames as columns": 2 * np.arange(5) + np.arange(3)[:, None],
  "backward frames": np.arange(8, 0, -1)[:, None] + np.array([[3, -1, 0]]),
  "three axes": 2 * np.arange(3)[:, None, None] + np.array([[1, 0], [5, 7]]),
  "three axes, the last one longer": np.array([[1, 0], [5, 7]])[:, :, None] + np.arange(4),
}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", _SLICES.values(), ids=_SLICES)
def test_gathers_with_a_stride_are_slices(axis, indices):
  x = np.random.default_rng(0).normal(size=(12, 12, 12)).astype(np.float32)
  check_raw_op("GatherV2", [x, indices, np.int32(axis)], static=("indices",), grad=True)
  jaxpr = jax.make_jaxpr(lambda x: gather.gather_v2(x, indices, axis))(x)
  assert "gather" not in str(jaxpr)


@pytest.mark.parametrize(
  "indices", [[3, 3], [0, 1, 3], [[0, 1, 2], [3, 4, 6], [6, 7, 8]], np.arange(3) + np.zeros((9, 9, 1), int)]
)
def test_gathers_without_a_stride_stay_gathers(indices):
  indices = np.array(indices)
  x = np.arange(24, dtype=np.float32).reshape(12, 2)
  check_raw_op("GatherV2", [x, indices, np.int32(0)], static=("indices",), grad=True)
  assert "gather" in str(jax.make_jaxpr(lambda x: gather.gather_v2(x, indices, 0))(x))


@pytest.mark.parametrize(
  ("shape", "axis", "batch_dims"), [((3, 2), 1, 1), ((3, 2), 2, 1), ((3, 4, 2), 2, 2), ((3,), 1, 1), ((3, 4), 2, -1)]
)
def test_batched_gather_matches_tensorflow(shape, axis, batch_dims):
  indices = np.random.default_rng(0).integers(0, 4, shape).astype(np.int32)
  check_raw_op("GatherV2", [_X, indices, np.int32(axis)], {"batch_dims": batch_dims}, grad=True)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.bool_, np.complex64, ml_dtypes.bfloat16])
def test_gather_of_other_dtypes_matches_tensorflow(dtype):
  check_raw_op("GatherV2", [_X.astype(dtype), np.array([1, 0], np.int32), np.int32(0)], vmap=False)
  check_raw_op("Gather", [_X.astype(dtype), np.array([1, 0], np.int32)], vmap=False)


def test_known_strings_are_gathered():
  check_raw_op(
    "GatherV2", [np.array([b"a", b"b"], object), np.array([1, 0], np.int32), np.int32(0)], static=("indices",)
  )


@pytest.mark.parametrize("position", [5, -1])
def test_a_known_position_out_of_range_raises(position):
  for op, inputs in (
    ("GatherV2", [_X, np.array([position], np.int32), np.int32(0)]),
    ("GatherNd", [_X, np.array([[position, 0]], np.int32)]),
  ):
    case = raw_op(op, inputs, static=("indices",))
    with pytest.raises(ValueError, match=f"{op}: index {position} is not in"):
      case.run(_X)


def test_a_traced_position_out_of_range_gives_nan():
  for position in (5, -1):
    assert jnp.isnan(gather.gather_v2(jnp.ones(3), jnp.array([position]), 0)).all()
    assert jnp.isnan(gather.gather_nd(jnp.ones(3), jnp.array([[position]]))).all()
  assert gather.gather_v2(jnp.ones(3, np.int32), jnp.array([3]), 0)[0] == np.iinfo(np.int32).min


def test_gather_rejects_what_tensorflow_rejects():
  check_raw_op_rejects("GatherV2", [_X, np.array([0], np.int32), np.int32(3)], match="out of range")
  indices = np.zeros((2, 2), np.int32)
  check_raw_op_rejects("GatherV2", [_X, indices, np.int32(1)], {"batch_dims": 1}, match="do not share")
  check_raw_op_rejects("GatherNd", [_X, np.zeros((2, 4), np.int32)], match="do not fit")


@pytest.mark.parametrize("indices", [[[0, 1], [2, 3]], [[1]], [0, 1, 2], [[[0, 0, 0]], [[2, 3, 4]]], np.zeros((2, 0))])
def test_gather_of_coordinates_matches_tensorflow(indices):
  # TensorFlow's own gradient fails for a single coordinate.
  check_raw_op("GatherNd", [_X, np.array(indices, np.int32)], grad=np.ndim(indices) > 1 and np.size(indices) > 0)
  check_raw_op("GatherNd", [_X.astype(np.int16), np.array(indices, np.int64)], vmap=False)


def test_coordinates_out_of_range_can_be_ignored():
  indices = np.array([[0, 1], [5, 0], [-1, 2]], np.int32)
  check_raw_op("GatherNd", [_X, indices], {"bad_indices_policy": "IGNORE"})


def test_flat_positions_are_unravelled():
  for indices in (np.array([3, 5, 0], np.int32), np.array(5, np.int32)):
    check_raw_op("UnravelIndex", [indices, np.array([2, 4], np.int32)], vmap=("indices",))
  case = raw_op("UnravelIndex", [np.array([9], np.int32), np.array([2, 4], np.int32)], static=("indices", "dims"))
  with pytest.raises(ValueError, match="out of range"):
    case.run()


def test_symbolic_dimensions_are_gathered():
  (n,) = jax.export.symbolic_shape("n")
  dims = np.array([n, 3, 4], object)
  result = gather.gather_v2(dims, np.array([2, 0], np.int32), 0)
  assert list(result) == [4, n]
  assert gather.gather_v2(dims, np.array([1, 2], np.int32), 0).dtype == np.int32


def test_positions_out_of_range_lie_beyond_the_end():
  np.testing.assert_array_equal(positions_or_end("Op", jnp.array([-1, 0, 2, 3]), 3), [3, 0, 2, 3])
  with pytest.raises(InvalidInputError, match=r"Op: index -1 is not in \[0, 3\)"):
    positions_or_end("Op", np.array([-1, 0]), 3)


@pytest.mark.parametrize("bad", [-1, 3])
def test_slices_scattered_into_a_tensor_list_never_count_from_the_end(bad):
  tensor = jnp.array([7.0, 8.0])

  def scattered(indices):
    return tensor_list_scatter_v2(tensor, indices, np.zeros(0, np.int32), 3).buffer

  def written(indices):
    full = tensor_list_scatter_v2(jnp.ones(3), np.arange(3), np.zeros(0, np.int32), 3)
    return tensor_list_scatter_into_existing_list(NodeContext(), full, tensor, indices).buffer

  with pytest.raises(InvalidInputError, match="TensorListScatter: index"):
    scattered(np.array([bad, 1]))
  np.testing.assert_array_equal(jax.jit(scattered)(np.array([bad, 1])), [0, 8, 0])
  np.testing.assert_array_equal(jax.jit(written)(np.array([bad, 1])), [1, 8, 1])
