"""CRC32C checksums in the masked form that tables and checkpoints store."""

import google_crc32c
import numpy as np

__all__ = ["crc32c", "mask", "masked_crc32c", "unmask"]

_MASK_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF


def crc32c(data: bytes | np.ndarray, initial: int = 0) -> int:
  """Returns the CRC32C of `data`, continued from `initial` (the CRC32C of what came before it).

  Args:
    data: bytes, or a contiguous uint8 array (a memory map is read once, front to back).
    initial: unmasked checksum to continue from.
  """
  return google_crc32c.extend(initial, data)


def mask(crc: int) -> int:
  """Returns the stored form of a checksum: rotated and offset, as data with checksums in it needs."""
  return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _UINT32


def unmask(masked: int) -> int:
  """Returns the inverse of `mask`."""
  rotated = (masked - _MASK_DELTA) & _UINT32
  return ((rotated >> 17) | (rotated << 15)) & _UINT32


def masked_crc32c(data: bytes | np.ndarray) -> int:
  """Returns `mask(crc32c(data))`."""
  return mask(crc32c(data))
