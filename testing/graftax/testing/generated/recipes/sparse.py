"""Recipes of sparse and ragged ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes

_Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]


def _sparse(d: Draw, shape: Sequence[int], index: Any = np.int64, dtype: Any = None) -> _Sparse:
  """Returns sorted indices, values and the shape of a sparse tensor without repeated indices."""
  total = int(np.prod(shape))
  kept = sorted(d.subset(total))
  indices = np.stack(np.unravel_index(np.array(kept, np.int64), shape), -1) if kept else np.zeros((0, len(shape)))
  return indices.astype(index), d.tame((len(kept),), dtype), np.array(shape, index)


def _some_shape(d: Draw, low: int = 1, high: int = 3) -> tuple[int, ...]:
  return tuple(d.size(1, 3) for _ in range(d.integer(low, high)))


@recipe("SparseAdd")
def sparse_add(d: Draw) -> Sequence[Any]:
  """Two tensors of one shape and a threshold.

  TensorFlow's kernel for complex numbers misreads a threshold of another type than theirs.
  """
  shape = _some_shape(d)
  return [
    *_sparse(d, shape),
    *_sparse(d, shape),
    np.array(d.integer(0, 2), np.zeros((), d.attrs["T"]).real.dtype),
  ]


@recipe("SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul")
def sparse_dense(d: Draw) -> Sequence[Any]:
  """A dense operand that broadcasts."""
  shape = _some_shape(d)
  dense = d.broadcastable(shape)
  other = d.between(dense, d.attrs["T"], 1, 3) if d.op.endswith("Div") and d.attrs["T"].kind != "c" else d.tame(dense)
  return [*_sparse(d, shape), other]


@recipe("SparseReduceMax", "SparseReduceMaxSparse", "SparseReduceSum", "SparseReduceSumSparse")
def sparse_reduce(d: Draw) -> Sequence[Any]:
  shape = _some_shape(d)
  axes = d.axes(len(shape))
  return [*_sparse(d, shape), np.array(axes, np.int32)]


@recipe("SparseReorder", "SparseSoftmax")
def sparse_unary(d: Draw) -> Sequence[Any]:
  """One tensor, in another order for the op that sorts."""
  shape = _some_shape(d, 2, 3)
  indices, values, dense = _sparse(d, shape)
  if d.op == "SparseReorder":
    indices = indices[d.permutation(len(indices))]
  return [indices, values, dense]


@recipe("SparseReshape")
def sparse_reshape(d: Draw) -> Sequence[Any]:
  """A permutation of the sizes, with -1 for one of them."""
  shape = _some_shape(d)
  indices, _, dense = _sparse(d, shape, dtype=np.float32)
  new = [shape[i] for i in d.permutation(len(shape))]
  if d.chance(0.4):
    new[0] = -1
  return [indices, dense, np.array(new, np.int64)]


@recipe("SparseSlice")
def sparse_slice(d: Draw) -> Sequence[Any]:
  """A box, also beyond the end."""
  shape = _some_shape(d)
  indices, values, dense = _sparse(d, shape)
  start = [d.integer(0, n - 1) for n in shape]
  return [indices, values, dense, np.array(start, np.int64), np.array([d.integer(1, 3) for _ in shape], np.int64)]


@recipe("SparseSplit")
def sparse_split(d: Draw) -> Sequence[Any]:
  shape = _some_shape(d)
  axis = d.integer(0, len(shape) - 1)
  d.attrs["num_split"] = d.integer(1, shape[axis])
  return [np.array(axis, np.int64), *_sparse(d, shape)]


@recipe("SparseConcat")
def sparse_concat(d: Draw) -> Sequence[Any]:
  """Tensors that differ in one dimension."""
  shape = list(_some_shape(d))
  axis = d.integer(0, len(shape) - 1)
  d.attrs["concat_dim"] = axis - len(shape) * d.chance(0.3)
  parts = [_sparse(d, [*shape[:axis], d.size(1, 3), *shape[axis + 1 :]]) for _ in range(d.integer(2, 3))]
  return [list(column) for column in zip(*parts, strict=True)]


@recipe("SparseTensorDenseMatMul")
def sparse_matmul(d: Draw) -> Sequence[Any]:
  """Either operand transposed."""
  a, b = [d.size(1, 4), k := d.size(1, 4)], [k, d.size(1, 4)]
  a, b = a[::-1] if d.attrs["adjoint_a"] else a, b[::-1] if d.attrs["adjoint_b"] else b
  indices, values, shape = _sparse(d, a)
  return [indices.astype(d.attrs["Tindices"]), values, shape, d.tame(b)]


@recipe("SparseToDense")
def sparse_to_dense(d: Draw) -> Sequence[Any]:
  """Values or one value for all."""
  indices, values, shape = _sparse(d, _some_shape(d), d.attrs["Tindices"])
  return [indices, shape, values if d.chance(0.7) else d.tame(()), d.tame(())]


@recipe("RaggedRange")
def ragged_range(d: Draw) -> Sequence[Any]:
  count, dtype = d.size(0, 4), d.attrs["T"]
  starts, limits = (np.array([d.integer(-5, 5) for _ in range(count)], dtype) for _ in range(2))
  return [starts, limits, np.array(d.pick([-2, -1, 1, 2]), dtype)]


def _splits(d: Draw, rows: int, dtype: Any) -> np.ndarray:
  return np.cumsum([0] + [d.size(0, 3) for _ in range(rows)]).astype(dtype)


@recipe("RaggedTensorToSparse")
def ragged_to_sparse(d: Draw) -> Sequence[Any]:
  """One or two ragged dimensions."""
  splits = [_splits(d, d.size(1, 3), d.attrs["Tsplits"])]
  if d.chance(0.5):
    splits.append(_splits(d, int(splits[0][-1]), d.attrs["Tsplits"]))
  return [splits, d.array((int(splits[-1][-1]), *d.shape(0, 1)))]


@recipe("RaggedTensorToTensor")
def ragged_to_tensor(d: Draw) -> Sequence[Any]:
  """Shapes that pad and cut."""
  splits = _splits(d, d.size(1, 3), d.attrs["Tindex"])
  d.attrs["row_partition_types"] = ["ROW_SPLITS"]
  shape = [d.pick([-1, len(splits) - 1, len(splits) + 1]), d.pick([-1, 1, 4])]
  return [
    np.array(shape, d.attrs["Tshape"]),
    d.array((int(splits[-1]),)),
    d.array(()),
    [splits],
  ]


@recipe("RaggedGather")
def ragged_gather(d: Draw) -> Sequence[Any]:
  splits = _splits(d, d.size(1, 3), d.attrs["Tsplits"])
  d.attrs["OUTPUT_RAGGED_RANK"] = 1
  indices = np.array([d.integer(0, len(splits) - 2) for _ in range(d.size(0, 4))], d.attrs["Tindices"])
  return [[splits], d.array((int(splits[-1]), *d.shape(0, 1)), d.attrs["Tvalues"]), indices]


recipes(
  {
    "SparseSparseMaximum SparseSparseMinimum": lambda d: [*_sparse(d, shape := _some_shape(d)), *_sparse(d, shape)],
    "SparseFillEmptyRows": lambda d: [*_sparse(d, (d.size(1, 4), d.size(1, 3))), d.tame(())],
    "SparseTensorDenseAdd": lambda d: [*_sparse(d, shape := _some_shape(d), d.attrs["Tindices"]), d.tame(shape)],
  }
)
