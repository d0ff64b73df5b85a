"""Assembles a partitioned tensor from its stored slices."""

import math
from collections.abc import Callable, Iterable
from types import EllipsisType

import numpy as np

from graftax.savedmodel_io.checkpoint.tensor_entry import TensorEntry
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice
from graftax.savedmodel_io.errors import DamagedCheckpointError

__all__ = ["Bounds", "box_index", "check_slices", "read_partitioned"]

Bounds = tuple[tuple[int, int], ...]


def box_index(bounds: Bounds) -> tuple[slice | EllipsisType, ...]:
  """Returns the index of a box in an array.

  The ellipsis keeps a scalar an array: of a string, numpy would make one that loses zeros at its end.
  """
  return (*(slice(*bound) for bound in bounds), ...)


def read_partitioned(
  entry: TensorEntry,
  bounds: Bounds,
  dtype: np.dtype,
  read_slice: Callable[[TensorSlice, Bounds], np.ndarray],
  where: str,
) -> np.ndarray:
  """Returns the part of `entry` within `bounds`, read-only; a stored slice that is exactly that part is returned as it
  is.

  Args:
    entry: a tensor with slices.
    bounds: (start, stop) per dimension.
    dtype: element type of the result.
    read_slice: reads a box of one stored slice; only called for slices that overlap `bounds`.
    where: file, for messages.

  Raises:
    DamagedCheckpointError: the slices do not cover the part, or overlap in it.
  """
  boxes = {part: part.bounds(entry.shape) for part in entry.slices}
  for part, box in boxes.items():
    if box == bounds:
      return read_slice(part, tuple((0, stop - start) for start, stop in box))
  overlaps = {part: overlap for part, box in boxes.items() if (overlap := _overlap(box, bounds)) is not None}
  # Stored data is read before the result is allocated: a claimed shape alone must not cost memory.
  pieces = {part: read_slice(part, source) for part, (source, _) in overlaps.items()}
  shape = tuple(stop - start for start, stop in bounds)
  if math.prod(shape) != sum(piece.size for piece in pieces.values()):
    raise _not_covered(entry, where)
  try:
    result, covered = np.empty(shape, dtype), np.zeros(shape, np.bool_)
  except ValueError as e:  # more dimensions, or larger ones beside a 0, than NumPy has
    raise DamagedCheckpointError(f"{where}: {entry.key!r}: shape {shape} cannot be an array: {e}") from e
  for part, (_, target) in overlaps.items():
    result[target] = pieces[part]
    covered[target] = True
  if not covered.all():
    raise _not_covered(entry, where)
  result.flags.writeable = False
  return result


def check_slices(slices: Iterable[TensorSlice], shape: tuple[int, ...]) -> None:
  """Raises if slices leave the shape, or hold more elements than it, so that they overlap.

  TensorFlow refuses checkpoints with slices that overlap.

  Raises:
    ValueError: they do.
  """
  num_elements = sum(math.prod(stop - start for start, stop in part.bounds(shape)) for part in slices)
  if num_elements > math.prod(shape):
    raise ValueError(f"slices of together {num_elements} elements overlap in shape {shape}")


def _overlap(stored: Bounds, wanted: Bounds) -> tuple[Bounds, tuple[slice, ...]] | None:
  """Returns where the overlap of two boxes lies within the first and within the second, or None if there is none."""
  source, target = [], []
  for (stored_start, stored_stop), (start, stop) in zip(stored, wanted, strict=True):
    low, high = max(stored_start, start), min(stored_stop, stop)
    if low >= high:
      return None
    source.append((low - stored_start, high - stored_start))
    target.append(slice(low - start, high - start))
  return tuple(source), tuple(target)


def _not_covered(entry: TensorEntry, where: str) -> DamagedCheckpointError:
  slices = ", ".join(str(part) for part in entry.slices[:8]) + (" ..." if len(entry.slices) > 8 else "")
  return DamagedCheckpointError(
    f"{where}: partitioned tensor {entry.key!r}: slices {slices} do not cover shape {entry.shape} once"
  )
