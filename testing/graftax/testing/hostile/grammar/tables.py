"""Checkpoints: the sorted tables they are in, and the records of both formats."""

import dataclasses
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.grammar.checksums import masked_crc32c
from graftax.testing.hostile.grammar.protos import Shape, attr

__all__ = ["Bundle", "TableLies", "new_bundle", "slice_key", "table", "varint", "write_bundle", "write_v1"]

_MAGIC = 0xDB4775248B80FB57


def varint(value: int) -> bytes:
  """Returns a number as protocol buffers store it; a negative one as 64 bits."""
  value &= (1 << 64) - 1
  out = bytearray()
  while value > 127:
    out.append(value & 127 | 128)
    value >>= 7
  return bytes((*out, value))


@dataclasses.dataclass(frozen=True, slots=True)
class TableLies:
  """What a table says that is not so; by default nothing.

  Attributes:
    shared: added to the number of bytes that a key shares with the last one.
    unshared: added to the number of bytes that it does not.
    value_size: added to the size of a value.
    kind: the compression of blocks that are not compressed.
    crc: changed bits of checksums.
    num_restarts: the number of restart points.
    restart: the position of the first one.
    offset: added to where a data block begins.
    size: added to how long it is.
    index_offset: the same for the block of the index.
    index_size: the same for the block of the index.
    magic: changed bits of the number at the end.
    wrap: changes the contents of a data block.
  """

  shared: int = 0
  unshared: int = 0
  value_size: int = 0
  kind: int = 0
  crc: int = 0
  num_restarts: int | None = None
  restart: int = 0
  offset: int = 0
  size: int = 0
  index_offset: int = 0
  index_size: int = 0
  magic: int = 0
  wrap: Callable[[bytes], bytes] = bytes


def table(entries: Sequence[tuple[bytes, bytes]], lies: TableLies | None = None, block_entries: int = 4) -> bytes:
  """Returns a table of entries in the order in which they are given, which is that of their keys in an honest one."""
  lies = lies or TableLies()
  out, index = bytearray(), []
  for start in range(0, len(entries), block_entries):
    part = entries[start : start + block_entries]
    offset, size = _append(out, lies.wrap(_block(part, lies)), lies)
    index.append((part[-1][0], varint(offset + lies.offset) + varint(size + lies.size)))
  meta = b"".join(map(varint, _append(out, _block([], TableLies()), lies)))
  offset, size = _append(out, _block(index, TableLies()), dataclasses.replace(lies, kind=0))
  footer = meta + varint(offset + lies.index_offset) + varint(size + lies.index_size)
  return bytes(out) + footer.ljust(40, b"\0")[:40] + struct.pack("<Q", _MAGIC ^ lies.magic)


def _block(entries: Sequence[tuple[bytes, bytes]], lies: TableLies) -> bytes:
  block = bytearray()
  for key, value in entries:
    block += varint(lies.shared) + varint(len(key) + lies.unshared) + varint(len(value) + lies.value_size) + key + value
  count = 1 if lies.num_restarts is None else lies.num_restarts
  return bytes(block) + struct.pack("<II", lies.restart & 0xFFFFFFFF, count & 0xFFFFFFFF)


def _append(out: bytearray, contents: bytes, lies: TableLies) -> tuple[int, int]:
  offset = len(out)
  stored = contents + bytes([lies.kind])
  out += stored + struct.pack("<I", masked_crc32c(stored) ^ lies.crc)
  return offset, len(contents)


@dataclasses.dataclass(slots=True)
class Bundle:
  """A checkpoint of format 2.

  Attributes:
    header: the record of the empty key.
    entries: key -> where its tensor is.
    data: the bytes of the shards.
  """

  header: schema.BundleHeaderProto
  entries: dict[str, schema.BundleEntryProto]
  data: list[bytes]

  def add(self, key: str, value: np.ndarray) -> schema.BundleEntryProto:
    """Adds an array to the first shard."""
    content = value.tobytes()
    entry = schema.BundleEntryProto(
      dtype=int(DType.from_numpy(value.dtype)),
      shape=attr(Shape(value.shape)).shape,
      offset=len(self.data[0]),
      size=len(content),
      crc32c=masked_crc32c(content),
    )
    self.data[0] += content
    self.entries[key] = entry
    return entry

  def add_string(self, key: str, value: bytes) -> schema.BundleEntryProto:
    """Adds a scalar string to the first shard."""
    size = struct.pack("<I", len(value)) if len(value) < 1 << 32 else struct.pack("<Q", len(value))
    crc = struct.pack("<I", masked_crc32c(size))
    entry = schema.BundleEntryProto(dtype=int(DType.STRING), offset=len(self.data[0]))
    content = varint(len(value)) + crc + value
    entry.shape.SetInParent()
    entry.size, entry.crc32c = len(content), masked_crc32c(size + crc + value)
    self.data[0] += content
    self.entries[key] = entry
    return entry


def new_bundle(values: Mapping[str, np.ndarray] | None = None) -> Bundle:
  """Returns a checkpoint of one shard."""
  header = schema.BundleHeaderProto(num_shards=1, version=schema.VersionDef(producer=1))
  bundle = Bundle(header, {}, [b""])
  for key, value in (values or {}).items():
    bundle.add(key, value)
  return bundle


def write_bundle(
  prefix: Path, bundle: Bundle, lies: TableLies | None = None, extra: Sequence[tuple[bytes, bytes]] = ()
) -> None:
  """Writes the index and the shards of a checkpoint; `extra` are more records of the table."""
  records = [(key.encode(errors="surrogatepass"), entry.SerializeToString()) for key, entry in bundle.entries.items()]
  entries = [(b"", bundle.header.SerializeToString()), *sorted(records), *extra]
  prefix.parent.mkdir(parents=True, exist_ok=True)
  prefix.with_name(f"{prefix.name}.index").write_bytes(table(entries, lies))
  for i, data in enumerate(bundle.data):
    prefix.with_name(f"{prefix.name}.data-{i:05d}-of-{len(bundle.data):05d}").write_bytes(data)


def slice_key(name: str, extents: Sequence[tuple[int, int]]) -> bytes:
  """Returns the key of a slice of a tensor in format 1: `(start, length)` for each dimension, length -1 for all."""
  return (
    _unsigned(0) + _text(name.encode()) + _unsigned(len(extents)) + b"".join(_signed(n) for e in extents for n in e)
  )


def _unsigned(value: int) -> bytes:
  payload = value.to_bytes((value.bit_length() + 7) // 8, "big")
  return bytes([len(payload)]) + payload


def _text(value: bytes) -> bytes:
  return value.replace(b"\0", b"\0\xff").replace(b"\xff", b"\xff\0") + b"\0\1"


def _signed(value: int) -> bytes:
  magnitude = ~value if value < 0 else value
  size = magnitude.bit_length() // 7 + 1
  header = ((1 << size) - 1) << (7 * size)
  return ((value & ((1 << 8 * size) - 1)) ^ header).to_bytes(size, "big")


def write_v1(
  path: Path,
  meta: schema.SavedTensorSlices,
  records: Mapping[bytes, schema.SavedTensorSlices],
  lies: TableLies | None = None,
) -> None:
  """Writes a checkpoint of format 1."""
  entries = [(b"", meta.SerializeToString())]
  entries += sorted((key, record.SerializeToString()) for key, record in records.items())
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(table(entries, lies))
