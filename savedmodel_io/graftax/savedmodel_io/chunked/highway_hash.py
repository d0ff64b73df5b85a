"""HighwayHash, 64 bits wide, as Riegeli files use it for checksums."""

import struct
from collections.abc import Sequence

import numpy as np

from graftax.savedmodel_io.chunked.compiled_highway_hash import (
  BLOCK_BYTES,
  ZIPPER_HIGH,
  ZIPPER_LOW,
  can_compile,
  update_blocks,
)

__all__ = ["can_hash", "highway_hash_64"]

_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1
_PACKET = struct.Struct("<4Q")
# "Riegeli/records\n", twice.
_KEY = (0x2F696C6567656952, 0x0A7364726F636572) * 2
# The initial state, digits of pi.
_MULTIPLIERS_0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MULTIPLIERS_1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_NUM_FINAL_ROUNDS = 4
# Shorter data is hashed in Python, at 4 MB per second. Compiling takes half a second, once per process.
_LEAST_COMPILED_BYTES = 1 << 20
_MOST_BYTES_IN_PYTHON = 1 << 22


def can_hash(num_bytes: int) -> bool:
  """Returns whether data of that size is hashed in seconds."""
  return num_bytes <= _MOST_BYTES_IN_PYTHON or can_compile()


def highway_hash_64(data: bytes | memoryview) -> int:
  """Returns the checksum of bytes."""
  state = _State()
  data = memoryview(data)
  start = len(data) - len(data) % BLOCK_BYTES if len(data) >= _LEAST_COMPILED_BYTES and can_compile() else 0
  if start:
    state.update_blocks(data[:start])
  whole = len(data) - len(data) % _PACKET.size
  for lanes in _PACKET.iter_unpack(data[start:whole]):
    state.update(lanes)
  rest = bytes(data[whole:])
  if rest:
    state.update_rest(rest)
  for _ in range(_NUM_FINAL_ROUNDS):
    state.update([_rotated(state.v0[i], 32) for i in (2, 3, 0, 1)])
  return (state.v0[0] + state.v1[0] + state.mul0[0] + state.mul1[0]) & _MASK


class _State:
  """Four lanes of four numbers."""

  def __init__(self) -> None:
    self.mul0, self.mul1 = list(_MULTIPLIERS_0), list(_MULTIPLIERS_1)
    self.v0 = [multiplier ^ key for multiplier, key in zip(self.mul0, _KEY, strict=True)]
    self.v1 = [multiplier ^ _rotated(key, 32) for multiplier, key in zip(self.mul1, _KEY, strict=True)]

  def update(self, lanes: Sequence[int]) -> None:
    """Mixes in 32 bytes."""
    v0, v1, mul0, mul1 = self.v0, self.v1, self.mul0, self.mul1
    for i in range(4):
      v1[i] = (v1[i] + mul0[i] + lanes[i]) & _MASK
      mul0[i] ^= (v1[i] & _LOW) * (v0[i] >> 32)
      v0[i] = (v0[i] + mul1[i]) & _MASK
      mul1[i] ^= (v0[i] & _LOW) * (v1[i] >> 32)
    _add_zipped(v0, v1)
    _add_zipped(v1, v0)

  def update_blocks(self, data: memoryview) -> None:
    """Mixes in a multiple of `BLOCK_BYTES`, in compiled code."""
    state = update_blocks(np.array([self.v0, self.v1, self.mul0, self.mul1], np.uint64), data)
    self.v0, self.v1, self.mul0, self.mul1 = state.tolist()

  def update_rest(self, rest: bytes) -> None:
    """Mixes in the last 1 to 31 bytes."""
    size = len(rest)
    for i in range(4):
      self.v0[i] = (self.v0[i] + (size << 32) + size) & _MASK
      low, high = self.v1[i] & _LOW, self.v1[i] >> 32
      self.v1[i] = _rotated_32(high, size) << 32 | _rotated_32(low, size)
    packet = bytearray(32)
    whole = size & ~3
    packet[:whole] = rest[:whole]
    tail = rest[whole:]
    if size & 16:
      packet[28:32] = rest[size - 4 :]
    elif tail:
      packet[16:19] = bytes([tail[0], tail[len(tail) // 2], tail[-1]])
    self.update(_PACKET.unpack(packet))


def _add_zipped(target: list[int], source: list[int]) -> None:
  for pair in (0, 2):
    both = source[pair].to_bytes(8, "little") + source[pair + 1].to_bytes(8, "little")
    for lane, order in ((pair, ZIPPER_LOW), (pair + 1, ZIPPER_HIGH)):
      target[lane] = (target[lane] + int.from_bytes(bytes([both[i] for i in order]), "little")) & _MASK


def _rotated(value: int, count: int) -> int:
  return (value << count | value >> (64 - count)) & _MASK


def _rotated_32(value: int, count: int) -> int:
  return (value << count | value >> (32 - count)) & _LOW
