"""Base-128 variable-length integers, least significant group first, as tables and string tensors store them."""

__all__ = ["decode_varint", "encode_varint"]

_MAX_BYTES = 10


def decode_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
  """Returns the integer at `position` and the position after it.

  Args:
    data: the buffer.
    position: where the integer starts.
    end: first position that may not be read.

  Raises:
    ValueError: the integer runs over `end` or is wider than 64 bits.
  """
  result = 0
  shift = 0
  for offset in range(position, min(end, position + _MAX_BYTES)):
    byte = data[offset]
    result |= (byte & 0x7F) << shift
    if byte < 0x80:
      if result >= 1 << 64:
        break
      return result, offset + 1
    shift += 7
  raise ValueError(f"varint at byte {position} is cut off or wider than 64 bits")


def encode_varint(value: int) -> bytes:
  """Returns the bytes of a non-negative integer below 2**64."""
  if not 0 <= value < 1 << 64:
    raise ValueError(f"varint {value!r} is outside [0, 2**64)")
  out = bytearray()
  while value >= 0x80:
    out.append((value & 0x7F) | 0x80)
    value >>= 7
  out.append(value)
  return bytes(out)
