"""Byte strings that sort as the values they encode: the keys of tensor slices in a checkpoint's table.

A non-negative integer is one length byte and its big-endian bytes without leading zeros. A byte string has its 0x00 and
0xFF bytes escaped and ends with 0x00 0x01. A signed integer of n bytes spends its first n bits on n itself, written in
unary; flipping them against the sign bit makes negative values sort first.
"""

__all__ = ["encode_bytes", "encode_signed", "encode_unsigned"]

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1


def encode_unsigned(value: int) -> bytes:
  """Returns the ordered code of an integer in [0, 2**64)."""
  if not 0 <= value < 1 << 64:
    raise ValueError(f"ordered code: {value!r} is outside [0, 2**64)")
  payload = value.to_bytes((value.bit_length() + 7) // 8, "big")
  return bytes([len(payload)]) + payload


def encode_bytes(value: bytes) -> bytes:
  """Returns the ordered code of a byte string."""
  if b"\x00" not in value and b"\xff" not in value:
    return value + b"\x00\x01"
  return b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in value) + b"\x00\x01"


def encode_signed(value: int) -> bytes:
  """Returns the ordered code of an integer in [-2**63, 2**63)."""
  if not _INT64_MIN <= value <= _INT64_MAX:
    raise ValueError(f"ordered code: {value!r} does not fit 64 signed bits")
  magnitude = ~value if value < 0 else value
  num_bytes = magnitude.bit_length() // 7 + 1
  num_bits = 8 * num_bytes
  header = ((1 << num_bytes) - 1) << (num_bits - num_bytes)
  return ((value & ((1 << num_bits) - 1)) ^ header).to_bytes(num_bytes, "big")


_ESCAPES = {0x00: b"\x00\xff", 0xFF: b"\xff\x00"}
