"""Integer fields of the small protobuf messages in string attributes of ops."""

from collections.abc import Collection, Sequence

from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError

__all__ = ["convolution_numbers", "integer_fields"]


def integer_fields(op: str, message: bytes, fields: Collection[int] = range(1, 32)) -> dict[int, list[int]]:
  """Returns the repeated integer fields of a serialized message, packed or not, by field number.

  Args:
    op: for messages.
    message: the serialized message.
    fields: numbers of the fields to read; all others are skipped.

  Raises:
    InvalidInputError: the bytes are not such a message.
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


def convolution_numbers(
  op: str, message: bytes, rank: int, fields: Sequence[tuple[int, int, int]]
) -> lax.ConvDimensionNumbers:
  """Returns the dimension numbers of a convolution.

  Args:
    op: for messages.
    message: a serialized message that names the dimensions of input, kernel and output.
    rank: rank of the operands.
    fields: for input, kernel and output, the field numbers of batch (or output features), features, and space.

  Raises:
    InvalidInputError: the message is damaged, or does not name each dimension once.
  """
  found = integer_fields(op, message)
  # A field with value 0 may be absent.
  specs = [
    (*found.get(first, [0])[-1:], *found.get(second, [0])[-1:], *found.get(space, []))
    for first, second, space in fields
  ]
  if any(sorted(spec) != list(range(rank)) for spec in specs):
    raise InvalidInputError(
      f"{op}: dimension_numbers name the dimensions {specs} of input, kernel and output; each must be a permutation of "
      f"the {rank} that the operands have."
    )
  return lax.ConvDimensionNumbers(*specs)


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
