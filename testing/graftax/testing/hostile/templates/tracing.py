"""Graphs of a few bytes that ask for much while they are traced: sizes, loops, calls, depths."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.protos import Func, Nodes, Shape, add, call, const, function, graph, loop
from graftax.testing.hostile.grammar.readers import use_model
from graftax.testing.hostile.registry import Attempt, Box, family

_KIND = "tracing"
_F, _I, _L, _B, _S = DType.FLOAT, DType.INT32, DType.INT64, DType.BOOL, DType.STRING
_SIZES = (3, 1 << 20, 1 << 28, (1 << 31) - 1, 1 << 31, 1 << 34, 1 << 40, (1 << 62) + 1, -1, 0, -(1 << 40))


def _attempt(draw: Draw, box: Box, made: schema.GraphDef) -> Attempt:
  path = box.model / "graph.pb"
  path.write_bytes(made.SerializeToString())
  jit = draw.chance(0.4)
  # The limit of one array is 1 GiB: more than that is what the graph asks for, and may have.
  return Attempt(lambda: use_model(path, jit=jit), graph=path, memory_mib=1100)


def _start() -> schema.GraphDef:
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((2,)))
  return made


def _end(made: schema.GraphDef, last: str, dtype: DType = _F) -> None:
  """Makes a small number of the last tensor and of `x`, so that a large one is in between."""
  add(made.node, "shape", "Shape", last, T=dtype, out_type=_I)
  const(made.node, "axes", np.zeros(1, np.int32))
  add(made.node, "size", "Prod", "shape", "axes", T=_I, Tidx=_I, keep_dims=False)
  add(made.node, "number", "Cast", "size", SrcT=_I, DstT=_F)
  add(made.node, "out", "Mul", "x", "number", T=_F)


def _int(draw: Draw, dtype: type = np.int64) -> Any:
  """Returns a size that is much too large, in a dtype that holds it."""
  size = draw.pick(*_SIZES)
  info = np.iinfo(dtype)
  return dtype(min(max(size, info.min), info.max))


Row = tuple[str, Callable[[Draw, Nodes], list[str]], Mapping[str, Any], DType]


def _sized(row: Row, draw: Draw, box: Box) -> Attempt:
  op, inputs, attrs, dtype = row
  made = _start()
  names = inputs(draw, made.node)
  add(made.node, "large", op, *names, **attrs)
  if draw.chance(0.5):
    _end(made, "large", dtype)
  else:
    add(made.node, "out", "Identity", "large", T=dtype)
  return _attempt(draw, box, made)


def _of(inputs: Callable[[Draw], Mapping[str, Any]]) -> Callable[[Draw, Nodes], list[str]]:
  """Returns what adds constants by name and returns the names; None is a node that is there already."""

  def build(draw: Draw, nodes: Nodes) -> list[str]:
    values = inputs(draw)
    for name, value in values.items():
      if value is not None:
        const(nodes, name, np.array(value) if isinstance(value, list) else value)
    return list(values)

  return build


def _range(draw: Draw, nodes: Nodes) -> list[str]:
  delta = draw.pick(np.int64(1), np.int64(0), np.int64(-1), np.int64(1 << 40))
  return _of(lambda d: {"from": np.int64(0), "to": _int(d), "delta": delta})(draw, nodes)


def _float_range(draw: Draw, nodes: Nodes) -> list[str]:
  delta = draw.pick(np.float32(1), np.float32(1e-30), np.float32("nan"), np.float32("inf"), np.float32(0))
  end = draw.pick(np.float32(3), np.float32(1e30), np.float32("inf"), np.float32("nan"))
  return _of(lambda d: {"from": np.float32(0), "to": end, "delta": delta})(draw, nodes)


def _diagonal(draw: Draw, nodes: Nodes) -> list[str]:
  sizes = {name: _int(draw, np.int32) for name in ("rows", "columns")}
  return _of(lambda d: {"x": None, "k": _int(d, np.int32), **sizes, "padding": np.float32(0)})(draw, nodes)


def _where(draw: Draw, nodes: Nodes) -> list[str]:
  sizes = _of(lambda d: {"dims": [d.pick(3, 1 << 14, 1 << 31), d.pick(3, 1 << 14)], "true": np.bool_(True)})
  add(nodes, "filled", "Fill", *sizes(draw, nodes), T=_B, index_type=_L)
  return ["filled"]


def _list_reserve(draw: Draw, nodes: Nodes) -> list[str]:
  sizes = _of(lambda d: {"element_shape": np.array([d.pick(2, -1, 1 << 30)], np.int32), "n": _int(d, np.int32)})
  add(nodes, "list", "TensorListReserve", *sizes(draw, nodes), element_dtype=_F, shape_type=_I)
  return ["list", "element_shape"]


def _sequence_mask(draw: Draw, nodes: Nodes) -> list[str]:
  add(nodes, "row", "Range", *_range(draw, nodes), Tidx=_L)
  const(nodes, "axis", np.int32(1))
  add(nodes, "column", "ExpandDims", "row", "axis", T=_L, Tdim=_I)
  return ["row", "column"]


_dims = _of(lambda d: {"x": None, "dims": [_int(d)]})
_pad = _of(lambda d: {"x": None, "paddings": [[_int(d), d.pick(0, 1 << 30, -1)]]})
_bincount = _of(
  lambda d: {
    "values": np.array([1, 2, d.pick(3, (1 << 31) - 1, -1)], np.int32),
    "n": _int(d, np.int32),
    "weights": np.zeros(0, np.float32),
  }
)
_resize = _of(
  lambda d: {
    "image": np.ones((1, 2, 2, 1), np.float32),
    "size": np.array([_int(d, np.int32), d.pick(3, 1 << 30)], np.int32),
  }
)
_sparse_to_dense = _of(
  lambda d: {
    "indices": [[0, 0], [1, d.pick(1, 1 << 40, -1)]],
    "shape_of_it": [_int(d), d.pick(2, 1 << 30)],
    "values": np.array([1, 2], np.float32),
    "default": np.float32(0),
  }
)
_fill_empty_rows = _of(
  lambda d: {
    "indices": [[0, 0], [d.pick(1, 1 << 40, -1), 0]],
    "values": np.array([1, 2], np.float32),
    "shape_of_it": [_int(d), d.pick(2, 1 << 30)],
    "default": np.float32(0),
  }
)
_random = _of(lambda d: {"dims": [_int(d), d.pick(1, 1 << 20)], "seed": np.array([1, 2][: d.pick(2, 1, 0)], np.int64)})
_ragged_range = _of(lambda d: {"starts": [0, 0], "ends": [_int(d), d.pick(3, 1 << 40)], "steps": [1, d.pick(1, 0, -1)]})
_one_hot = _of(
  lambda d: {
    "indices": np.arange(d.pick(3, 1000), dtype=np.int32),
    "n": _int(d, np.int32),
    "on": np.float32(1),
    "off": np.float32(0),
  }
)
_convolution_gradient = _of(
  lambda d: {
    "sizes": np.array([1, _int(d, np.int32), d.pick(2, 1 << 20), 1], np.int32),
    "filter": np.ones((1, 1, 1, 1), np.float32),
    "gradient": np.ones((1, 2, 2, 1), np.float32),
  }
)
_ragged_to_dense = _of(
  lambda d: {
    "shape_of_it": [_int(d), d.pick(-1, 1 << 30)],
    "x": None,
    "default": np.float32(0),
    "splits": [0, 1, d.pick(2, 1 << 40, -1)],
  }
)
_fill = _of(lambda d: {"dims": [_int(d), d.pick(1, 1 << 20)], "value": np.float32(1)})
_tile = _of(lambda d: {"x": None, "multiples": [_int(d)]})
_scatter_nd = _of(lambda d: {"indices": [[0], [d.pick(1, 1 << 40, -1)]], "x": None, "shape_of_it": [_int(d)]})
_lin_space = _of(lambda d: {"from": np.float32(0), "to": np.float32(1), "n": _int(d)})
_segments = _of(lambda d: {"x": None, "ids": np.array([0, d.pick(1, -1, 1 << 30)], np.int32), "n": _int(d, np.int32)})
_batch_to_space = _of(
  lambda d: {
    "x": None,
    "blocks": np.array([_int(d, np.int32)], np.int32),
    "crops": np.array([[0, d.pick(0, -1, 1 << 30)]], np.int32),
  }
)
_histogram = _of(lambda d: {"x": None, "limits": np.array([0, 1], np.float32), "n": _int(d, np.int32)})
_T: dict[str, Any] = {"T": _F}
_SIZED: dict[str, Row] = {
  "fill": ("Fill", _fill, {"T": _F, "index_type": _L}, _F),
  "range": ("Range", _range, {"Tidx": _L}, _L),
  "range_of_floats": ("Range", _float_range, {"Tidx": _F}, _F),
  "tile": ("Tile", _tile, {"T": _F, "Tmultiples": _L}, _F),
  "broadcast": ("BroadcastTo", _dims, {"T": _F, "Tidx": _L}, _F),
  "reshape": ("Reshape", _dims, {"T": _F, "Tshape": _L}, _F),
  "pad": ("Pad", _pad, {"T": _F, "Tpaddings": _L}, _F),
  "mirror_pad": ("MirrorPad", _pad, {"T": _F, "Tpaddings": _L, "mode": b"SYMMETRIC"}, _F),
  "bincount": ("Bincount", _bincount, {"T": _F}, _F),
  "where": ("Where", _where, {"T": _B}, _L),
  "resize_nearest": (
    "ResizeNearestNeighbor",
    _resize,
    {"T": _F, "align_corners": False, "half_pixel_centers": False},
    _F,
  ),
  "resize_bilinear": ("ResizeBilinear", _resize, {"T": _F, "align_corners": False, "half_pixel_centers": False}, _F),
  "sparse_to_dense": ("SparseToDense", _sparse_to_dense, {"T": _F, "Tindices": _L, "validate_indices": True}, _F),
  "scatter_nd": ("ScatterNd", _scatter_nd, {"T": _F, "Tindices": _L}, _F),
  "sparse_fill_empty_rows": ("SparseFillEmptyRows", _fill_empty_rows, _T, _L),
  "random_uniform": ("StatelessRandomUniform", _random, {"dtype": _F, "T": _L, "Tseed": _L}, _F),
  "random_normal": ("StatelessRandomNormal", _random, {"dtype": _F, "T": _L, "Tseed": _L}, _F),
  "ragged_range": ("RaggedRange", _ragged_range, {"T": _L, "Tsplits": _L}, _L),
  "one_hot": ("OneHot", _one_hot, {"T": _F, "TI": _I, "axis": -1}, _F),
  "lin_space": ("LinSpace", _lin_space, {"T": _F, "Tidx": _L}, _F),
  "matrix_diag": ("MatrixDiagV2", _diagonal, _T, _F),
  "unsorted_segment_sum": ("UnsortedSegmentSum", _segments, {"T": _F, "Tindices": _I, "Tnumsegments": _I}, _F),
  "tensor_list": ("TensorListStack", _list_reserve, {"element_dtype": _F, "num_elements": -1}, _F),
  "batch_to_space": ("BatchToSpaceND", _batch_to_space, {"T": _F, "Tblock_shape": _I, "Tcrops": _I}, _F),
  "convolution_gradient": (
    "Conv2DBackpropInput",
    _convolution_gradient,
    {"T": _F, "strides": [1, 1, 1, 1], "padding": b"SAME", "dilations": [1, 1, 1, 1]},
    _F,
  ),
  "ragged_to_dense": (
    "RaggedTensorToTensor",
    _ragged_to_dense,
    {"T": _F, "Tindex": _L, "Tshape": _L, "num_row_partition_tensors": 1, "row_partition_types": [b"ROW_SPLITS"]},
    _F,
  ),
  "histogram": ("HistogramFixedWidth", _histogram, {"T": _F, "dtype": _I}, _I),
  "sequence_mask": ("Less", _sequence_mask, {"T": _L}, _B),
}
family(_KIND, _SIZED, _sized)


def _calls_two_each(draw: Draw, made: schema.GraphDef, op: str) -> str:
  """Adds functions that each call the one before twice, and returns the name of the last."""
  function(made.library, "f0", {"a": _F}, {"r": ("s:y:0", _F)})
  add(made.library.function[0].node_def, "s", "Sin", "a", T=_F)
  depth = draw.pick(3, 25, 90)
  attrs: dict[str, Any] = {"Tin": [_F], "Tout": [_F]}
  for i in range(1, depth):
    body = function(made.library, f"f{i}", {"a": _F}, {"r": ("t:output:0", _F)})
    last = Func(f"f{i - 1}")
    if op in ("If", "StatelessIf", "Case"):
      const(body.node_def, "axis", np.zeros(1, np.int32))
      add(body.node_def, "sum", "Sum", "a", "axis:output:0", T=_F, Tidx=_I, keep_dims=False)
      add(body.node_def, "p", "Cast", "sum:output:0", SrcT=_F, DstT=_I if op == "Case" else _B)
      named: dict[str, Any] = (
        {"branches": [last, last]} if op == "Case" else {"then_branch": last, "else_branch": last, "Tcond": _B}
      )
      add(body.node_def, "t", op, "p:y:0", "a", **named, **attrs)
    else:
      add(body.node_def, "s", op, "a", f=last, **attrs)
      add(body.node_def, "t", op, "s:output:0", f=last, **attrs)
  return f"f{depth - 1}"


def _doubled(op: str, draw: Draw, box: Box) -> Attempt:
  made = _start()
  call(made.node, "out", _calls_two_each(draw, made, op), "x")
  return _attempt(draw, box, made)


_CALLS = {
  "calls": "PartitionedCall",
  "stateful_calls": "StatefulPartitionedCall",
  "ifs": "If",
  "stateless_ifs": "StatelessIf",
  "cases": "Case",
}
family(_KIND, {f"{name}_that_double": op for name, op in _CALLS.items()}, _doubled)


def nested_calls(draw: Draw, box: Box) -> Attempt:
  made = _start()
  depth = draw.pick(3, 90, 400, 3000)
  for i in range(depth):
    body = function(made.library, f"f{i}", {"a": _F}, {"r": ("s:output:0" if i else "s:y:0", _F)})
    if i:
      call(body.node_def, "s", f"f{i - 1}", "a", op=draw.pick("PartitionedCall") if i < 2 else "PartitionedCall")
    else:
      add(body.node_def, "s", "Sin", "a", T=_F)
  call(made.node, "out", f"f{depth - 1}", "x")
  return _attempt(draw, box, made)


def _loop(
  made: schema.GraphDef, body_op: str, inputs: list[str], attrs: Mapping[str, Any], limit: int, start: str
) -> None:
  """Adds `i, y = 0, start; while i < limit: i, y = i + 1, body(y)`."""
  types = {"i": _L, "y": _F}
  condition = function(made.library, "cond", types, {"r": ("less:z:0", _B)})
  const(condition.node_def, "limit", np.int64(limit))
  add(condition.node_def, "less", "Less", "i", "limit:output:0", T=_L)
  body = function(
    made.library, "body", types, {"j": ("next:z:0", _L), "z": (f"made:{'output' if body_op != 'AddV2' else 'z'}:0", _F)}
  )
  const(body.node_def, "one", np.int64(1))
  const(body.node_def, "axis", np.int32(0))
  add(body.node_def, "next", "AddV2", "i", "one:output:0", T=_L)
  add(body.node_def, "made", body_op, *inputs, **attrs)
  const(made.node, "zero", np.int64(0))
  shapes = [Shape(()), Shape((-1,))]
  loop(made.node, "loop", "StatelessWhile", "zero", start, T=[_L, _F], output_shapes=shapes)


def loop_that_doubles(draw: Draw, box: Box) -> Attempt:
  made = _start()
  const(made.node, "known", np.ones(2, np.float32))
  attrs = {"T": _F, "N": 2, "Tidx": _I}
  _loop(made, "ConcatV2", ["y", "y", "axis:output:0"], attrs, draw.pick(3, 25, 40, 200), draw.pick("known", "x"))
  _end(made, "loop:1")
  return _attempt(draw, box, made)


def loop_of_known_values(draw: Draw, box: Box) -> Attempt:
  """Everything in the loop is known, so all of it could be computed while tracing."""
  made = _start()
  const(made.node, "known", np.ones(2, np.float32))
  _loop(made, "AddV2", ["y", "y"], {"T": _F}, draw.pick(3, 1 << 14, 1 << 17), "known")
  _end(made, "loop:1")
  return _attempt(draw, box, made)


def nested_loops(draw: Draw, box: Box) -> Attempt:
  made = _start()
  depth, count = draw.pick((2, 3), (20, 2), (60, 2), (400, 1))
  attrs: dict[str, Any] = {"T": [_L, _F], "output_shapes": []}
  condition = function(made.library, "cond", {"i": _L, "y": _F}, {"r": ("less:z:0", _B)})
  const(condition.node_def, "limit", np.int64(count))
  add(condition.node_def, "less", "Less", "i", "limit:output:0", T=_L)
  for i in range(depth):
    body = function(made.library, f"body{i}", {"i": _L, "y": _F}, {"j": ("next:z:0", _L), "z": ("w:output:1", _F)})
    const(body.node_def, "one", np.int64(1))
    const(body.node_def, "zero", np.int64(0))
    add(body.node_def, "next", "AddV2", "i", "one:output:0", T=_L)
    if i:
      loop(body.node_def, "w", "StatelessWhile", "zero:output:0", "y", body=f"body{i - 1}", **attrs)
    else:
      add(body.node_def, "w", "Sin", "y", T=_F)
      body.ret["z"] = "w:y:0"
  const(made.node, "zero", np.int64(0))
  loop(made.node, "loop", "StatelessWhile", "zero", "x", body=f"body{depth - 1}", **attrs)
  return _attempt(draw, box, made)


def for_loops(draw: Draw, box: Box) -> Attempt:
  made = _start()
  function(made.library, "body", {"i": _I, "y": _F}, {"r": ("y", _F)})
  for name, values in (("from", [0, -5]), ("to", [3, 0, (1 << 31) - 1]), ("step", [1, 0, -1, (1 << 31) - 1])):
    const(made.node, name, np.int32(draw.pick(*values)))
  # A loop that runs is the caller's time; one of 2^31 steps may not be walked while tracing.
  if draw.chance(0.5):
    const(made.node, "never", np.int32((1 << 31) - 1))
  add(
    made.node,
    "loop",
    "For",
    "never" if made.node[-1].name == "never" else "from",
    "to",
    "step",
    "x",
    T=[_F],
    body=Func("body"),
  )
  return _attempt(draw, box, made)


def growing_sums(draw: Draw, box: Box) -> Attempt:
  """Known vectors, each twice as long as the last."""
  made = _start()
  const(made.node, "axis", np.int32(0))
  const(made.node, "v0", np.ones(4, np.float32))
  depth = draw.pick(3, 20, 40, 70)
  for i in range(1, depth):
    add(made.node, f"v{i}", "ConcatV2", f"v{i - 1}", f"v{i - 1}", "axis", T=_F, N=2, Tidx=_I)
  _end(made, f"v{depth - 1}")
  return _attempt(draw, box, made)


def many_large_values(draw: Draw, box: Box) -> Attempt:
  """Values below any limit for one of them, many times."""
  made = _start()
  const(made.node, "dims", np.array([draw.pick(4, 1 << 20, 1 << 26)], np.int64))
  const(made.node, "one", np.float32(1))
  count = draw.pick(3, 60)
  for i in range(count):
    add(made.node, f"large{i}", "Fill", "dims", "one", T=_F, index_type=_L)
    add(made.node, f"sum{i}", draw.pick("Neg", "Abs") if i < 2 else "Neg", f"large{i}", T=_F)
  add(made.node, "all", "AddN", *(f"sum{i}" for i in range(count)), N=count, T=_F)
  _end(made, "all")
  return _attempt(draw, box, made)


def strings_that_double(draw: Draw, box: Box) -> Attempt:
  made = _start()
  const(made.node, "s0", np.array("ab", object))
  depth = draw.pick(3, 28, 45)
  for i in range(1, depth):
    add(made.node, f"s{i}", "StringJoin", f"s{i - 1}", f"s{i - 1}", N=2)
  add(made.node, "length", "StringLength", f"s{depth - 1}")
  add(made.node, "number", "Cast", "length", SrcT=_I, DstT=_F)
  add(made.node, "out", "Mul", "x", "number", T=_F)
  return _attempt(draw, box, made)


def einsum_equations(draw: Draw, box: Box) -> Attempt:
  made = _start()
  texts = [
    "i,i->i",
    "i,j->ij",
    "i" * 60 + ",i->i",
    "...,...->...",
    "->",
    "i,i->k",
    ",".join("abcdefgh") + "->abcdefgh",
    "i,i->" + "i" * 100,
    "\xff",
    "i,,i",
  ]
  equation = draw.pick(*texts)
  count = draw.pick(2, 2, 1, 8, 26)
  add(made.node, "out", "Einsum", *(["x"] * count), N=count, T=_F, equation=equation.encode(errors="replace"))
  return _attempt(draw, box, made)


def axes_and_ranks(draw: Draw, box: Box) -> Attempt:
  made = _start()
  axes = draw.pick([0], [5], [-5], [0, 0], list(range(300)), [(1 << 31) - 1], [])
  const(made.node, "axes", np.array(axes, np.int32))
  op = draw.pick("Sum", "Max", "Transpose", "ReverseV2", "ExpandDims", "All")
  add(made.node, "out", op, "x", "axes", T=_F, Tidx=_I, Tperm=_I, Tdim=_I, keep_dims=False)
  return _attempt(draw, box, made)


def attributes_of_windows(draw: Draw, box: Box) -> Attempt:
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((1, 4, 4, 1)))
  numbers = [[draw.pick(1, 1, 2), draw.size(2), draw.size(2), 1][: draw.pick(4, 4, 3, 0)] for _ in range(2)]
  op = draw.pick("MaxPool", "AvgPool", "ExtractImagePatches")
  names = ("ksizes", "strides") if op == "ExtractImagePatches" else ("ksize", "strides")
  add(
    made.node,
    "out",
    op,
    "x",
    T=_F,
    padding=draw.pick(b"SAME", b"VALID", b"EXPLICIT", b"\xff"),
    rates=[1, draw.size(1), 1, 1],
    **dict(zip(names, numbers, strict=True)),
  )
  return _attempt(draw, box, made)


def attributes_of_blocks(draw: Draw, box: Box) -> Attempt:
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((1, 4, 4, 4)))
  op = draw.pick("SpaceToDepth", "DepthToSpace", "SpaceToBatch")
  add(
    made.node,
    "out",
    op,
    "x",
    T=_F,
    block_size=draw.size(2),
    data_format=draw.pick(b"NHWC", b"NCHW", b"NCHW_VECT_C", b"x"),
  )
  return _attempt(draw, box, made)


def splits(draw: Draw, box: Box) -> Attempt:
  made = _start()
  const(made.node, "axis", np.int32(draw.pick(0, 1, -1, 99)))
  count = draw.pick(2, 1, 0, -1, 1 << 20, 1 << 40)
  add(made.node, "split", draw.pick("Split", "Unpack"), "axis", "x", T=_F, num_split=count, num=count)
  add(made.node, "out", "Identity", "split:1", T=_F)
  return _attempt(draw, box, made)


def slices(draw: Draw, box: Box) -> Attempt:
  made = _start()
  names = ("begin", "end", "strides")
  for name in names:
    values = [draw.pick(0, 1, -1, 2, 1 << 40, -(1 << 62)) for _ in range(draw.pick(1, 1, 2, 33))]
    const(made.node, name, np.array(values))
  masks = {
    f"{name}_mask": draw.pick(0, 1, -1, 1 << 40) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
  }
  add(made.node, "out", "StridedSlice", "x", *names, T=_F, Index=_L, **masks)
  return _attempt(draw, box, made)
