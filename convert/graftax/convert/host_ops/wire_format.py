"""Reads the wire format of protocol buffers, for messages whose schema is a few fields."""

from collections.abc import Iterable, Iterator

import numpy as np

__all__ = ["WireError", "fields", "integers", "packed_floats"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
  """The bytes are not a message."""


def fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
  """Yields the number and the content of each field; of numbers with a fixed size, their bytes.

  Raises:
    WireError: the message is cut off or has fields of an unknown kind.
  """
  position = 0
  while position < len(message):
    tag, position = _varint(message, position)
    kind = tag & 7
    if kind == _VARINT:
      value, position = _varint(message, position)
      yield tag >> 3, value
      continue
    if kind == _BYTES:
      size, position = _varint(message, position)
    elif kind in (_FIXED32, _FIXED64):
      size = 4 if kind == _FIXED32 else 8
    else:
      raise WireError(f"field {tag >> 3} is of the unknown kind {kind}")
    if position + size > len(message):
      raise WireError(f"field {tag >> 3} is cut off")
    yield tag >> 3, message[position : position + size]
    position += size


def packed_floats(content: bytes | int) -> np.ndarray:
  """Returns the float32 numbers of one field, packed or single.

  Raises:
    WireError: the field holds numbers of another kind.
  """
  if isinstance(content, int) or len(content) % 4:
    raise WireError("a list of floats has another kind of numbers")
  return np.frombuffer(content, "<f4").astype(np.float32)


def integers(contents: Iterable[bytes | int]) -> np.ndarray:
  """Returns the int64 numbers of fields, each packed or single.

  Raises:
    WireError: a number is cut off.
  """
  parts: list[np.ndarray] = []
  single: list[int] = []
  for content in contents:
    if isinstance(content, int):
      single.append(content)
      continue
    parts += [np.array(single, np.uint64), _packed_integers(content)]
    single = []
  return np.concatenate([*parts, np.array(single, np.uint64)]).view(np.int64)


def _packed_integers(content: bytes) -> np.ndarray:
  first = np.frombuffer(content, np.uint8)
  if (first < 0x80).all():  # each number is one byte
    return first.astype(np.uint64)
  numbers, position = [], 0
  while position < len(content):
    number, position = _varint(content, position)
    numbers.append(number)
  return np.array(numbers, np.uint64)


def _varint(message: bytes, position: int) -> tuple[int, int]:
  """Returns a number and the position after it."""
  value = shift = 0
  while True:
    if position >= len(message) or shift > 63:
      raise WireError("a number is cut off")
    byte = message[position]
    value |= (byte & 0x7F) << shift
    position += 1
    shift += 7
    if byte < 0x80:
      return value & (2**64 - 1), position
