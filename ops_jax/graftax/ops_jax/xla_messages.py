"""The small protobuf messages that tf2xla's ops carry in string attributes: integers by field number."""

from collections.abc import Collection

from graftax.ops_jax.errors import InvalidInputError

__all__ = ["integer_fields"]


def integer_fields(op: str, message: bytes, fields: Collection[int] = range(1, 32)) -> dict[int, list[int]]:
  """Repeated integer fields of a serialized message, packed or not, by field number.

  Args:
    op: for messages.
    message: the serialized message.
    fields: numbers of the fields that hold integers; any other is passed over.

  Raises:
    InvalidInputError: the bytes are no such message.
  """
  found: dict[int, list[int]] = {}
  position = 0
  while position < len(message):
    tag, position = _varint(op, message, position)
    number, wire_type = tag >> 3, tag & 7
    if wire_type == 0:
      value, position = _varint(op, message, position)
      if number in fields:
        found.setdefault(number, []).append(value)
    elif wire_type == 2:
      length, position = _varint(op, message, position)
      end = position + length
      if number not in fields:
        position = end
      while position < end:
        value, position = _varint(op, message, position)
        found.setdefault(number, []).append(value)
    else:
      raise InvalidInputError(f"{op}: a message of integers has wire type {wire_type} at byte {position}.")
  return found


def _varint(op: str, message: bytes, position: int) -> tuple[int, int]:
  value = shift = 0
  while True:
    if position >= len(message) or shift > 63:
      raise InvalidInputError(f"{op}: a message of {len(message)} bytes ends within an integer.")
    byte = message[position]
    value |= (byte & 0x7F) << shift
    position, shift = position + 1, shift + 7
    if byte < 0x80:
      return value, position
