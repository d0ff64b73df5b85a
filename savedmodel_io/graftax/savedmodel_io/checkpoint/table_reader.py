"""Reader of the sorted string table that a checkpoint's index file (and a whole V1 checkpoint) is.

The file ends in a fixed footer that points at an index block; each entry of the index block points at a data block.
A block holds prefix-compressed entries and restart points, and is followed by a compression byte and a masked CRC32C.

Every size and offset is checked before it is used, and every block checksum is verified, so a damaged or hostile file
is an error within time and memory proportional to its size.
"""

import struct
from collections.abc import Iterator

import cramjam

from graftax.graphdef_ir import Budget, LimitExceededError
from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.varint import decode_varint
from graftax.savedmodel_io.errors import DamagedCheckpointError, UnsupportedCheckpointError

__all__ = ["is_table", "read_table"]

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_UNCOMPRESSED = 0
_SNAPPY = 1
# Snappy copies at most 64 bytes with a 3-byte tag; a larger claim is not a snappy block.
_MAX_SNAPPY_RATIO = 64
# A writer stores a whole key at least every 16 entries, so shared prefixes cannot blow keys up beyond that.
_MAX_KEY_RATIO = 64
# What an entry, and what its reader makes of it, takes in memory beside the bytes of its key and value.
_ENTRY_BYTES = 600
# How often that is reported to the budget.
_REPORTED_BYTES = 1 << 20


def is_table(data: bytes) -> bool:
  """Returns whether `data` ends in the footer of a sorted table."""
  return len(data) >= _FOOTER_BYTES and struct.unpack_from("<Q", data, len(data) - 8)[0] == _MAGIC


def read_table(data: bytes, where: str, budget: Budget | None = None) -> dict[bytes, bytes]:
  """Returns all entries of a table, in key order.

  Args:
    data: the whole file.
    where: the file's name, for messages.
    budget: limits what compressed blocks and keys may unpack to.

  Raises:
    DamagedCheckpointError: the bytes are not a table, or a checksum, size or order in it is wrong.
    UnsupportedCheckpointError: a block is compressed with something else than snappy.
    LimitExceededError: blocks or keys unpack to more than the budget allows.
  """
  if not is_table(data):
    raise DamagedCheckpointError(
      f"{where}: not a checkpoint index: {len(data)} bytes without the table footer; the file is cut off, damaged or "
      "something else"
    )
  budget = Budget.of(budget)
  entries: dict[bytes, bytes] = {}
  last_key: bytes | None = None
  for offset, size in _data_block_handles(data, where, budget):
    block = _read_block(data, offset, size, where, budget)
    for key, value in _block_entries(block, len(data), f"{where}, block at byte {offset}", budget):
      if last_key is not None and key <= last_key:
        raise DamagedCheckpointError(f"{where}: key {key!r} does not sort after {last_key!r}")
      entries[key] = value
      last_key = key
  return entries


def _data_block_handles(data: bytes, where: str, budget: Budget) -> Iterator[tuple[int, int]]:
  footer = len(data) - _FOOTER_BYTES
  try:
    _, position = _decode_handle(data, footer, len(data) - 8)
    (index_offset, index_size), _ = _decode_handle(data, position, len(data) - 8)
  except ValueError as e:
    raise DamagedCheckpointError(f"{where}: the table footer is damaged: {e}") from e
  index = _read_block(data, index_offset, index_size, where, budget)
  next_offset = 0
  for key, value in _block_entries(index, len(data), f"{where}, index block", budget):
    try:
      (offset, size), end = _decode_handle(value, 0, len(value))
    except ValueError as e:
      raise DamagedCheckpointError(f"{where}: the index entry of {key!r} is damaged: {e}") from e
    # With overlapping blocks a small file could hold quadratically many entries.
    if offset < next_offset or end != len(value):
      raise DamagedCheckpointError(f"{where}: the index entry of {key!r} points at byte {offset}, before {next_offset}")
    next_offset = offset + size + _TRAILER_BYTES
    yield offset, size


