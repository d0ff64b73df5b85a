"""Files of records in the Riegeli format: the part of it that TensorFlow writes, which is simple chunks.

A file is a sequence of chunks of records. A header of a block interrupts it every 64 KiB.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import cramjam

from graftax.savedmodel_io.checkpoint.varint import decode_varint
from graftax.savedmodel_io.chunked.highway_hash import can_hash, highway_hash_64
from graftax.savedmodel_io.errors import DamagedSavedModelError, UnsupportedSavedModelError

__all__ = ["RecordFile"]

_BLOCK_BYTES = 1 << 16
_BLOCK_HEADER_BYTES = 24
_USABLE_BYTES = _BLOCK_BYTES - _BLOCK_HEADER_BYTES
# Checksum, size of the data, checksum of the data, type and number of records, size of the records.
_HEADER = struct.Struct("<5Q")
_SIGNATURE, _METADATA, _PADDING, _SIMPLE, _TRANSPOSED = b"smprt"
_BROTLI, _ZSTD, _SNAPPY = b"bzs"
_DECOMPRESS = {
  _BROTLI: cramjam.brotli.decompress_into,
  _ZSTD: cramjam.zstd.decompress_into,
  _SNAPPY: cramjam.snappy.decompress_raw_into,
}
# Data that decompresses to more than _FREE_BYTES may be at most _MOST_RATIO times as large as its compressed bytes.
_MOST_RATIO = 1 << 12
_FREE_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class _Chunk:
  begin: int
  data_size: int
  data_hash: int
  num_records: int
  decoded_size: int


class RecordFile:
  """The records of a file, each read when it is asked for.

  Checksums of headers and of chunks are verified; if JAX cannot use the CPU, only those of chunks up to 4 MB.

  Attributes:
    positions: of each record: the position of its chunk plus its number in it.
  """

  def __init__(self, path: str):
    self._path = path
    if not os.path.getsize(path):
      raise DamagedSavedModelError(f"{path}: the file is empty")
    with open(path, "rb") as f:
      self._data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    self._chunks = {chunk.begin: chunk for chunk in self._read_headers()}
    self.positions = [begin + i for begin, chunk in self._chunks.items() for i in range(chunk.num_records)]
    self._last: tuple[int, list[memoryview]] = (-1, [])

  def read(self, position: int) -> memoryview:
    """Returns the record at one of `positions`.

    Raises:
      DamagedSavedModelError: no record is there, or its chunk is damaged.
    """
    begin = max((begin for begin in self._chunks if begin <= position), default=-1)
    chunk = self._chunks.get(begin)
    if chunk is None or position - begin >= chunk.num_records:
      raise self._damaged(position, "no record begins there")
    if self._last[0] != begin:
      self._last = (begin, self._decode(chunk))
    return self._last[1][position - begin]

  def _read_headers(self) -> Iterator[_Chunk]:
    """Yields the chunks that hold records."""
    begin = 0
    while begin < len(self._data):
      header = self._bytes(begin, 0, _HEADER.size)
      stored, data_size, data_hash, kind_and_count, decoded_size = _HEADER.unpack(header)
      if highway_hash_64(bytes(header[8:])) != stored:
        raise self._damaged(begin, "the checksum of a header is wrong")
      kind, count = kind_and_count & 0xFF, kind_and_count >> 8
      if kind == _TRANSPOSED:
        raise UnsupportedSavedModelError(
          f"{self._path}: transposed records, which TensorFlow does not write; write them without `transpose`"
        )
      if kind not in (_SIGNATURE, _METADATA, _PADDING, _SIMPLE) or (begin == 0) != (kind == _SIGNATURE):
        raise self._damaged(begin, f"a chunk of type {bytes([kind])!r}")
      if count > data_size:
        raise self._damaged(begin, f"{count} records in {data_size} bytes")
      if kind == _SIMPLE:
        yield _Chunk(begin, data_size, data_hash, count, decoded_size)
      begin = _chunk_end(begin, data_size, count)

  def _bytes(self, begin: int, skip: int, size: int) -> bytes:
    """Returns bytes of a chunk without the headers of the blocks that it spans, `skip` of its bytes after `begin`."""
    position = begin + skip + _BLOCK_HEADER_BYTES * _num_blocks(begin, skip)
    if position + size > len(self._data):
      raise self._damaged(begin, f"the file ends before {size} bytes at {position}; it is cut off")
    pieces = []
    while size:
      if position % _BLOCK_BYTES == 0:
        position += _BLOCK_HEADER_BYTES
      stop = min(position + size, position - position % _BLOCK_BYTES + _BLOCK_BYTES, len(self._data))
      if stop <= position:
        raise self._damaged(begin, "the file is cut off")
      pieces.append(self._data[position:stop])
      size -= stop - position
      position = stop
    return b"".join(pieces)

  def _decode(self, chunk: _Chunk) -> list[memoryview]:
    data = self._bytes(chunk.begin, _HEADER.size, chunk.data_size)
    if can_hash(len(data)) and highway_hash_64(data) != chunk.data_hash:
      raise self._damaged(chunk.begin, "the checksum of a chunk is wrong")
    try:
      compression = data[0]
      sizes_size, start = decode_varint(data, 1, len(data))
      if start + sizes_size > len(data):
        raise ValueError("sizes of records are cut off")
      sizes = self._decompressed(compression, memoryview(data)[start : start + sizes_size], None)
      values = self._decompressed(compression, memoryview(data)[start + sizes_size :], chunk.decoded_size)
      return _split(values, bytes(sizes), chunk.num_records)
    except (ValueError, IndexError, cramjam.DecompressionError) as e:
      raise self._damaged(chunk.begin, str(e)) from e

  def _decompressed(self, compression: int, data: memoryview, size: int | None) -> memoryview:
    if compression == 0:
      return data
    if compression not in _DECOMPRESS:
      raise ValueError(f"compression of type {bytes([compression])!r}")
    stored, start = decode_varint(bytes(data[:10]), 0, min(10, len(data)))
    if size not in (None, stored) or stored > max(_FREE_BYTES, _MOST_RATIO * len(data)):
      raise ValueError(f"{len(data)} bytes claim to be {stored} when they are decompressed; expected {size}")
    target = bytearray(stored)
    written = _DECOMPRESS[compression](bytes(data[start:]), target)
    if written != stored:
      raise ValueError(f"{written} bytes after decompression; expected {stored}")
    return memoryview(target)

  def _damaged(self, position: int, what: str) -> DamagedSavedModelError:
    return DamagedSavedModelError(f"{self._path}: damaged at byte {position}: {what}")


def _split(values: memoryview, sizes: bytes, count: int) -> list[memoryview]:
  records, begin, position = [], 0, 0
  for _ in range(count):
    size, position = decode_varint(sizes, position, len(sizes))
    records.append(values[begin : begin + size])
    begin += size
  if begin != len(values) or position != len(sizes):
    raise ValueError(f"records of {begin} bytes in {len(values)}")
  return records


def _num_blocks(begin: int, size: int) -> int:
  """Returns how many headers of blocks interrupt `size` bytes of a chunk that begins at `begin`."""
  return (size + (begin + _USABLE_BYTES - 1) % _BLOCK_BYTES) // _USABLE_BYTES


def _chunk_end(begin: int, data_size: int, count: int) -> int:
  size = _HEADER.size + data_size
  end = begin + size + _BLOCK_HEADER_BYTES * _num_blocks(begin, size)
  # A chunk is at least as long as it has records, and ends neither inside nor right after the header of a block.
  least = begin + count
  remaining = _BLOCK_BYTES - 1 - (least + _BLOCK_BYTES - 1) % _BLOCK_BYTES
  return max(end, least + max(0, remaining - (_USABLE_BYTES - 1)))
