"""Slices with known and unknown positions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules._common import cast, reshape, static_slice
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Shape, Tensor

__all__ = ["clamped_start", "update_slice"]


@rule("slice")
def slice_(b: Builder, x: Tensor, *, start_indices: Any, limit_indices: Any, strides: Any) -> Tensor:
  """Returns a slice with known bounds."""
  rest = x.shape[len(start_indices) :]
  strides = [1] * len(start_indices) if strides is None else strides
  starts, limits = [*start_indices, *(0 for _ in rest)], [*limit_indices, *rest]
  return static_slice(b, x, starts, limits, [*strides, *(1 for _ in rest)])


@rule("dynamic_slice", ignores=("slice_sizes",))
def dynamic_slice(b: Builder, x: Tensor, *starts: Tensor, out: Any) -> Tensor:
  """Returns a slice of known size; its position is moved so that it lies in the tensor."""
  begin = [
    clamped_start(b, start, size, length) for start, size, length in zip(starts, x.shape, out.shape, strict=False)
  ]
  begin += [b.constant(0, np.int32)] * (x.rank - len(starts))
  return b.op("Slice", x, _pack(b, begin), b.shape(out.shape), shape=out.shape)


def clamped_start(b: Builder, start: Tensor, size: Dim, length: Dim) -> Tensor:
  """Returns the int32 position at which a slice of `length` begins, moved into an axis of `size`."""
  if start.dtype.kind == "u" and start.dtype.itemsize >= 4:
    start = b.op("Minimum", start, np.asarray(np.iinfo(np.int32).max, start.dtype), shape=())
  elif start.dtype == np.int64:
    bounds = np.asarray(np.iinfo(np.int32).min, np.int64), np.asarray(np.iinfo(np.int32).max, np.int64)
    start = b.op("Minimum", b.op("Maximum", start, bounds[0], shape=()), bounds[1], shape=())
  start = cast(b, start, np.int32)
  last = b.size(size - length)
  if last.value is not None and start.value is not None:
    return b.constant(np.clip(start.value, 0, last.value), np.int32)
  if last.value is not None and not last.value:
    return b.constant(0, np.int32)
  return b.op("Maximum", b.op("Minimum", start, last, shape=()), np.int32(0), shape=())


@rule("dynamic_update_slice")
def dynamic_update_slice(b: Builder, x: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
  """Returns the tensor with a slice replaced; its position is moved so that it lies in the tensor."""
  begin = [clamped_start(b, start, m, n) for start, m, n in zip(starts, x.shape, update.shape, strict=False)]
  return update_slice(b, x, update, begin)


def update_slice(b: Builder, x: Tensor, update: Tensor, begin: Sequence[Tensor]) -> Tensor:
  """Returns the tensor with a slice replaced, along one axis after the other.

  Args:
    b: the builder.
    x: the tensor.
    update: the slice.
    begin: where it begins along the first axes, such that it lies in the tensor.
  """
  axes = [axis for axis in range(len(begin)) if not _is_same(x.shape[axis], update.shape[axis])]
  if not axes:
    return update
  axis = axes[0]
  size, length = x.shape[axis], update.shape[axis]
  start = begin[axis]
  end = b.op("AddV2", start, b.size(length), shape=())
  if len(axes) > 1:
    row = _part(b, x, axis, start, b.size(length), length)
    update = update_slice(b, row, update, [b.constant(0, np.int32) if i == axis else s for i, s in enumerate(begin)])
  # TensorFlow knows the sizes of the parts only when it runs; they are described by the size of the whole.
  before = _part(b, x, axis, b.constant(0, np.int32), start, size)
  after = _part(b, x, axis, end, b.constant(-1, np.int32), size)
  return b.op("ConcatV2", [before, update, after], np.int32(axis), shape=x.shape)


def _part(b: Builder, x: Tensor, axis: int, start: Tensor, length: Tensor, size: Dim) -> Tensor:
  zero, whole = b.constant(0, np.int32), b.constant(-1, np.int32)
  starts = _pack(b, [start if i == axis else zero for i in range(x.rank)])
  sizes = _pack(b, [length if i == axis else whole for i in range(x.rank)])
  return b.op("Slice", x, starts, sizes, shape=_with(x.shape, axis, size))


def _with(shape: Shape, axis: int, size: Dim) -> Shape:
  return (*shape[:axis], size, *shape[axis + 1 :])


def _pack(b: Builder, scalars: Sequence[Tensor]) -> Tensor:
  """Returns scalars as a vector."""
  if all(scalar.value is not None for scalar in scalars):
    return b.constant(np.array([scalar.value for scalar in scalars], np.int32).reshape(-1))
  if len(scalars) == 1:
    return reshape(b, scalars[0], (1,))
  return b.op("Pack", list(scalars), shape=(len(scalars),))


def _is_same(size: Dim, length: Dim) -> bool:
  return isinstance(size, int) == isinstance(length, int) and bool(size == length)
