"""Reads a mapped file piece by piece, so that its pages do not stay in memory."""

import mmap
import sys
from collections.abc import Iterator

import numpy as np

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask

__all__ = ["cast_in_pieces", "checksum_in_pieces"]

# A multiple of the size of every number.
_PIECE_BYTES = 1 << 22


def checksum_in_pieces(mapped: np.ndarray, start: int, stop: int) -> int:
  """Returns the masked checksum of the bytes of a mapped file between two positions."""
  checksum = 0
  for piece in _pieces(mapped, start, stop):
    checksum = crc32c(piece, checksum)
  return mask(checksum)


def cast_in_pieces(
  mapped: np.ndarray, start: int, stop: int, stored: np.dtype, dtype: np.dtype
) -> tuple[np.ndarray, int]:
  """Returns the numbers between two positions as another type, and the masked checksum of their bytes.

  Args:
    mapped: the file, as uint8.
    start: where the numbers begin.
    stop: where they end.
    stored: their type in the file.
    dtype: the type of the result.
  """
  result = np.empty((stop - start) // stored.itemsize, dtype)
  checksum, position = 0, 0
  for piece in _pieces(mapped, start, stop):
    checksum = crc32c(piece, checksum)
    count = piece.size // stored.itemsize
    result[position : position + count] = np.ndarray(count, stored, buffer=piece)
    position += count
  return result, mask(checksum)


def _pieces(mapped: np.ndarray, start: int, stop: int) -> Iterator[np.ndarray]:
  for first in range(start, stop, _PIECE_BYTES):
    last = min(first + _PIECE_BYTES, stop)
    yield mapped[first:last]
    _release(mapped, first, last)


def _release(mapped: np.ndarray, first: int, last: int) -> None:
  """Gives the pages back to the system, which reads them again if they are asked for."""
  if sys.platform != "win32" and isinstance(mapped.base, mmap.mmap):
    begin = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.base.madvise(mmap.MADV_DONTNEED, begin, last - begin)
