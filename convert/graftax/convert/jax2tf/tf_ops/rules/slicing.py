"""Slices with known and unknown positions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules._common import cast, clip, reshape, scatter_update, static_slice
from graftax.convert.jax2tf.tf_ops.rules._positions import IndexedAxes, flat_positions, product
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Tensor


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
  return clip(b, start, np.int32(0), last)


@rule("dynamic_update_slice")
def dynamic_update_slice(b: Builder, x: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
  """Returns the tensor with a slice replaced; its position is moved so that it lies in the tensor."""
  begin = [clamped_start(b, start, m, n) for start, m, n in zip(starts, x.shape, update.shape, strict=False)]
  return _with_updated_slice(b, x, update, begin)


def _with_updated_slice(b: Builder, x: Tensor, update: Tensor, begin: Sequence[Tensor]) -> Tensor:
  """Returns the tensor with a slice replaced that lies in it.

  The slice is scattered: XLA cannot compile slices whose size depends on their position, such as the part before it.
  """
  axes = [axis for axis in range(len(begin)) if not _is_same(x.shape[axis], update.shape[axis])]
  if not axes:
    return update
  num_indexed = axes[-1] + 1  # the axes after these are whole
  rest = x.shape[num_indexed:]
  indexed = IndexedAxes(tuple(range(num_indexed)), x.shape[:num_indexed], update.shape[:num_indexed], 0, ())
  number = product(indexed.lengths)
  found = scatter_update(
    b,
    reshape(b, x, (product(indexed.sizes), *rest)),
    reshape(b, flat_positions(b, begin[:num_indexed], indexed), (number, 1)),
    reshape(b, update, (number, *rest)),
  )
  return reshape(b, found, x.shape)


def _pack(b: Builder, scalars: Sequence[Tensor]) -> Tensor:
  """Returns scalars as a vector."""
  if all(scalar.value is not None for scalar in scalars):
    return b.constant(np.array([scalar.value for scalar in scalars], np.int32).reshape(-1))
  if len(scalars) == 1:
    return reshape(b, scalars[0], (1,))
  return b.op("Pack", list(scalars), shape=(len(scalars),))


def _is_same(size: Dim, length: Dim) -> bool:
  return isinstance(size, int) == isinstance(length, int) and bool(size == length)
