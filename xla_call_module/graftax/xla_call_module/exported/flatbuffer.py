"""A reader of flatbuffers that checks every offset. It has no schema; the caller names the fields.

A flatbuffer is a tree of tables. A table has fields by number; each field is a scalar, or the offset of a string, a
vector or another table. Fields that the writer left out have their default. So a reader of one schema reads the files
of all versions of the schema that only added fields.
"""

import struct
from typing import NoReturn

from graftax.xla_call_module import errors

__all__ = ["Table", "root"]

_SCALARS = {"u1": "<B", "i1": "<b", "u2": "<H", "i2": "<h", "u4": "<I"}


class _Buffer:
  """The bytes, and how much of them may still be read.

  Offsets may lead to one table many times, so that few bytes could describe a tree of any size. A writer stores each
  table once, so all tables and elements that are read together have at most as many bytes as the file.
  """

  __slots__ = ("data", "left", "max_depth", "what")

  def __init__(self, data: bytes, what: str, max_depth: int):
    self.data, self.what, self.max_depth = data, what, max_depth
    self.left = 4 * len(data) + 1024  # files that store an array once may name it several times

  def scalar(self, position: int, kind: str) -> int:
    code = _SCALARS[kind]
    self.check(position, struct.calcsize(code))
    return int(struct.unpack_from(code, self.data, position)[0])

  def check(self, position: int, num_bytes: int) -> None:
    if position < 0 or position + num_bytes > len(self.data):
      self.fail(f"an offset leads to byte {position + num_bytes}, behind its end")

  def spend(self, num_bytes: int) -> None:
    self.left -= num_bytes
    if self.left < 0:
      self.fail("its offsets lead to the same bytes again and again")

  def indirect(self, position: int) -> int:
    return position + self.scalar(position, "u4")

  def vector(self, position: int, itemsize_bytes: int) -> tuple[int, int]:
    """Returns the position of the first element of the vector whose offset lies at `position`, and their number."""
    start = self.indirect(position)
    count = self.scalar(start, "u4")
    self.check(start + 4, count * itemsize_bytes)
    self.spend(4 + count * itemsize_bytes)
    return start + 4, count

  def fail(self, why: str) -> NoReturn:
    raise errors.DecodeError(f"{len(self.data)} bytes are not {self.what}: {why}.")


class Table:
  """One table of a flatbuffer. Methods take the number of a field and return its default if the file lacks it."""

  __slots__ = ("_buffer", "_depth", "_fields", "_position")

  def __init__(self, buffer: _Buffer, position: int, depth: int):
    self._buffer, self._position, self._depth = buffer, position, depth
    if depth > buffer.max_depth:
      buffer.fail(f"its tables are more than {buffer.max_depth} levels inside each other")
    buffer.check(position, 4)
    vtable = position - int(struct.unpack_from("<i", buffer.data, position)[0])
    size = buffer.scalar(vtable, "u2")
    if size < 4 or size % 2:
      buffer.fail(f"a table has a list of fields of {size} bytes")
    buffer.check(vtable, size)
    buffer.spend(4 + size)
    self._fields = struct.unpack_from(f"<{size // 2 - 2}H", buffer.data, vtable + 4)

  def _at(self, field: int) -> int:
    """Returns the position of a field, or 0 if the table lacks it."""
    offset = self._fields[field] if field < len(self._fields) else 0
    return self._position + offset if offset else 0

  def has(self, field: int) -> bool:
    return bool(self._at(field))

  def number(self, field: int, kind: str, default: int = 0) -> int:
    """Returns an integer; `kind` is one of u1, i1, u2, i2 and u4."""
    position = self._at(field)
    return self._buffer.scalar(position, kind) if position else default

  def numbers(self, field: int, kind: str) -> tuple[int, ...]:
    position = self._at(field)
    if not position:
      return ()
    code = _SCALARS[kind]
    start, count = self._buffer.vector(position, struct.calcsize(code))
    return struct.unpack_from(f"<{count}{code[1]}", self._buffer.data, start)

  def data(self, field: int) -> bytes:
    position = self._at(field)
    if not position:
      return b""
    start, count = self._buffer.vector(position, 1)
    return self._buffer.data[start : start + count]

  def string(self, field: int) -> str:
    return self._text(self.data(field))

  def strings(self, field: int) -> tuple[str, ...]:
    return tuple(self._text(self._string_at(position)) for position in self._elements(field))

  def table(self, field: int) -> "Table | None":
    position = self._at(field)
    return Table(self._buffer, self._buffer.indirect(position), self._depth + 1) if position else None

  def tables(self, field: int) -> "tuple[Table, ...]":
    return tuple(
      Table(self._buffer, self._buffer.indirect(position), self._depth + 1) for position in self._elements(field)
    )

  def fail(self, why: str) -> NoReturn:
    """Raises DecodeError; `why` follows "bytes are not ...:"."""
    self._buffer.fail(why)

  def _elements(self, field: int) -> range:
    position = self._at(field)
    if not position:
      return range(0)
    start, count = self._buffer.vector(position, 4)
    return range(start, start + 4 * count, 4)

  def _string_at(self, position: int) -> bytes:
    start, count = self._buffer.vector(position, 1)
    return self._buffer.data[start : start + count]

  def _text(self, data: bytes) -> str:
    try:
      return data.decode()
    except UnicodeDecodeError:
      self._buffer.fail(f"the text {data[:20]!r} is not UTF-8")


def root(data: bytes, *, what: str, max_depth: int = 100) -> Table:
  """Returns the outermost table of a flatbuffer.

  Args:
    data: the bytes.
    what: what they should be, for errors: "a serialized jax.export.Exported".
    max_depth: how many tables may be inside each other.

  Raises:
    DecodeError: the bytes are damaged. So do the methods of the table.
  """
  buffer = _Buffer(data, what, max_depth)
  return Table(buffer, buffer.indirect(0), 0)
