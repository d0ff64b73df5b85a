"""Reads a mapped file piece by piece, so that its pages do not stay in memory.

The system reads ahead of a page that is touched, by default 128 KiB and on some disks 8 MiB. For a process that needs a
part of each row of a matrix, that is the whole file. `read_ahead` tells the system which pages will be needed.
"""

import math
import mmap
from collections.abc import Iterator
from types import EllipsisType

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.read_options import Report

__all__ = [
  "PIECE_BYTES",
  "Index",
  "block_indices",
  "cast_in_pieces",
  "checksum_in_pieces",
  "copy_in_pieces",
  "read_ahead",
]

Index = tuple[int | slice | EllipsisType, ...]

# A multiple of the size of every number.
PIECE_BYTES = 1 << 22
# JAX takes arrays that start at such an address as they are, if the device is the CPU.
_ALIGNMENT = 64
# Of one advice, the system may read no more than it would read ahead.
_ADVICE_BYTES = 1 << 17


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
  """Returns a copy of a part of a mapped file, cast to a type.

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
    result[index] = piece
    first, last = byte_bounds(piece)
    _release(mapped, first - mapped.ctypes.data, last - mapped.ctypes.data)
    if report is not None:
      report(piece.nbytes)
  return result


def read_ahead(mapped: np.ndarray, view: np.ndarray) -> None:
  """Has the system read the pages of a part of a mapped file in the background.

  When they are then used, it reads nothing around them.

  Args:
    mapped: the file, as uint8.
    view: an array of any strides in it.
  """
  for first, stop in _runs(mapped, view) if view.size else ():
    _advise(mapped, "MADV_WILLNEED", first, stop)
    for start in range(first + _ADVICE_BYTES, stop, _ADVICE_BYTES):
      _advise(mapped, "MADV_WILLNEED", start, min(start + _ADVICE_BYTES, stop))


def _runs(mapped: np.ndarray, view: np.ndarray) -> list[tuple[int, int]]:
  """Returns (start, stop) of the pages of the file that a view needs, in order; adjacent pages are one run."""
  size, num_outer = view.itemsize, view.ndim
  while num_outer and view.strides[num_outer - 1] == size:
    num_outer -= 1
    size *= view.shape[num_outer]
  starts = np.array([view.ctypes.data - mapped.ctypes.data])
  for count, stride in zip(view.shape[:num_outer], view.strides[:num_outer], strict=True):
    starts = (starts[:, None] + np.arange(count) * stride).ravel()
  first_pages, stop_pages = starts // mmap.PAGESIZE, (starts + size - 1) // mmap.PAGESIZE + 1
  is_apart = first_pages[1:] > stop_pages[:-1]
  first_pages, stop_pages = first_pages[np.r_[True, is_apart]], stop_pages[np.r_[is_apart, True]]
  return [
    (first * mmap.PAGESIZE, stop * mmap.PAGESIZE)
    for first, stop in zip(first_pages.tolist(), stop_pages.tolist(), strict=True)
  ]


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
  for first in range(start, stop, PIECE_BYTES):
    last = min(first + PIECE_BYTES, stop)
    yield mapped[first:last]
    _release(mapped, first, last)
    if report is not None:
      report(last - first)


def _release(mapped: np.ndarray, first: int, last: int) -> None:
  """Gives the pages back to the system, which reads them again if they are asked for."""
  _advise(mapped, "MADV_DONTNEED", first, last)


def _advise(mapped: np.ndarray, advice: str, first: int, last: int) -> None:
  last = min(last, mapped.size)  # the last page may be longer than the file
  if isinstance(mapped.base, mmap.mmap) and hasattr(mmap, advice) and last > first:
    begin = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.base.madvise(getattr(mmap, advice), begin, last - begin)
