"""Shapes: reshape, broadcast, transpose, pad, concatenate, iota."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules import _common
from graftax.convert.jax2tf.tf_ops.rules._common import broadcast, cast, static_slice
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Shape, Tensor

_RANGE_DTYPES = (np.float32, np.float64, np.int32, np.int64)


@rule("reshape", ignores=("new_sizes",))
def reshape(b: Builder, x: Tensor, *, dimensions: Any, out: Any) -> Tensor:
  """Returns the elements in another shape."""
  if dimensions is not None:
    x = _common.transpose(b, x, dimensions)
  return _common.reshape(b, x, out.shape)


@rule("squeeze", ignores=("dimensions",))
def squeeze(b: Builder, x: Tensor, *, out: Any) -> Tensor:
  """Returns the tensor without axes of size 1."""
  return _common.reshape(b, x, out.shape)


@rule("expand_dims", ignores=("dimensions",))
def expand_dims(b: Builder, x: Tensor, *, out: Any) -> Tensor:
  """Returns the tensor with new axes of size 1."""
  return _common.reshape(b, x, out.shape)


@rule("broadcast_in_dim", ignores=("shape",))
def broadcast_in_dim(b: Builder, x: Tensor, *sizes: Tensor, broadcast_dimensions: Sequence[int], out: Any) -> Tensor:
  """Returns the tensor repeated along new axes, and along axes of size 1."""
  del sizes  # `out` has the shape, too.
  axes = [*broadcast_dimensions, *([len(out.shape) - 1] if len(broadcast_dimensions) < x.rank else [])]
  by_axis = dict(zip(axes, x.shape, strict=True))
  return broadcast(b, _common.reshape(b, x, tuple(by_axis.get(axis, 1) for axis in range(len(out.shape)))), out.shape)


@rule("transpose")
def transpose(b: Builder, x: Tensor, *, permutation: Sequence[int]) -> Tensor:
  """Returns the tensor with its axes in another order."""
  return _common.transpose(b, x, [*permutation, *range(len(permutation), x.rank)])


@rule("rev")
def rev(b: Builder, x: Tensor, *, dimensions: Sequence[int]) -> Tensor:
  """Returns the tensor with the order along some axes reversed."""
  return b.op("ReverseV2", x, np.array(dimensions, np.int32).reshape(-1), shape=x.shape)


@rule("concatenate")
def concatenate(b: Builder, *parts: Tensor, dimension: int, out: Any) -> Tensor:
  """Returns tensors one after the other along an axis."""
  return parts[0] if len(parts) == 1 else b.op("ConcatV2", list(parts), np.int32(dimension), shape=out.shape)


@rule("stack")
def stack(b: Builder, *parts: Tensor, axis: int, out: Any) -> Tensor:
  """Returns tensors side by side along a new axis."""
  return b.op("Pack", list(parts), shape=out.shape, axis=int(axis))


@rule("unstack")
def unstack(b: Builder, x: Tensor, *, axis: int, outs: Sequence[Any]) -> list[Tensor]:
  """Returns the tensors side by side along an axis."""
  return b.op_list("Unpack", x, shapes=[out.shape for out in outs], num=len(outs), axis=int(axis))


@rule("empty", "empty2", ignores=("dtype", "memory_space", "shape"))
def empty(b: Builder, *, out: Any) -> Tensor:
  """Returns zeros: the values do not matter."""
  return broadcast(b, b.constant(np.zeros((1,) * len(out.shape), out.dtype)), out.shape)


@rule("split")
def split(b: Builder, x: Tensor, *, sizes: Sequence[Dim], axis: int, outs: Sequence[Any]) -> list[Tensor]:
  """Returns the parts of a tensor along an axis."""
  return b.op_list(
    "SplitV", x, b.shape(tuple(sizes)), np.int32(axis), shapes=[out.shape for out in outs], num_split=len(outs)
  )


@rule("tile")
def tile(b: Builder, x: Tensor, *, reps: Sequence[Dim], out: Any) -> Tensor:
  """Returns the tensor repeated along each axis."""
  return b.op("Tile", x, b.shape(tuple(reps)), shape=out.shape)


@rule("pad")
def pad(b: Builder, x: Tensor, value: Tensor, *, padding_config: Sequence[tuple[int, int, int]], out: Any) -> Tensor:
  """Returns the tensor with elements added around it and between its elements; negative numbers remove elements."""
  x = dilate(b, x, [int(interior) for _, _, interior in padding_config], value)
  return _common.pad(b, x, [(low, high) for low, high, _ in padding_config], value)


def dilate(b: Builder, x: Tensor, interior: Sequence[int], value: Any) -> Tensor:
  """Returns the tensor with elements added between its elements, `interior` of them along each axis."""
  for axis, number in enumerate(interior):
    size = x.shape[axis]
    if number == 0 or (isinstance(size, int) and size <= 1):
      continue
    apart = _common.reshape(b, x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    padded = _common.pad(b, apart, [(0, number if i == axis + 1 else 0) for i in range(apart.rank)], value)
    joined = _common.reshape(b, padded, (*x.shape[:axis], size * (number + 1), *x.shape[axis + 1 :]))
    ends = [length - number if i == axis else length for i, length in enumerate(joined.shape)]
    x = static_slice(b, joined, [0] * x.rank, ends)
  return x


@rule("iota", ignores=("shape",))
def iota(b: Builder, *sizes: Tensor, dimension: int, dtype: Any, out: Any) -> Tensor:
  """Returns the position along an axis, as every element's value."""
  del sizes
  return positions(b, out.shape, dimension, np.dtype(dtype))


def positions(b: Builder, shape: Shape, axis: int, dtype: "np.dtype[Any]") -> Tensor:
  """Returns a tensor whose elements are their positions along an axis."""
  size = shape[axis]
  of_range = dtype if dtype in _RANGE_DTYPES else np.dtype(np.int32)
  if isinstance(size, int):
    numbers = b.constant(np.arange(size).astype(of_range))
  else:
    end = cast(b, b.size(size), of_range)
    numbers = b.op("Range", np.zeros((), of_range), end, np.ones((), of_range), shape=(size,))
  narrow = _common.reshape(b, cast(b, numbers, dtype), tuple(size if i == axis else 1 for i in range(len(shape))))
  return broadcast(b, narrow, shape)


@rule("dim_as_value", ignores=("shape",), folds=False)
def dim_as_value(b: Builder, *, dim: Dim, out: Any) -> Tensor:
  """Returns the size of a symbolic dimension."""
  return cast(b, b.size(dim), out.dtype)
