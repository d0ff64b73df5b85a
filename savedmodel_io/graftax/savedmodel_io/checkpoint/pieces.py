"""Reads a mapped file piece by piece: its pages do not stay in memory, and only those that are needed are read.

The system reads ahead of a page that is touched, by default 128 KiB and on some disks 8 MiB. If a process reads a part
of each row of a matrix, that is most of the file. Here it is told which bytes come next instead.
"""

import contextlib
import math
import mmap
from collections.abc import Iterator
from types import EllipsisType

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.read_options import Report

__all__ = ["PIECE_BYTES", "Index", "block_indices", "cast_in_pieces", "checksum_in_pieces", "copy_in_pieces"]

Index = tuple[int | slice | EllipsisType, ...]

# A multiple of the size of every number.
PIECE_BYTES = 1 << 22
# JAX takes arrays that start at such an address as they are, if the device is the CPU.
_ALIGNMENT = 64
# The system may read less than it is advised to: no more at once than it would read ahead.
_ADVICE_BYTES = 1 << 17
_CAN_ADVISE = all(hasattr(mmap, name) for name in ("MADV_RANDOM", "MADV_NORMAL", "MADV_WILLNEED", "MADV_DONTNEED"))


def checksum_in_pieces(mapped: np.ndarray, start: int, stop: int, report: Report | None = None) -> int:
  """Returns the masked checksum of the bytes of a mapped file between two positions."""
  checksum = 0
  for piece in _pieces(mapped, start, stop, report):
    checksum = crc32c(piece, checksum)
  return mask(checksum)


def cast_in_pieces(
  mapped: np.ndarray, start: int, stop: int, stored: np.dtype, dtype: np.dtype, report: Report | None = None
) -> tuple[np.ndarray, int]:
  """Returns a copy of the numbers between two positions as another type, and the masked checksum of their bytes.

  Args:
    mapped: the file, as uint8.
    start: where the numbers begin.
    stop: where they end.
    stored: their type in the file.
    dtype: the type of the result.
    report: called with the number of bytes of each piece.
  """
  result = _aligned_array(((stop - start) // stored.itemsize,), dtype)
  checksum, position = 0, 0
  for piece in _pieces(mapped, start, stop, report):
    checksum = crc32c(piece, checksum)
    count = piece.size // stored.itemsize
    result[position : position + count] = np.ndarray(count, stored, buffer=piece)
    position += count
  return result, mask(checksum)


def copy_in_pieces(mapped: np.ndarray, view: np.ndarray, dtype: np.dtype, report: Report | None = None) -> np.ndarray:
  """Returns a copy of a part of a mapped file, cast to a type; only the pages of the part are read.

  Args:
    mapped: the file, as uint8.
    view: an array of any strides in it.
    dtype: the type of the result.
    report: called with the number of bytes of each piece.
  """
  result = _aligned_array(view.shape, dtype)
  if not view.size:
    return result
  for index in block_indices(view.shape, PIECE_BYTES // view.itemsize):
    piece = view[index]
    first, last = _bounds(mapped, piece)
    with _exact_reads(mapped, first, last):
      for run in _runs(piece):
        _read_soon(mapped, *_bounds(mapped, run))
      result[index] = piece
    _release(mapped, first, last)
    if report is not None:
      report(piece.nbytes)
  return result


def _bounds(mapped: np.ndarray, view: np.ndarray) -> tuple[int, int]:
  """Returns the positions in the file between which a view lies."""
  first, last = byte_bounds(view)
  return first - mapped.ctypes.data, last - mapped.ctypes.data


def _runs(view: np.ndarray) -> Iterator[np.ndarray]:
  """Yields the parts of a view that are contiguous in memory."""
  if view.ndim == 0 or view.flags.c_contiguous:
    yield view
    return
  for part in view:
    yield from _runs(part)


def _aligned_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
  size = math.prod(shape) * dtype.itemsize
  data = np.empty(size + _ALIGNMENT, np.uint8)
  start = -data.ctypes.data % _ALIGNMENT
  return data[start : start + size].view(dtype).reshape(shape)


def block_indices(shape: tuple[int, ...], max_size: int) -> Iterator[Index]:
  """Yields indices that cut an array into views of at most `max_size` elements, in C order.

  Example:
      >>> list(block_indices((3, 2), 4))
      [(slice(0, 2, None), Ellipsis), (slice(2, 4, None), Ellipsis)]
  """
  if not shape or math.prod(shape) <= max_size:
    yield (...,)
    return
  num_rows = max_size // math.prod(shape[1:])
  if num_rows == 0:
    for row in range(shape[0]):
      for index in block_indices(shape[1:], max_size):
        yield (row, *index)
    return
  for start in range(0, shape[0], num_rows):
    yield (slice(start, start + num_rows), ...)


def _pieces(mapped: np.ndarray, start: int, stop: int, report: Report | None) -> Iterator[np.ndarray]:
  with _exact_reads(mapped, start, stop):
    _read_soon(mapped, start, min(start + PIECE_BYTES, stop))
    for first in range(start, stop, PIECE_BYTES):
      last = min(first + PIECE_BYTES, stop)
      _read_soon(mapped, last, min(last + PIECE_BYTES, stop))  # while the caller uses this one
      yield mapped[first:last]
      _release(mapped, first, last)
      if report is not None:
        report(last - first)


@contextlib.contextmanager
def _exact_reads(mapped: np.ndarray, first: int, last: int) -> Iterator[None]:
  """Keeps the system from reading ahead in a part of the file."""
  _advise(mapped, "MADV_RANDOM", first, last)
  try:
    yield
  finally:
    _advise(mapped, "MADV_NORMAL", first, last)


def _read_soon(mapped: np.ndarray, first: int, last: int) -> None:
  """Has the system read bytes in the background."""
  _advise(mapped, "MADV_WILLNEED", first, last)
  for start in range(first + _ADVICE_BYTES, last, _ADVICE_BYTES):
    _advise(mapped, "MADV_WILLNEED", start, min(start + _ADVICE_BYTES, last))


def _release(mapped: np.ndarray, first: int, last: int) -> None:
  """Gives the pages back to the system, which reads them again if they are asked for."""
  _advise(mapped, "MADV_DONTNEED", first, last)


def _advise(mapped: np.ndarray, advice: str, first: int, last: int) -> None:
  if _CAN_ADVISE and isinstance(mapped.base, mmap.mmap) and last > first:
    begin = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.base.madvise(getattr(mmap, advice), begin, last - begin)
