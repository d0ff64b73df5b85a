"""Casts a tensor of a mapped file piece by piece, so that the file's pages do not stay in memory."""

import mmap
import sys

import numpy as np

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask

__all__ = ["cast_piecewise"]

_PIECE_ELEMENTS = 1 << 20


def cast_piecewise(
  mapped: np.ndarray, offset_bytes: int, stored: np.dtype, dtype: np.dtype, count: int
) -> tuple[np.ndarray, int]:
  """Returns `count` elements as another type, and the masked checksum of their bytes in the file.

  Args:
    mapped: the file, as uint8.
    offset_bytes: where the elements begin.
    stored: their type in the file.
    dtype: the type of the result.
  """
  result = np.empty(count, dtype)
  checksum = 0
  for start in range(0, count, _PIECE_ELEMENTS):
    stop = min(start + _PIECE_ELEMENTS, count)
    first, last = (offset_bytes + position * stored.itemsize for position in (start, stop))
    piece = mapped[first:last]
    checksum = crc32c(piece, checksum)
    result[start:stop] = np.ndarray(stop - start, stored, buffer=piece)
    _release(mapped, first, last)
  return result, mask(checksum)


def _release(mapped: np.ndarray, first: int, last: int) -> None:
  """Gives the pages back to the system, which reads them again if they are asked for."""
  if sys.platform != "win32" and isinstance(mapped.base, mmap.mmap):
    begin = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.base.madvise(mmap.MADV_DONTNEED, begin, last - begin)
