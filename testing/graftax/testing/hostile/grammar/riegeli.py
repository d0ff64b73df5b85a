"""Files of records, as chunked models are: a chunk for each record, checksums of headers and data."""

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path

from graftax.graphdef_ir import schema
from graftax.testing.hostile.grammar.checksums import highway_hash
from graftax.testing.hostile.grammar.tables import varint

__all__ = ["ChunkLies", "RecordWriter", "field"]

_BLOCK = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True)
class ChunkLies:
  """What the header of a chunk says that is not so.

  Attributes:
    size: added to the size of the data.
    count: added to the number of records.
    decoded: added to the size of the records.
    record: added to the size of the record, in the list of sizes.
    kind: the type of the chunk.
    compression: the byte that says how it is compressed.
    data_hash: changed bits of the checksum of the data.
    header_hash: changed bits of the checksum of the header.
    pack: compresses sizes and records.
  """

  size: int = 0
  count: int = 0
  decoded: int = 0
  record: int = 0
  kind: bytes = b"r"
  compression: bytes = b"\0"
  data_hash: int = 0
  header_hash: int = 0
  pack: Callable[[bytes], bytes] = bytes


class RecordWriter:
  """Writes records, and the last one, which says how they form a message."""

  def __init__(self) -> None:
    self.data = bytearray()
    self.infos: list[schema.ChunkInfo] = []
    self._append(b"", 0, 0, ChunkLies(kind=b"s"))

  def record(self, value: bytes, lies: ChunkLies | None = None) -> int:
    """Adds a record and returns its number."""
    lies = lies or ChunkLies()
    sizes = lies.pack(varint(len(value) + lies.record))
    data = lies.compression + varint(len(sizes)) + sizes + lies.pack(value)
    offset = self._append(data, 1, len(value), lies)
    self.infos.append(schema.ChunkInfo(size=len(value), offset=offset))
    return len(self.infos) - 1

  def finish(self, path: Path, message: schema.ChunkedMessage, lies: ChunkLies | None = None) -> None:
    """Adds the last record and writes the file."""
    infos = list(self.infos)
    self.record(schema.ChunkMetadata(chunks=infos, message=message).SerializeToString(), lies)
    path.write_bytes(self.data)

  def _append(self, data: bytes, count: int, decoded: int, lies: ChunkLies) -> int:
    kind = lies.kind[0] | (count + lies.count) << 8
    numbers = (len(data) + lies.size, highway_hash(data) ^ lies.data_hash, kind, decoded + lies.decoded)
    header = struct.pack("<4Q", *(n & ((1 << 64) - 1) for n in numbers))
    rest = struct.pack("<Q", highway_hash(header) ^ lies.header_hash) + header + data
    begin = len(self.data)
    end = begin + len(rest) + 24 * ((len(rest) + (begin + _BLOCK - 25) % _BLOCK) // (_BLOCK - 24))
    while rest:
      if len(self.data) % _BLOCK == 0:
        block = struct.pack("<QQ", len(self.data) - begin, end - len(self.data))
        self.data += struct.pack("<Q", highway_hash(block)) + block
      room = _BLOCK - len(self.data) % _BLOCK
      self.data += rest[:room]
      rest = rest[room:]
    return begin


def field(chunk: int | schema.ChunkedMessage, *path: tuple[str, int | str]) -> schema.ChunkedField:
  """Returns where a chunk belongs; the path is of `("field", 2)`, `("index", 0)` and `("key", "name")`."""
  tags = [_tag(kind, value) for kind, value in path]
  message = chunk if isinstance(chunk, schema.ChunkedMessage) else schema.ChunkedMessage(chunk_index=chunk)
  return schema.ChunkedField(field_tag=tags, message=message)


def _tag(kind: str, value: int | str) -> schema.FieldIndex:
  if kind == "key":
    return schema.FieldIndex(map_key=schema.FieldIndex.MapKey(s=str(value)))
  return schema.FieldIndex(field=int(value)) if kind == "field" else schema.FieldIndex(index=int(value))