def _decode_handle(data: bytes, position: int, end: int) -> tuple[tuple[int, int], int]:
  offset, position = decode_varint(data, position, end)
  size, position = decode_varint(data, position, end)
  return (offset, size), position


def _read_block(data: bytes, offset: int, size: int, where: str, budget: Budget) -> bytes:
  end = offset + size
  if end + _TRAILER_BYTES > len(data) - _FOOTER_BYTES:
    raise DamagedCheckpointError(
      f"{where}: a block of {size} bytes at byte {offset} runs over the end ({len(data)} bytes); the file is cut off"
    )
  stored = struct.unpack_from("<I", data, end + 1)[0]
  actual = mask(crc32c(data[offset : end + 1]))
  if stored != actual:
    raise DamagedCheckpointError(
      f"{where}: checksum of the block at byte {offset} is {actual:#010x}, but the file stores {stored:#010x}. The "
      "file was damaged after it was written; copy it again from its source"
    )
  contents = data[offset:end]
  compression = data[end]
  if compression == _UNCOMPRESSED:
    return contents
  if compression == _SNAPPY:
    return _uncompress(contents, len(data), f"{where}, block at byte {offset}", budget)
  raise UnsupportedCheckpointError(
    f"{where}: the block at byte {offset} has compression {compression}; expected 0 (none) or 1 (snappy)"
  )


def _uncompress(contents: bytes, file_bytes: int, where: str, budget: Budget) -> bytes:
  try:
    claimed, _ = decode_varint(contents, 0, len(contents))
    if claimed > _MAX_SNAPPY_RATIO * len(contents):
      raise ValueError(f"{len(contents)} bytes cannot hold {claimed}")
    budget.spend_unpacked_bytes(claimed, file_bytes, where)
    # A bytearray would be aliased by every key sliced from it; bytes are immutable and hashable.
    return bytes(cramjam.snappy.decompress_raw(contents))
  except LimitExceededError:
    raise
  except (ValueError, cramjam.DecompressionError) as e:
    raise DamagedCheckpointError(f"{where}: snappy data is damaged: {e}") from e


def _block_entries(block: bytes, file_bytes: int, where: str, budget: Budget) -> Iterator[tuple[bytes, bytes]]:
  end = _entries_end(block, where)
  key = b""
  key_budget = _MAX_KEY_RATIO * len(block)
  position = unpacked = 0
  while position < end:
    try:
      shared, position = decode_varint(block, position, end)
      unshared, position = decode_varint(block, position, end)
      value_size, position = decode_varint(block, position, end)
    except ValueError as e:
      raise DamagedCheckpointError(f"{where}: entry header is damaged: {e}") from e
    value_start = position + unshared
    value_end = value_start + value_size
    if shared > len(key) or value_end > end:
      raise DamagedCheckpointError(f"{where}: the entry after key {key!r} runs over the block ({end} bytes)")
    key_budget -= shared + unshared
    if key_budget < 0:
      raise DamagedCheckpointError(f"{where}: keys unpack to more than {_MAX_KEY_RATIO} times the block")
    unpacked += shared + _ENTRY_BYTES
    if unpacked > _REPORTED_BYTES:
      budget.spend_unpacked_bytes(unpacked, file_bytes, where)
      unpacked = 0
    key = key[:shared] + block[position:value_start]
    yield key, block[value_start:value_end]
    position = value_end
  budget.spend_unpacked_bytes(unpacked, file_bytes, where)


def _entries_end(block: bytes, where: str) -> int:
  if len(block) < 4:
    raise DamagedCheckpointError(f"{where}: {len(block)} bytes are too few for a block")
  num_restarts = struct.unpack_from("<I", block, len(block) - 4)[0]
  end = len(block) - 4 - 4 * num_restarts
  if num_restarts < 1 or end < 0:
    raise DamagedCheckpointError(f"{where}: {num_restarts} restart points do not fit {len(block)} bytes")
  return end
