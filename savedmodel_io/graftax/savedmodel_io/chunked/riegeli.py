"""Files of records in the Riegeli format: the part of it that TensorFlow writes, which is simple chunks.

A file is a sequence of chunks of records. A header of a block interrupts it every 64 KiB.
"""

import bisect
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import cramjam

from graftax.graphdef_ir import Budget, LimitExceededError, ModelFolder
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
# What a record counts beside its bytes, for its objects in memory and the time to find it; and a chunk with its header.
_RECORD_BYTES = 400
_CHUNK_BYTES = 500


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

  A position is that of a record's chunk plus the number of the record in it.

  Args:
    path: the file.
    budget: limits what all chunks that are read decompress to.
    folder: the files that may be read; by default those beside it.

  Raises:
    DamagedSavedModelError: the file is damaged.
    UnsupportedSavedModelError: its records are of a kind that TensorFlow does not write.
    LimitExceededError: it has more chunks than the budget allows; `read` raises it as well.
  """

  def __init__(self, path: str, budget: Budget | None = None, folder: ModelFolder | None = None):
    self._path = path
    self._budget = Budget.of(budget)
    own = ModelFolder.of(os.path.dirname(path) or ".") if folder is None else folder
    with own.open(path, "the file of the SavedModel") as f:
      if not os.fstat(f.fileno()).st_size:
        raise DamagedSavedModelError(f"{path}: the file is empty")
      self._data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    self._chunks = list(self._read_headers())
    self._begins = [chunk.begin for chunk in self._chunks]
    self._last: tuple[int, list[memoryview]] = (-1, [])

  @property
  def last_position(self) -> int | None:
    """The position of the last record; None if there are no records."""
    filled = (chunk for chunk in reversed(self._chunks) if chunk.num_records)
    return next((chunk.begin + chunk.num_records - 1 for chunk in filled), None)

  def read(self, position: int) -> memoryview:
    """Returns the record at a position.

    Raises:
      DamagedSavedModelError: no record is there, or its chunk is damaged.
    """
    number = bisect.bisect_right(self._begins, position) - 1
    if number < 0 or position - self._begins[number] >= self._chunks[number].num_records:
      raise self._damaged(position, "no record begins there")
    chunk = self._chunks[number]
    if self._last[0] != chunk.begin:
      self._last = (chunk.begin, self._decode(chunk))
    return self._last[1][position - chunk.begin]

  def _read_headers(self) -> Iterator[_Chunk]:
    """Yields the chunks that hold records."""
    begin = 0
    while begin < len(self._data):
      self._spend(_CHUNK_BYTES, begin)
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
      sizes = self._decompressed(chunk, compression, memoryview(data)[start : start + sizes_size], None)
      values = self._decompressed(chunk, compression, memoryview(data)[start + sizes_size :], chunk.decoded_size)
      self._spend(_RECORD_BYTES * chunk.num_records, chunk.begin)
      return _split(values, bytes(sizes), chunk.num_records)
    except LimitExceededError:
      raise
    except (ValueError, IndexError, cramjam.DecompressionError) as e:
      raise self._damaged(chunk.begin, str(e)) from e

  def _spend(self, num_bytes: int, begin: int) -> None:
    self._budget.spend_unpacked_bytes(num_bytes, len(self._data), f"{self._path}: chunk of records at byte {begin}")

  def _decompressed(self, chunk: _Chunk, compression: int, data: memoryview, size: int | None) -> memoryview:
    if compression == 0:
      return data
    if compression not in _DECOMPRESS:
      raise ValueError(f"compression of type {bytes([compression])!r}")
    stored, start = decode_varint(bytes(data[:10]), 0, min(10, len(data)))
    if size not in (None, stored):
      raise ValueError(f"{len(data)} bytes claim to be {stored} when they are decompressed; expected {size}")
    self._spend(stored, chunk.begin)
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
