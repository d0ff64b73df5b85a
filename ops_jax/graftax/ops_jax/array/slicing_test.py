"""Slices against TensorFlow: every mask, steps of both signs, traced positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import StaticInputError
from graftax.ops_jax.array import slicing
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
_KNOWN = ("begin", "end")


def _index(*items):
  """begin, end, strides and masks of `x[items]`."""
  begin, end, strides = [], [], []
  masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
  for i, item in enumerate(items):
    bit = 1 << i
    if isinstance(item, slice):
      begin.append(item.start or 0)
      end.append(item.stop or 0)
      strides.append(item.step or 1)
      masks["begin_mask"] |= bit if item.start is None else 0
      masks["end_mask"] |= bit if item.stop is None else 0
      continue
    position = item if isinstance(item, int) else 0
    begin.append(position)
    end.append(position + 1)
    strides.append(1)
    masks["ellipsis_mask"] |= bit if item is Ellipsis else 0
    masks["new_axis_mask"] |= bit if item is None else 0
    masks["shrink_axis_mask"] |= bit if isinstance(item, int) else 0
  return [np.array(v, np.int32) for v in (begin, end, strides)], masks


_S = slice
_INDICES = [
  (_S(None), _S(1, 3)),
  (_S(1, None), _S(None, -1), _S(None, None, 2)),
  (_S(None, None, -1), _S(3, 0, -2)),
  (_S(-1, None), 1),
  (0, 1, 2),
  (-1,),
  (..., 1),
  (..., None, _S(1, 3)),
  (None, _S(None), None, 0, ...),
  (1, ..., _S(None, None, -2), None),
  (_S(5, 10), _S(-100, 100)),
  (_S(2, 1), _S(None)),
  (_S(None, None, -3), ..., _S(4, None, -1)),
  (..., _S(None), _S(None), _S(None)),
  (_S(0, 3, 2), _S(1, 4, 2), _S(4, None, -4)),
  (_S(1, 1, -1),),
]


@pytest.mark.parametrize("items", _INDICES, ids=str)
def test_every_kind_of_index_matches_tensorflow(items):
  (begin, end, strides), masks = _index(*items)
  expected = _X[items]
  check_raw_op("StridedSlice", [_X, begin, end, strides], masks, static=_KNOWN, grad=True)
  dims = np.array(_X.shape, np.int32)
  check_raw_op("StridedSliceGrad", [dims, begin, end, strides, expected], masks, static=_KNOWN, grad=expected.size > 0)
  value = np.asarray(-expected)
  check_raw_op("TensorStridedSliceUpdate", [_X, begin, end, strides, value], masks, static=_KNOWN, grad=True)


def test_random_indices_match_tensorflow():
  rng = np.random.default_rng(0)
  for _ in range(60):
    masks = {
      "begin_mask": int(rng.integers(8)),
      "end_mask": int(rng.integers(8)),
      "ellipsis_mask": int(rng.choice([0, 0, 1, 2, 4])),
      "new_axis_mask": int(rng.choice([0, 0, 1, 2])),
      "shrink_axis_mask": int(rng.choice([0, 0, 1, 2, 4])),
    }
    begin = rng.integers(-2, 3, 3).astype(np.int64)
    end = rng.integers(-6, 7, 3).astype(np.int64)
    strides = rng.choice([1, 1, 2, 3] if masks["shrink_axis_mask"] else [1, 1, 2, -1, -2], 3).astype(np.int64)
    check_raw_op("StridedSlice", [_X, begin, end, strides], masks, static=_KNOWN, jit=False, vmap=False)


def test_other_dtypes_and_edges_match_tensorflow():
  (begin, end, strides), masks = _index(_S(None, None, -1))
  for x in (_X.astype(np.int8), _X.astype(np.complex64), _X > 3, np.zeros((0, 2), np.float32)):
    check_raw_op("StridedSlice", [x, begin, end, strides], masks, static=_KNOWN)
  check_raw_op("StridedSlice", [np.array([b"a", b"b"], object), begin, end, strides], masks)
  (begin, end, strides), masks = _index()
  check_raw_op("StridedSlice", [np.float32(1), begin, end, strides], masks, static=_KNOWN, vmap=False)


@pytest.mark.parametrize("position", [0, 2, -1])
def test_a_traced_position_matches_tensorflow(position):
  (begin, end, strides), masks = _index(position)
  check_raw_op("StridedSlice", [_X, begin, end, strides], masks, grad=True)
  dims = np.array(_X.shape, np.int32)
  check_raw_op("StridedSliceGrad", [dims, begin, end, strides, _X[position]], masks, grad=True)
  check_raw_op("TensorStridedSliceUpdate", [_X, begin, end, strides, -_X[position]], masks, grad=True)
  (begin, end, strides), masks = _index(_S(None), position)
  check_raw_op("StridedSlice", [_X, begin, end, strides], masks, grad=True)


def test_a_traced_range_raises():
  with pytest.raises(StaticInputError, match="extent of the result is not known"):
    jax.jit(lambda x, begin, end: slicing.strided_slice(x, begin, end, (1,)))(_X, np.array([1]), np.array([3]))


def test_what_tensorflow_rejects_raises():
  (begin, end, strides), masks = _index(7)
  case = raw_op("StridedSlice", [_X, begin, end, strides], masks, static=_KNOWN, infer_shapes=False)
  with pytest.raises(ValueError, match="out of range"):
    case.run(_X)
  with pytest.raises(ValueError, match="stride of entry 0 is 0"):
    slicing.strided_slice(_X, begin, end, (0,))
  with pytest.raises(ValueError, match="more entries"):
    slicing.strided_slice(_X[0, 0], np.zeros(2, np.int32), np.ones(2, np.int32), (1, 1))


@pytest.mark.parametrize(("begin", "size"), [([0, 1, 2], [2, 3, 1]), ([1, 0, 0], [-1, 4, -1]), ([0, 0, 5], [3, 2, 0])])
def test_boxes_match_tensorflow(begin, size):
  begin, size = np.array(begin, np.int32), np.array(size, np.int32)
  check_raw_op("Slice", [_X, begin, size], static=("begin",), grad=True)
  if np.all(size >= 0):
    check_raw_op("Slice", [_X, begin, size], grad=True, vmap=("input",))
    check_raw_op("Slice", [_X.astype(np.int64), begin.astype(np.int64), size.astype(np.int64)], vmap=False)


def test_boxes_that_leave_the_array_raise():
  begin, size = np.array([0, 0, 3], np.int32), np.array([3, 4, 3], np.int32)
  case = raw_op("Slice", [_X, begin, size], static=("begin",), infer_shapes=False)
  with pytest.raises(ValueError, match="leave dimension 2"):
    case.run(_X)
  with pytest.raises(StaticInputError, match="is -1"):
    slicing.slice_(_X, jnp.array([0, 0, 0]), (-1, 4, 5))
  check_raw_op_rejects("Slice", [_X, begin[:2], size[:2]], match="must have 3 entries")


def test_known_shape_vectors_stay_known():
  (n,) = jax.export.symbolic_shape("n")
  dims = np.array([n, 4, 5], object)
  (begin, end, strides), masks = _index(0)
  first = slicing.strided_slice(dims, begin, end, tuple(strides), **masks)
  assert isinstance(first, np.ndarray)
  assert first.item() == n
  (begin, end, strides), masks = _index(_S(1, None))
  rest = slicing.strided_slice(dims, begin, end, tuple(strides), **masks)
  assert rest.dtype == np.int32
  assert rest.tolist() == [4, 5]


@pytest.mark.parametrize(
  "items",
  [(_S(None, -1),), (_S(None, None, -1),), (_S(None, None, 2),), (_S(1, None), 0), (-1,), (_S(-2, None),)],
  ids=str,
)
def test_symbolic_dimensions_are_sliced(items):
  (n,) = jax.export.symbolic_shape("n", constraints=["n >= 2"])
  (begin, end, strides), masks = _index(*items)

  def cut(x):
    return slicing.strided_slice(x, begin, end, tuple(int(s) for s in strides), **masks)

  exported = jax.export.export(jax.jit(cut))(jax.ShapeDtypeStruct((n, 4), np.float32))
  for num in (2, 5, 6):
    x = np.arange(4 * num, dtype=np.float32).reshape(num, 4)
    np.testing.assert_array_equal(exported.call(x), x[items])
