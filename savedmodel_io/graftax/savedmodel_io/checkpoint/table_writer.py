"""Writer of the sorted string table that `table_reader` reads."""

import os
import struct
from collections.abc import Mapping

import cramjam

from graftax.savedmodel_io.checkpoint.crc32c import masked_crc32c
from graftax.savedmodel_io.checkpoint.varint import encode_varint

__all__ = ["write_table"]

_MAGIC = 0xDB4775248B80FB57
_HANDLES_BYTES = 40
_ENTRIES_PER_RESTART = 16
_UNCOMPRESSED = b"\x00"
_SNAPPY = b"\x01"


def write_table(entries: Mapping[bytes, bytes], *, block_bytes: int = 1 << 18, snappy: bool = False) -> bytes:
  """Returns the bytes of a table.

  Args:
    entries: key -> value, in any order; they are stored by sorted key.
    block_bytes: size at which a data block is closed.
    snappy: compress the blocks.

  Example:
      >>> from graftax.savedmodel_io.checkpoint.table_reader import read_table
      >>> read_table(write_table({b"b": b"2", b"a": b"1"}), "a table")
      {b'a': b'1', b'b': b'2'}
  """
  out = bytearray()
  index: list[tuple[bytes, bytes]] = []
  for block in _split(sorted(entries.items()), block_bytes):
    index.append((block[-1][0], _append_block(out, block, snappy)))
  meta_handle = _append_block(out, [], snappy)
  index_handle = _append_block(out, index, snappy)
  out += (meta_handle + index_handle).ljust(_HANDLES_BYTES, b"\x00")
  out += struct.pack("<Q", _MAGIC)
  return bytes(out)


def _split(entries: list[tuple[bytes, bytes]], block_bytes: int) -> list[list[tuple[bytes, bytes]]]:
  blocks: list[list[tuple[bytes, bytes]]] = []
  size = block_bytes
  for key, value in entries:
    if size >= block_bytes:
      blocks.append([])
      size = 0
    blocks[-1].append((key, value))
    size += len(key) + len(value)
  return blocks


def _append_block(out: bytearray, entries: list[tuple[bytes, bytes]], snappy: bool) -> bytes:
  """Appends a block with its trailer; returns the handle that points at it."""
  contents = _encode_block(entries)
  kind = _UNCOMPRESSED
  if snappy:
    contents, kind = bytes(cramjam.snappy.compress_raw(contents)), _SNAPPY
  handle = encode_varint(len(out)) + encode_varint(len(contents))
  out += contents + kind
  out += struct.pack("<I", masked_crc32c(contents + kind))
  return handle


def _encode_block(entries: list[tuple[bytes, bytes]]) -> bytes:
  block = bytearray()
  restarts = []
  last_key = b""
  for i, (key, value) in enumerate(entries):
    if i % _ENTRIES_PER_RESTART == 0:
      restarts.append(len(block))
      shared = 0
    else:
      shared = len(os.path.commonprefix([last_key, key]))
    block += encode_varint(shared) + encode_varint(len(key) - shared) + encode_varint(len(value))
    block += key[shared:] + value
    last_key = key
  restarts = restarts or [0]
  block += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
  return bytes(block)
