"""CRC-32C as checkpoints store it, and HighwayHash-64 as Riegeli files do; written for files of some kilobytes."""

import struct

import google_crc32c

__all__ = ["highway_hash", "masked_crc32c"]

_MASK = (1 << 64) - 1


def masked_crc32c(data: bytes) -> int:
  """Returns the checksum as tables store it: rotated, so that checksums of checksums differ."""
  crc = google_crc32c.value(data)
  return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class _Highway:
  """The state of HighwayHash."""

  def __init__(self, key: tuple[int, int, int, int]) -> None:
    self.mul0 = [0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3]
    self.mul1 = [0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377]
    self.v0 = [m ^ k for m, k in zip(self.mul0, key, strict=True)]
    self.v1 = [m ^ (k >> 32 | (k & 0xFFFFFFFF) << 32) for m, k in zip(self.mul1, key, strict=True)]

  def update(self, lanes: tuple[int, ...] | list[int]) -> None:
    for i in range(4):
      self.v1[i] = (self.v1[i] + self.mul0[i] + lanes[i]) & _MASK
      self.mul0[i] ^= (self.v1[i] & 0xFFFFFFFF) * (self.v0[i] >> 32)
      self.v0[i] = (self.v0[i] + self.mul1[i]) & _MASK
      self.mul1[i] ^= (self.v0[i] & 0xFFFFFFFF) * (self.v1[i] >> 32)
    for target, source in ((self.v0, self.v1), (self.v1, self.v0)):
      for i in (0, 2):
        even, odd = _zipped(source[i + 1], source[i])
        target[i], target[i + 1] = (target[i] + even) & _MASK, (target[i + 1] + odd) & _MASK

  def update_remainder(self, data: bytes) -> None:
    size, rest = len(data), len(data) & 3
    for i in range(4):
      self.v0[i] = (self.v0[i] + (size << 32) + size) & _MASK
      self.v1[i] = _rotated_halves(self.v1[i], size)
    packet = bytearray(32)
    packet[: size - rest] = data[: size - rest]
    if size & 16:
      packet[28:32] = data[size - 4 :]
    elif rest:
      tail = data[size - rest :]
      packet[16], packet[17], packet[18] = tail[0], tail[rest >> 1], tail[rest - 1]
    self.update(struct.unpack("<4Q", packet))

  def finish(self) -> int:
    for _ in range(4):
      self.update([self.v0[i] >> 32 | (self.v0[i] & 0xFFFFFFFF) << 32 for i in (2, 3, 0, 1)])
    return (self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0]) & _MASK


def _zipped(v1: int, v0: int) -> tuple[int, int]:
  b0, b1 = v0.to_bytes(8, "little"), v1.to_bytes(8, "little")
  even = bytes((b0[3], b1[4], b0[2], b0[5], b1[6], b0[1], b1[7], b0[0]))
  odd = bytes((b1[3], b0[4], b1[2], b1[5], b1[1], b0[6], b1[0], b0[7]))
  return int.from_bytes(even, "little"), int.from_bytes(odd, "little")


def _rotated_halves(value: int, count: int) -> int:
  low, high = value & 0xFFFFFFFF, value >> 32
  low, high = ((x << count | x >> (32 - count)) & 0xFFFFFFFF for x in (low, high))
  return high << 32 | low


def highway_hash(data: bytes) -> int:
  """Returns HighwayHash-64 with the key of Riegeli."""
  state = _Highway((0x2F696C6567656952, 0x0A7364726F636572, 0x2F696C6567656952, 0x0A7364726F636572))
  for start in range(0, len(data) - 31, 32):
    state.update(struct.unpack("<4Q", data[start : start + 32]))
  if len(data) % 32:
    state.update_remainder(data[len(data) - len(data) % 32 :])
  return state.finish()
