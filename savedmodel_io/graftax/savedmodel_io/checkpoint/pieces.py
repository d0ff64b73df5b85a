"""Reads a mapped file piece by piece, so that its pages do not stay in memory."""

import math
import mmap
import sys
from collections.abc import Iterator
from types import EllipsisType

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask

__all__ = ["PIECE_BYTES", "Index", "block_indices", "cast_in_pieces", "checksum_in_pieces", "copy_in_pieces"]

Index = tuple[int | slice | EllipsisType, ...]

# A multiple of the size of every number.
PIECE_BYTES = 1 << 22
# JAX takes arrays that start at such an address as they are, if the device is the CPU.
_ALIGNMENT = 64


def checksum_in_pieces(mapped: np.ndarray, start: int, stop: int) -> int:
  """Returns the masked checksum of the bytes of a mapped file between two positions."""
  checksum = 0
  for piece in _pieces(mapped, start, stop):
    checksum = crc32c(piece, checksum)
  return mask(checksum)


def cast_in_pieces(
  mapped: np.ndarray, start: int, stop: int, stored: np.dtype, dtype: np.dtype
) -> tuple[np.ndarray, int]:
  """Returns a copy of the numbers between two positions as another type, and the masked checksum of their bytes.

  Args:
    mapped: the file, as uint8.
    start: where the numbers begin.
    stop: where they end.
    stored: their type in the file.
    dtype: the type of the result.
  """
  result = _aligned_array(((stop - start) // stored.itemsize,), dtype)
  checksum, position = 0, 0
  for piece in _pieces(mapped, start, stop):
    checksum = crc32c(piece, checksum)
    count = piece.size // stored.itemsize
    result[position : position + count] = np.ndarray(count, stored, buffer=piece)
    position += count
  return result, mask(checksum)


def copy_in_pieces(mapped: np.ndarray, view: np.ndarray, dtype: np.dtype) -> np.ndarray:
  """Returns a copy of a part of a mapped file, cast to a type; only the bytes of the part are read.

  Args:
    mapped: the file, as uint8.
    view: an array of any strides in it.
    dtype: the type of the result.
  """
  result = _aligned_array(view.shape, dtype)
  if not view.size:
    return result
  start = mapped.ctypes.data
  for index in block_indices(view.shape, PIECE_BYTES // view.itemsize):
    piece = view[index]
    first, last = (position - start for position in byte_bounds(piece))
    result[index] = piece
    _release(mapped, first, last)
  return result


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


def _pieces(mapped: np.ndarray, start: int, stop: int) -> Iterator[np.ndarray]:
  for first in range(start, stop, PIECE_BYTES):
    last = min(first + PIECE_BYTES, stop)
    yield mapped[first:last]
    _release(mapped, first, last)


def _release(mapped: np.ndarray, first: int, last: int) -> None:
  """Gives the pages back to the system, which reads them again if they are asked for."""
  if sys.platform != "win32" and isinstance(mapped.base, mmap.mmap):
    begin = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.base.madvise(mmap.MADV_DONTNEED, begin, last - begin)
