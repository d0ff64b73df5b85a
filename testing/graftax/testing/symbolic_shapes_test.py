"""Tests ops whose inputs are shapes, exported once with symbolic dimensions and called at several sizes."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op

_REFLECTED = np.array([[1, 2], [2, 1]], np.int32)


def _ints(*values):
  return np.array(values, np.int32)


def _floats(*shape):
  return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _check(op, inputs, symbolic, attrs=None, static=()):
  check_raw_op(
    op, inputs, attrs, static=static, symbolic=symbolic, vmap=False, jit=False, known=False, without_x64=False
  )


_ZERO, _ONE, _TWO, _SEVEN = np.int32(0), np.int32(1), np.int32(2), np.int32(7)
_X43, _FIRST_AXIS = _floats(4, 3), _ints(0)
_BOTH = ("begin", "end")


@pytest.mark.parametrize(
  ("op", "inputs", "symbolic", "attrs"),
  [
    ("Fill", [_ints(2, 3), np.float32(1)], {"dims": "a, b"}, {}),
    ("Empty", [_ints(2, 3)], {"shape": "a, 3"}, {"dtype": np.float32, "init": True}),
    ("BroadcastTo", [_floats(3), _ints(2, 3)], {"shape": "a, b", "input": "b"}, {}),
    ("BroadcastTo", [_floats(1, 3), _ints(2, 3)], {"shape": "a, 3"}, {}),
    ("BroadcastArgs", [_ints(2, 3), _ints(1, 3)], {"s0": "a, b", "s1": "1, b"}, {}),
    ("BroadcastGradientArgs", [_ints(2, 3), _ints(2, 1)], {"s0": "a, 3", "s1": "a, 1"}, {}),
    ("Tile", [_floats(2, 3), _ints(2, 1)], {"multiples": "a, 1", "input": "b, 3"}, {}),
    ("Reshape", [_floats(6), _ints(2, 3)], {"shape": "a, b", "tensor": "a*b"}, {}),
    ("Reshape", [_floats(6), _ints(2, -1)], {"shape": "2, -1", "tensor": "2*a"}, {}),
    ("Range", [_ZERO, np.int32(5), _ONE], {"limit": "a"}, {}),
    ("Range", [_ONE, np.int32(6), _TWO], {"limit": "a"}, {}),
    ("OneHot", [_ints(1, 2), np.int32(5), np.float32(1), np.float32(0)], {"depth": "a"}, {}),
    ("ScatterNd", [_ints(1, 2)[:, None], _floats(2), _ints(5)], {"shape": "a"}, {}),
    ("SparseToDense", [_ints(1, 2)[:, None], _ints(5), _floats(2), np.float32(0)], {"output_shape": "a"}, {}),
    ("UnsortedSegmentSum", [_floats(3), _ints(0, 1, 1), np.int32(4)], {"num_segments": "a"}, {}),
    ("DenseBincount", [_ints(1, 2), np.int32(4), _floats(0)], {"size": "a"}, {}),
    ("SplitV", [_X43, _ints(1, 3), _ZERO], {"size_splits": "1, a - 1", "value": "a, 3"}, {"num_split": 2}),
    ("Split", [_ZERO, _X43], {"value": "2*a, 3"}, {"num_split": 2}),
    ("Pack", [[np.int32(4), np.int32(3)]], {"values": ["a", "3"]}, {}),
    ("Pack", [[np.int32(4), np.int32(4)]], {"values": "a"}, {}),
    ("Unpack", [_ints(4, 3)], {"value": "a, b"}, {"num": 2}),
    ("ConcatV2", [[_ints(4), _ints(3)], _ZERO], {"values": ["a", "b"]}, {}),
    ("ConcatV2", [[_floats(4, 2), _floats(3, 2)], _ZERO], {"values": ["a, 2", "b, 2"]}, {}),
    ("ConcatOffset", [_ZERO, [_ints(4, 3), _ints(5, 3)]], {"shape": ["a, b", "c, b"]}, {}),
    ("MatrixDiagV3", [_floats(3), _ZERO, np.int32(3), np.int32(3), np.float32(0)],
      {"num_rows": "a", "num_cols": "a", "diagonal": "a"}, {}),
    ("ResizeBilinear", [_floats(1, 2, 2, 1), _ints(4, 4)], {"size": "a, b"}, {}),
    ("ResizeNearestNeighbor", [_floats(1, 2, 2, 1), _ints(4, 4)], {"size": "a, b"}, {}),
    ("Conv2DBackpropInput", [_ints(1, 4, 4, 1), _floats(2, 2, 1, 1), _floats(1, 3, 3, 1)],
      {"input_sizes": "a, 4, 4, 1", "out_backprop": "a, 3, 3, 1"}, {"strides": [1, 1, 1, 1], "padding": "VALID"}),
    ("SpaceToBatchND", [_floats(4, 4, 1), _ints(2), _ints(0, 0)[None]], {"input": "a, 4, 1"}, {}),
    ("BatchToSpaceND", [_floats(2, 2, 1), _ints(2), _ints(0, 0)[None]], {"input": "2*a, 2, 1"}, {}),
    ("Roll", [_floats(6), _TWO, _ZERO], {"shift": "a"}, {}),
    ("MirrorPad", [_X43, _REFLECTED], {"input": "a, b"}, {"mode": "REFLECT"}),
    ("MirrorPad", [_X43, _REFLECTED], {"input": "a, 3"}, {"mode": "SYMMETRIC"}),
    ("MirrorPadGrad", [_floats(7, 6), _REFLECTED], {"input": "a + 3, 6"}, {"mode": "REFLECT"}),
    ("Conv2D", [_floats(1, 4, 4, 1), _floats(2, 2, 1, 1)], {"input": "a, h, w, 1"},
      {"strides": [1, 2, 2, 1], "padding": "SAME"}),
    ("AvgPool", [_floats(1, 4, 4, 1)], {"value": "a, h, w, 1"},
      {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
    ("Shape", [_floats(2, 3)], {"input": "a, b"}, {"out_type": np.int64}),
    ("Size", [_floats(2, 3)], {"input": "a, b"}, {}),
  ],
)  # fmt: skip
def test_shapes_may_be_symbolic(op, inputs, symbolic, attrs):
  _check(op, inputs, symbolic, attrs)


@pytest.mark.parametrize(
  ("op", "inputs", "symbolic", "attrs"),
  [
    ("Prod", [_ints(4, 3), _FIRST_AXIS], {"input": "a, b"}, {"keep_dims": True}),
    ("Sum", [_ints(4, 3), _FIRST_AXIS], {"input": "a, b"}, {}),
    ("Max", [_ints(4, 3), _FIRST_AXIS], {"input": "a, b"}, {}),
    ("GatherV2", [_ints(4, 3), _ints(1, 0), _ZERO], {"params": "a, b"}, {}),
    ("Cumsum", [_ints(4, 3), _ZERO], {"x": "a, b"}, {}),
    ("Cumprod", [_ints(4, 3), _ZERO], {"x": "a, b"}, {}),
    ("ReverseV2", [_ints(4, 3), _FIRST_AXIS], {"tensor": "a, b"}, {}),
    ("ExpandDims", [_ints(4, 3), _ZERO], {"input": "a, b"}, {}),
    ("Squeeze", [_ints(4)], {"input": "a"}, {}),
    ("AddN", [[_ints(4, 3), _ints(4, 3)]], {"inputs": "a, b"}, {}),
    ("Cast", [_SEVEN], {"x": "a"}, {"DstT": np.float32}),
    ("Neg", [_SEVEN], {"x": "a"}, {}),
    ("Sign", [_SEVEN], {"x": "a"}, {}),
    ("OnesLike", [_SEVEN], {"x": "a"}, {}),
  ],
)
def test_arithmetic_on_shapes_may_be_symbolic(op, inputs, symbolic, attrs):
  _check(op, inputs, symbolic, attrs)


@pytest.mark.parametrize(
  "op",
  ["AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Minimum", "SquaredDifference", "Equal", "Less",
   "GreaterEqual", "NotEqual"],
)  # fmt: skip
@pytest.mark.parametrize(("symbolic", "static"), [({"x": "a"}, ()), ({"x": "a"}, ("y",)), ({"x": "a", "y": "b"}, ())])
def test_binary_arithmetic_on_dimensions(op, symbolic, static):
  _check(op, [_SEVEN, _TWO], symbolic, static=static)


@pytest.mark.parametrize(
  ("inputs", "symbolic"),
  [
    ([_X43, _ints(1, 0), _ints(2, 3)], {"size": "a, 3"}),
    ([_X43, _ints(0, 0), _ints(2, -1)], {"size": "a, -1"}),
    ([_X43, _ints(0, 0), _ints(2, -1)], {"size": "a, -1", "input": "2*a, 3"}),
    ([_X43, _ints(1, 0), _ints(2, 3)], {"begin": "a, 0", "size": "b, 3"}),
    ([_X43, _ints(1, 0), _ints(-1, 3)], {"begin": "a, 0", "input": "4*a, 3"}),
    ([_ints(4, 5, 6), _ints(1), _ints(2)], {"size": "a"}),
  ],
)
def test_slices_of_symbolic_extent(inputs, symbolic):
  _check("Slice", inputs, symbolic, static=("begin",))


def test_a_slice_of_symbolic_extent_does_not_make_up_what_lies_beyond():
  import jax

  from graftax.testing.raw_ops import NodeContext, raw_op

  case = raw_op("Slice", [_X43, _ints(0, 0), _ints(2, 3)], static=("begin", "size"))
  run = jax.export.export(
    jax.jit(lambda n: case.kernel.run(NodeContext(), [_X43, _ints(0, 0), np.array([n.shape[0], 3], object)]))
  )(jax.ShapeDtypeStruct(jax.export.symbolic_shape("a"), np.float32))
  (beyond,) = run.call(np.zeros(6, np.float32))
  np.testing.assert_array_equal(beyond[:4], _X43)
  assert np.isnan(beyond[4:]).all()


@pytest.mark.parametrize(
  ("begin", "end", "symbolic", "static", "attrs"),
  [
    (1, 3, {"begin": "a", "end": "b"}, (), {}),
    (0, 3, {"end": "a"}, ("begin",), {}),
    (1, 3, {"begin": "a"}, ("end",), {}),
    (0, 2, {"input": "a, 3"}, _BOTH, {}),
    (0, -1, {"input": "a, 3"}, _BOTH, {}),
    (2, 3, {"begin": "a"}, ("end",), {"shrink_axis_mask": 1}),
  ],
)
def test_strided_slices_with_symbolic_ends(begin, end, symbolic, static, attrs):
  _check("StridedSlice", [_X43, _ints(begin), _ints(end), _ints(1)], symbolic, attrs, static)


def test_falling_and_known_slices_of_symbolic_vectors():
  _check("StridedSlice", [_X43, _ints(3), _ints(0), _ints(-1)], {"input": "a, 3"}, {}, _BOTH)
  _check(
    "StridedSlice", [_ints(4, 3), _ints(-1), _ints(0), _ints(1)], {"input": "a, b"}, {"shrink_axis_mask": 1}, _BOTH
  )
  inputs = [_ints(4, 3), _ints(0), _ints(2), _ints(1), _floats(2, 3)]
  _check("StridedSliceGrad", inputs, {"shape": "a, 3"}, {}, _BOTH)
