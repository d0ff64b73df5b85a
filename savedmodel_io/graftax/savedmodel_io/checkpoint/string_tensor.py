"""String tensors as a checkpoint's data shard stores them.

All lengths come first, as varints; then a masked CRC32C of the lengths as fixed-width integers; then all bytes. The
entry's own checksum runs over the fixed-width lengths, the stored length checksum and the bytes.
"""

import math
import struct

import numpy as np

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.varint import decode_varint
from graftax.savedmodel_io.errors import DamagedCheckpointError

__all__ = ["decode_string_tensor"]

_CHECKSUM_BYTES = 4


def decode_string_tensor(data: bytes, shape: tuple[int, ...], where: str) -> tuple[np.ndarray, int]:
  """Returns an object array of `bytes`, copied out of the shard, and the masked checksum of the tensor.

  Args:
    data: the tensor's bytes in the shard.
    shape: shape of the tensor.
    where: tensor and file, for messages.

  Raises:
    DamagedCheckpointError: the lengths do not add up, or their own checksum differs.
  """
  num_strings = math.prod(shape)
  if num_strings > len(data):
    raise DamagedCheckpointError(f"{where}: {len(data)} bytes cannot hold {num_strings} strings")
  lengths, position = _decode_lengths(data, num_strings, where)
  crc = crc32c(_fixed_width(lengths))
  stored = data[position : position + _CHECKSUM_BYTES]
  position += _CHECKSUM_BYTES
  num_bytes = sum(lengths)
  if position + num_bytes != len(data):
    raise DamagedCheckpointError(f"{where}: {num_bytes} bytes of text do not fill {len(data)} stored bytes")
  if stored != struct.pack("<I", mask(crc)):
    raise DamagedCheckpointError(
      f"{where}: checksum of the string lengths is {mask(crc):#010x}, not {stored[::-1].hex()}"
    )
  checksum = mask(crc32c(data[position:], crc32c(stored, crc)))
  strings = np.empty(num_strings, object)
  for i, length in enumerate(lengths):
    strings[i] = data[position : position + length]
    position += length
  try:
    return strings.reshape(shape), checksum
  except ValueError as e:  # a shape without elements whose other sizes no array can have
    raise DamagedCheckpointError(f"{where}: shape {list(shape)} is damaged: {e}") from e


def _fixed_width(lengths: list[int]) -> bytes:
  if max(lengths, default=0) < 1 << 32:
    return np.array(lengths, "<u4").tobytes()
  return b"".join(struct.pack("<I" if length < 1 << 32 else "<Q", length) for length in lengths)


def _decode_lengths(data: bytes, num_strings: int, where: str) -> tuple[list[int], int]:
  first = np.frombuffer(data, np.uint8, num_strings)
  if (first < 0x80).all():  # each length is one byte
    return first.tolist(), num_strings
  lengths = []
  position = 0
  try:
    for _ in range(num_strings):
      length, position = decode_varint(data, position, len(data))
      lengths.append(length)
  except ValueError as e:
    raise DamagedCheckpointError(f"{where}: string lengths are damaged: {e}") from e
  return lengths, position
