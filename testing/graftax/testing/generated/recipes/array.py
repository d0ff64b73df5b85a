"""Recipes of ops that rearrange, slice, gather and scatter arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes, recipes_of_shapes


@recipe("Reshape")
def reshape(d: Draw) -> Sequence[Any]:
  """A permutation of the sizes, with -1 for one of them."""
  shape = list(d.shape())
  new = [shape[i] for i in d.permutation(len(shape))] + [1] * d.integer(0, 1)
  if new and 0 not in new and d.chance(0.4):
    new[d.integer(0, len(new) - 1)] = -1
  return [d.array(shape), np.array(new, d.attrs["Tshape"])]


@recipe("Squeeze")
def squeeze(d: Draw) -> Sequence[Any]:
  """All or some of the dimensions of size 1."""
  shape = [1 if d.chance(0.5) else d.size() for _ in range(d.integer(0, 5))]
  ones = [i for i, n in enumerate(shape) if n == 1]
  # `tf.raw_ops` has another name for this attribute.
  del d.attrs["squeeze_dims"]
  d.attrs["axis"] = [] if d.chance(0.4) else [i - len(shape) if d.chance(0.3) else i for i in ones[:2]]
  return [d.array(shape)]


@recipe("Concat", "ConcatV2")
def concat(d: Draw) -> Sequence[Any]:
  """Arrays that differ in the size of one dimension."""
  shape = list(d.shape(1, 4))
  axis = d.integer(0, len(shape) - 1)
  values = [d.array([*shape[:axis], d.size(), *shape[axis + 1 :]]) for _ in range(d.integer(2, 4))]
  if d.op == "Concat":
    return [np.array(axis, np.int32), values]
  return [values, np.array(axis - len(shape) * d.chance(0.4), d.attrs["Tidx"])]


@recipe("Pack")
def pack(d: Draw) -> Sequence[Any]:
  shape = d.shape(0, 3)
  d.attrs["axis"] = d.axis(len(shape) + 1)
  return [[d.array(shape) for _ in range(d.integer(1, 4))]]


@recipe("Unpack")
def unpack(d: Draw) -> Sequence[Any]:
  shape = d.shape(1, 4)
  d.attrs["axis"] = d.axis(len(shape))
  d.attrs["num"] = shape[d.attrs["axis"]]
  return [d.array(shape)]


@recipe("Split")
def split(d: Draw) -> Sequence[Any]:
  shape = list(d.shape(1, 4))
  axis = d.axis(len(shape))
  d.attrs["num_split"] = d.integer(1, 3)
  shape[axis] = d.attrs["num_split"] * d.size(0, 3)
  return [np.array(axis, np.int32), d.array(shape)]


@recipe("SplitV")
def split_v(d: Draw) -> Sequence[Any]:
  """Parts of given sizes, one of which may be inferred."""
  shape = list(d.shape(1, 4))
  axis = d.axis(len(shape))
  sizes = [d.size(0, 3) for _ in range(d.integer(1, 4))]
  shape[axis] = sum(sizes)
  d.attrs["num_split"] = len(sizes)
  if d.chance(0.4):
    sizes[d.integer(0, len(sizes) - 1)] = -1
  return [d.array(shape), np.array(sizes, d.attrs["Tlen"]), np.array(axis, np.int32)]


@recipe("Slice")
def slice_(d: Draw) -> Sequence[Any]:
  """A box; -1 for the rest of a dimension."""
  shape = d.shape()
  begin = [d.integer(0, n) for n in shape]
  size = [-1 if d.chance(0.3) else d.integer(0, n - b) for n, b in zip(shape, begin, strict=True)]
  return [d.array(shape), np.array(begin, d.attrs["Index"]), np.array(size, d.attrs["Index"])]


@recipe("StridedSlice", "StridedSliceGrad", "TensorStridedSliceUpdate")
def strided_slice(d: Draw) -> Sequence[Any]:
  """Begins, ends and strides of any sign and range, with all masks."""
  shape = d.shape(1, 4)
  rank = d.integer(1, len(shape))
  begin = [d.integer(-n - 1, n + 1) for n in shape[:rank]]
  end = [d.integer(-n - 1, n + 1) for n in shape[:rank]]
  strides = [d.pick([1, 1, 2, -1, -2]) for _ in range(rank)]
  for mask in ("begin_mask", "end_mask"):
    d.attrs[mask] = d.integer(0, 2**rank - 1) if d.chance(0.5) else 0
  d.attrs["ellipsis_mask"] = 1 << d.integer(0, rank - 1) if d.chance(0.3) else 0
  d.attrs["new_axis_mask"] = d.integer(0, 2**rank - 1) if d.chance(0.3) else 0
  d.attrs["shrink_axis_mask"] = 0
  for i in range(rank):
    if d.chance(0.2) and shape[i]:
      d.attrs["shrink_axis_mask"] |= 1 << i
      strides[i], begin[i] = 1, d.integer(-shape[i], shape[i] - 1)
  box = [np.array(x, d.attrs["Index"]) for x in (begin, end, strides)]
  if d.op == "StridedSlice":
    return [d.array(shape), *box]
  result = _sliced_shape(d, shape, box)
  if d.op == "StridedSliceGrad":
    return [np.array(shape, d.attrs["Index"]), *box, d.array(result)]
  return [d.array(shape), *box, d.array(result)]


def _sliced_shape(d: Draw, shape: Sequence[int], box: Sequence[np.ndarray]) -> tuple[int, ...]:
  """Returns the shape of a strided slice, computed by NumPy."""
  index: list[Any] = []
  for i, (begin, end, stride) in enumerate(zip(*(x.tolist() for x in box), strict=True)):
    if d.attrs["ellipsis_mask"] >> i & 1:
      index.append(Ellipsis)
    elif d.attrs["new_axis_mask"] >> i & 1:
      index.append(None)
    elif d.attrs["shrink_axis_mask"] >> i & 1:
      index.append(begin)
    else:
      first = None if d.attrs["begin_mask"] >> i & 1 else begin
      index.append(slice(first, None if d.attrs["end_mask"] >> i & 1 else end, stride))
  try:
    return np.empty(shape)[tuple(index)].shape
  except IndexError:
    return tuple(shape)


@recipe("Pad", "PadV2")
def pad(d: Draw) -> Sequence[Any]:
  shape = d.shape()
  paddings = np.array([[d.integer(0, 2), d.integer(0, 2)] for _ in shape], d.attrs["Tpaddings"]).reshape(-1, 2)
  fill = [d.array(())] if d.op == "PadV2" else []
  return [d.array(shape), paddings, *fill]


@recipe("MirrorPad", "MirrorPadGrad")
def mirror_pad(d: Draw) -> Sequence[Any]:
  """Amounts up to the size of the dimension."""
  shape = [d.size(1, 4) for _ in range(d.integer(0, 4))]
  most = [n - (d.attrs["mode"] == "REFLECT") for n in shape]
  paddings = [[d.integer(0, n), d.integer(0, n)] for n in most]
  if d.op == "MirrorPadGrad":
    shape = [n + sum(p) for n, p in zip(shape, paddings, strict=True)]
  return [d.array(shape), np.array(paddings, d.attrs["Tpaddings"]).reshape(-1, 2)]


@recipe("Range")
def range_(d: Draw) -> Sequence[Any]:
  """Steps of both signs, fractions for floats."""
  dtype = d.attrs["Tidx"]
  scale = 1 if dtype.kind in "iu" else 0.5
  start, step, count = d.integer(-4, 4), d.pick([-2, -1, 1, 3]), d.integer(0, 6)
  limit = start + step * count + (0 if dtype.kind in "iu" else d.pick([0, 0.25]))
  return [np.array(x * scale).astype(dtype) for x in (start, limit, step)]


@recipe("OneHot")
def one_hot(d: Draw) -> Sequence[Any]:
  """Indices in and out of range."""
  shape, depth = d.shape(0, 3), d.size(0, 4)
  d.attrs["axis"] = d.integer(-1, len(shape))
  info = np.iinfo(d.attrs["TI"])
  indices = d.between(shape, d.attrs["TI"], max(info.min, -2), depth + 1)
  return [indices, np.array(depth, np.int32), d.array(()), d.array(())]


@recipe("GatherV2")
def gather_v2(d: Draw) -> Sequence[Any]:
  """Any axis and number of batch dimensions."""
  shape, indices = list(d.shape(1, 4)), d.shape(0, 3)
  batch = d.integer(0, min(len(shape) - 1, len(indices)))
  axis = d.integer(batch, len(shape) - 1)
  shape[axis] = max(shape[axis], 1)
  indices = (*shape[:batch], *indices[batch:])
  d.attrs["batch_dims"] = batch - (len(indices) if batch and d.chance(0.3) else 0)
  return [
    d.array(shape, d.attrs["Tparams"]),
    d.indices(indices, d.attrs["Tindices"], shape[axis]),
    np.array(axis - len(shape) * d.chance(0.3), d.attrs["Taxis"]),
  ]


def _positions(d: Draw, shape: Sequence[int], batch: Sequence[int], depth: int, dtype: Any) -> np.ndarray:
  """Returns indices of the first `depth` dimensions of an array."""
  columns = [d.indices(batch, dtype, n) for n in shape[:depth]]
  return np.stack(columns, -1) if columns else np.zeros((*batch, 0), dtype)


@recipe("GatherNd")
def gather_nd(d: Draw) -> Sequence[Any]:
  shape = tuple(d.size(1, 4) for _ in range(d.integer(1, 4)))
  depth = d.integer(0, len(shape))
  return [d.array(shape, d.attrs["Tparams"]), _positions(d, shape, d.shape(0, 3), depth, d.attrs["Tindices"])]


@recipe(
  "ScatterNd ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub "
  "TensorScatterUpdate"
)
def scatter_nd(d: Draw) -> Sequence[Any]:
  """Positions with repetitions, except for the op whose result then depends on the order."""
  shape = tuple(d.size(1, 4) for _ in range(d.integer(1, 4)))
  depth = d.integer(1, len(shape))
  batch = d.shape(1, 2, 3)
  if d.op == "TensorScatterUpdate":
    batch = (1,)
  indices = _positions(d, shape, batch, depth, d.attrs["Tindices"])
  make = d.array if d.op in ("TensorScatterUpdate", "TensorScatterMax", "TensorScatterMin") else d.tame
  updates = make((*batch, *shape[depth:]))
  if d.op == "ScatterNd":
    return [indices, updates, np.array(shape, d.attrs["Tindices"])]
  return [make(shape), indices, updates]


@recipe("ReverseSequence")
def reverse_sequence(d: Draw) -> Sequence[Any]:
  shape = d.shape(2, 4)
  d.attrs["seq_dim"], d.attrs["batch_dim"] = d.permutation(len(shape))[:2]
  lengths = d.between((shape[d.attrs["batch_dim"]],), d.attrs["Tlen"], 0, shape[d.attrs["seq_dim"]])
  return [d.array(shape), lengths]


@recipe("Roll")
def roll(d: Draw) -> Sequence[Any]:
  """Shifts beyond the size, and axes given twice."""
  shape = d.shape(1, 4)
  count = d.pick([None, 1, 2, 3])
  axes = [d.axis(len(shape)) for _ in range(count or 1)]
  shifts = d.between(() if count is None else (count,), d.attrs["Tshift"], -7, 7)
  axis = np.array(axes[0] if count is None else axes, d.attrs["Taxis"])
  return [d.array(shape), shifts, axis]


@recipe("DynamicPartition")
def dynamic_partition(d: Draw) -> Sequence[Any]:
  d.attrs["num_partitions"] = d.integer(1, 4)
  shape = d.shape(1, 3)
  depth = d.integer(0, len(shape))
  parts = np.array([d.integer(0, d.attrs["num_partitions"] - 1) for _ in range(int(np.prod(shape[:depth])))], np.int32)
  return [d.array(shape), parts.reshape(shape[:depth])]


@recipe("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(d: Draw) -> Sequence[Any]:
  """A permutation cut into lists."""
  sizes = [d.size(0, 3) for _ in range(d.integer(1, 3))]
  order, rest = np.array(d.permutation(sum(sizes)), np.int32), d.shape(0, 2)
  indices = np.split(order, np.cumsum(sizes)[:-1])
  return [indices, [d.array((n, *rest)) for n in sizes]]


@recipe("UniqueV2", "UniqueWithCountsV2")
def unique_v2(d: Draw) -> Sequence[Any]:
  """Rows along an axis, or elements."""
  shape = d.shape(1, 3)
  axis = [d.integer(0, len(shape) - 1)] if len(shape) > 1 or d.chance(0.5) else []
  return [d.array(shape), np.array(axis, d.attrs["Taxis"])]


@recipe("UnravelIndex")
def unravel_index(d: Draw) -> Sequence[Any]:
  shape = [d.size(1, 4) for _ in range(d.integer(1, 4))]
  indices = d.indices(d.shape(0, 1, 5), d.attrs["Tidx"], int(np.prod(shape)))
  return [indices, np.array(shape, d.attrs["Tidx"])]


@recipe("TopKV2", "ApproxTopK")
def top_k(d: Draw) -> Sequence[Any]:
  """From none to all elements, sorted, since the order is otherwise unspecified."""
  shape = (*d.shape(0, 3), d.size(0, 6))
  k = d.integer(0, shape[-1])
  if d.op == "TopKV2":
    d.attrs["sorted"] = True
    return [d.array(shape), np.array(k, d.attrs["Tk"])]
  # TensorFlow's CPU kernel has no other values of these two.
  d.attrs.update(k=k, is_max_k=True, aggregate_to_topk=True)
  return [d.array(shape)]


@recipe("InTopK", "InTopKV2")
def in_top_k(d: Draw) -> Sequence[Any]:
  """Targets in and out of range."""
  batch, classes, k = d.size(), d.size(1, 5), d.integer(0, 5)
  inputs = [d.array((batch, classes), np.float32), d.between((batch,), d.attrs["T"], -1, classes)]
  if d.op == "InTopK":
    d.attrs["k"] = k
    return inputs
  return [*inputs, np.array(k, d.attrs["T"])]


@recipe("InplaceAdd", "InplaceSub", "InplaceUpdate")
def inplace(d: Draw) -> Sequence[Any]:
  """Distinct rows."""
  rows, rest = d.size(1, 5), d.shape(0, 2)
  chosen = np.array(d.subset(rows), np.int32)
  return [d.array((rows, *rest)), chosen, d.array((len(chosen), *rest))]


@recipe("ConcatOffset")
def concat_offset(d: Draw) -> Sequence[Any]:
  """Shapes that differ in one dimension."""
  shape = list(d.shape(1, 4))
  axis = d.integer(0, len(shape) - 1)
  shapes = [np.array([*shape[:axis], d.size(), *shape[axis + 1 :]], d.attrs["shape_type"]) for _ in range(3)]
  return [np.array(axis, np.int32), shapes]


@recipe("SpaceToDepth", "DepthToSpace")
def space_to_depth(d: Draw) -> Sequence[Any]:
  block = d.attrs["block_size"] = d.integer(2, 3)
  d.attrs["data_format"] = "NHWC"
  height, width, depth = d.size(0, 2), d.size(1, 2), d.size(1, 2)
  if d.op == "SpaceToDepth":
    return [d.array((d.size(), height * block, width * block, depth))]
  return [d.array((d.size(), height, width, depth * block * block))]


@recipe("SpaceToBatchND", "BatchToSpaceND", "SpaceToBatch", "BatchToSpace")
def space_to_batch(d: Draw) -> Sequence[Any]:
  """Blocks with paddings or crops that fit."""
  legacy = not d.op.endswith("ND")
  block = [d.integer(2, 3)] * 2 if legacy else [d.integer(1, 3) for _ in range(d.integer(1, 2))]
  inner = [d.integer(1, 2) for _ in block]
  margins = [[d.integer(0, 1), d.integer(0, 1)] for _ in block]
  if d.op.startswith("Space"):
    batch, spatial = d.size(), [max(n * b - sum(m), 0) for n, b, m in zip(inner, block, margins, strict=True)]
    margins = [[m[0], n * b - s - m[0]] for n, b, m, s in zip(inner, block, margins, spatial, strict=True)]
  else:
    batch, spatial = d.size(0, 2) * int(np.prod(block)), [n + 1 for n in inner]
  rest = d.shape(1, 1) if legacy else d.shape(0, 2)
  name = next(name for name in d.signature.attrs if name in ("Tpaddings", "Tcrops", "Tidx"))
  edges = np.array(margins, d.attrs[name]).reshape(-1, 2)
  x = d.array((batch, *spatial, *rest))
  if legacy:
    d.attrs["block_size"] = block[0]
    return [x, edges]
  return [x, np.array(block, d.attrs["Tblock_shape"]), edges]


recipes_of_shapes(
  {
    "Transpose ConjugateTranspose": lambda d, s: [d.array(s), np.array(d.permutation(len(s)), d.attrs["Tperm"])],
    "ExpandDims": lambda d, s: [d.array(s), np.array(d.axis(len(s) + 1), d.attrs["Tdim"])],
    "Tile": lambda d, s: [d.array(s), np.array([d.size(0, 3) for _ in s], d.attrs["Tmultiples"])],
    "BroadcastTo": lambda d, s: [d.array(d.broadcastable(s)), np.array(s, d.attrs["Tidx"])],
    "BroadcastArgs BroadcastGradientArgs": lambda d, s: [np.array(x, d.attrs["T"]) for x in (s, d.broadcastable(s))],
    "Fill": lambda d, s: [np.array(s, d.attrs["index_type"]), d.array(())],
    "Reverse": lambda d, s: [d.array(s), np.array([d.chance(0.5) for _ in s], bool)],
    "ReverseV2": lambda d, s: [d.array(s), np.array(d.axes(len(s)), d.attrs["Tidx"])],
    "Where": lambda d, s: [d.array(s)],
  }
)
recipes(
  {
    "InvertPermutation": lambda d: [np.array(d.permutation(d.size(0, 6)), d.attrs["T"])],
    "ShapeN": lambda d: [[d.array(d.shape()) for _ in range(d.integer(1, 3))]],
    "Unique UniqueWithCounts ListDiff": lambda d: [d.array((d.size(0, 6),)) for _ in d.signature.inputs],
    "NthElement": lambda d: [
      d.array(shape := (*d.shape(0, 3), d.size(1, 6))),
      np.array(d.integer(0, shape[-1] - 1), np.int32),
    ],
    "Gather": lambda d: [
      d.array(shape := (d.size(1, 4), *d.shape(0, 3)), d.attrs["Tparams"]),
      d.indices(d.shape(0, 3), d.attrs["Tindices"], shape[0]),
    ],
    "LowerBound UpperBound": lambda d: [
      np.sort(d.tame((rows := d.size(1, 3), d.size(0, 5))), -1),
      d.tame((rows, d.size(0, 4))),
    ],
  }
)
