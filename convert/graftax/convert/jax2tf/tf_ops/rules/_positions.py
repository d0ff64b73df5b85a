"""Positions of slices as gather and scatter have them, as positions along one flat axis."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.rules._common import (
  broadcast,
  cast,
  clip,
  compare,
  joint_shape,
  reshape,
  static_slice,
)
from graftax.convert.jax2tf.tf_ops.rules.shaping import positions
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Shape, Tensor

__all__ = ["IndexedAxes", "column", "flat_positions", "in_bounds", "product"]


@dataclasses.dataclass(frozen=True, slots=True)
class IndexedAxes:
  """The axes of an operand along which slices have positions.

  Attributes:
    axes: the axes, those of batches first.
    sizes: the sizes of the operand along them.
    lengths: the sizes of a slice along them.
    num_batch: how many of them are axes of batches.
    batch_axes: for each axis of batches, the axis of the positions that has the same batches.
  """

  axes: tuple[int, ...]
  sizes: Shape
  lengths: tuple[Dim, ...]
  num_batch: int
  batch_axes: tuple[int, ...]

  @property
  def last(self) -> tuple[Dim, ...]:
    """The last position of a slice along each axis."""
    return tuple(size - length for size, length in zip(self.sizes, self.lengths, strict=True))


def column(b: Builder, starts: Tensor, number: int) -> Tensor:
  """Returns one coordinate of each position as int32; as int64 if its dtype has numbers beyond int32.

  Raises:
    Unsupported: the positions are of dtype uint64.
  """
  shape = starts.shape[:-1]
  limits = [*starts.shape[:-1], number + 1]
  found = reshape(b, static_slice(b, starts, [0] * len(shape) + [number], limits), shape)
  if found.dtype == np.uint64:
    raise Unsupported("positions of dtype uint64")
  return cast(b, found, np.int64 if found.dtype in (np.int64, np.uint32) else np.int32)


def coordinates(b: Builder, starts: Tensor, indexed: IndexedAxes) -> list[Tensor]:
  """Returns the coordinate of each slice along each of the indexed axes."""
  shape = starts.shape[:-1]
  batches = [positions(b, shape, axis, np.dtype(np.int32)) for axis in indexed.batch_axes]
  return [*batches, *(column(b, starts, i) for i in range(len(indexed.axes) - indexed.num_batch))]


def in_bounds(b: Builder, at: Sequence[Tensor], indexed: IndexedAxes) -> Tensor | None:
  """Returns whether each slice lies in the operand; None if all of them are known to."""
  inside: Tensor | None = None
  for start, last in list(zip(at, indexed.last, strict=True))[indexed.num_batch :]:
    if start.value is not None and isinstance(last, int) and np.all((start.value >= 0) & (start.value <= last)):
      continue
    upper = b.op("LessEqual", start, cast(b, b.size(last), start.dtype), shape=start.shape)
    fits = b.op("LogicalAnd", compare(b, "GreaterEqual", start, 0), upper, shape=start.shape)
    inside = fits if inside is None else b.op("LogicalAnd", inside, fits, shape=start.shape)
  return inside


def clamped(b: Builder, at: Sequence[Tensor], indexed: IndexedAxes) -> list[Tensor]:
  """Returns int32 coordinates, moved so that each slice lies in the operand."""
  found = []
  for number, (start, last) in enumerate(zip(at, indexed.last, strict=True)):
    if number >= indexed.num_batch:
      if start.value is not None and isinstance(last, int):
        start = b.constant(np.clip(start.value, 0, last), np.int32)
      else:
        limit = cast(b, b.size(last), start.dtype)
        start = clip(b, start, np.zeros((), start.dtype), limit)
    found.append(cast(b, start, np.int32))
  return found


def flat_positions(b: Builder, at: Sequence[Tensor], indexed: IndexedAxes) -> Tensor:
  """Returns where the elements of slices are, if the indexed axes are one flat axis.

  The result has the axes of the positions, then one axis for each length that is not 1.
  """
  windows = [i for i, length in enumerate(indexed.lengths) if not (isinstance(length, int) and length == 1)]
  outer = at[0].shape
  shape = (*outer, *(indexed.lengths[i] for i in windows))
  total: Tensor | None = None
  for i, start in enumerate(at):
    spread = reshape(b, start, (*outer, *(1 for _ in windows)))
    if i in windows:
      axis = len(outer) + windows.index(i)
      of_window = positions(b, tuple(n if k == axis else 1 for k, n in enumerate(shape)), axis, np.dtype(np.int32))
      spread = _add(b, spread, of_window)
    stride = product(indexed.sizes[i + 1 :])
    if not (isinstance(stride, int) and stride == 1):
      spread = _op(b, "Mul", spread, b.size(stride))
    total = spread if total is None else _add(b, total, spread)
  assert total is not None, "internal: slices without positions."
  return broadcast(b, total, shape)


def product(sizes: Sequence[Dim]) -> Dim:
  return math.prod(sizes)


def _add(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  return _op(b, "AddV2", x, y)


def _op(b: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
  """Returns a sum or product; TensorFlow broadcasts the operands."""
  if x.value is not None and y.value is not None:
    return b.constant(x.value + y.value if op == "AddV2" else x.value * y.value, np.int32)
  return b.op(op, x, y, shape=joint_shape(x, y))
