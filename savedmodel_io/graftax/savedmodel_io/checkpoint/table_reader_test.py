import struct

import cramjam
import hypothesis
import pytest
from hypothesis import strategies as st

from graftax.savedmodel_io.checkpoint.crc32c import masked_crc32c
from graftax.savedmodel_io.checkpoint.table_reader import is_table, read_table
from graftax.savedmodel_io.checkpoint.table_writer import write_table
from graftax.savedmodel_io.checkpoint.varint import encode_varint
from graftax.savedmodel_io.errors import CheckpointError, DamagedCheckpointError, UnsupportedCheckpointError

_ENTRIES = {f"layer_{i:03d}/kernel".encode(): bytes([i % 251]) * (i % 40) for i in range(100)}


def _with_index(blocks: bytes, handles: list[tuple[int, int]]) -> bytes:
  """A table of hand-made data blocks."""
  index = b"".join(
    encode_varint(0) + encode_varint(2) + encode_varint(len(value)) + struct.pack(">H", i) + value
    for i, value in enumerate(encode_varint(offset) + encode_varint(size) for offset, size in handles)
  ) + struct.pack("<II", 0, 1)
  out = blocks + index + b"\x00" + struct.pack("<I", masked_crc32c(index + b"\x00"))
  footer = encode_varint(0) + encode_varint(0) + encode_varint(len(blocks)) + encode_varint(len(index))
  return out + footer.ljust(40, b"\x00") + bytes.fromhex("57fb808b247547db")


def _sealed(block: bytes, compression: bytes = b"\x00") -> bytes:
  return block + compression + struct.pack("<I", masked_crc32c(block + compression))


@pytest.mark.parametrize("snappy", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 18])
def test_what_was_written_is_read(snappy, block_bytes):
  assert read_table(write_table(_ENTRIES, block_bytes=block_bytes, snappy=snappy), "t") == _ENTRIES


def test_an_empty_table_has_no_entries():
  assert read_table(write_table({}), "t") == {}


def test_entries_come_in_key_order():
  assert list(read_table(write_table({b"b": b"", b"a": b"", b"": b"x"}), "t")) == [b"", b"a", b"b"]


def test_a_file_of_something_else_is_no_table():
  assert not is_table(b"")
  assert not is_table(bytes(100))
  with pytest.raises(DamagedCheckpointError, match="x.index: not a checkpoint index: 100 bytes"):
    read_table(bytes(100), "x.index")


def test_a_flipped_bit_in_a_block_is_a_checksum_error():
  data = bytearray(write_table(_ENTRIES))
  data[10] ^= 1
  with pytest.raises(DamagedCheckpointError, match="t: checksum of the block at byte 0"):
    read_table(bytes(data), "t")


def test_a_cut_off_file_says_so():
  data = write_table(_ENTRIES)
  with pytest.raises(DamagedCheckpointError, match="runs over the end"):
    read_table(data[:50] + data[-48:], "t")


def test_an_unknown_compression_is_named():
  block = _sealed(struct.pack("<II", 0, 1), b"\x07")
  with pytest.raises(UnsupportedCheckpointError, match="compression 7"):
    read_table(_with_index(block, [(0, 8)]), "t")


def test_a_snappy_block_that_claims_too_much_raises_without_unpacking_it():
  bomb = encode_varint(1 << 40) + b"\x00" * 20
  with pytest.raises(DamagedCheckpointError, match="snappy data is damaged: 26 bytes cannot hold 1099511627776"):
    read_table(_with_index(_sealed(bomb, b"\x01"), [(0, len(bomb))]), "t")


def test_a_damaged_snappy_block_is_an_error():
  block = cramjam.snappy.compress_raw(b"abcabcabc" * 20)
  damaged = bytes(block)[:-3]
  with pytest.raises(DamagedCheckpointError, match="snappy data is damaged"):
    read_table(_with_index(_sealed(damaged, b"\x01"), [(0, len(damaged))]), "t")


def test_blocks_that_overlap_raise():
  block = struct.pack("<II", 0, 1)
  with pytest.raises(DamagedCheckpointError, match="points at byte 0, before 13"):
    read_table(_with_index(_sealed(block), [(0, 8), (0, 8)]), "t")


def test_keys_out_of_order_raise():
  block = b"\x00\x01\x00b" + b"\x00\x01\x00a" + struct.pack("<II", 0, 1)
  with pytest.raises(DamagedCheckpointError, match="key b'a' does not sort after b'b'"):
    read_table(_with_index(_sealed(block), [(0, len(block))]), "t")


def test_a_prefix_longer_than_the_key_before_raises():
  block = b"\x05\x01\x00b" + struct.pack("<II", 0, 1)
  with pytest.raises(DamagedCheckpointError, match="runs over the block"):
    read_table(_with_index(_sealed(block), [(0, len(block))]), "t")


def test_keys_that_unpack_to_much_more_than_the_file_raise():
  prefix = b"k" * 5000
  entries = b"\x00" + encode_varint(5000) + b"\x00" + prefix
  entries += b"".join(encode_varint(5000 + i) + b"\x01\x00k" for i in range(4000))
  block = entries + struct.pack("<II", 0, 1)
  with pytest.raises(DamagedCheckpointError, match="64 times the block"):
    read_table(_with_index(_sealed(block), [(0, len(block))]), "t")


def test_more_restart_points_than_fit_raise():
  block = struct.pack("<II", 0, 1 << 30)
  with pytest.raises(DamagedCheckpointError, match="1073741824 restart points"):
    read_table(_with_index(_sealed(block), [(0, len(block))]), "t")


_TABLES = [write_table(_ENTRIES, block_bytes=300), write_table(_ENTRIES, snappy=True)]


@hypothesis.settings(max_examples=300, deadline=1000)
@hypothesis.given(
  st.sampled_from(_TABLES),
  st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
  st.integers(0, 10_000),
)
def test_a_damaged_table_is_an_error_or_reads_the_same(table, changes, length):
  data = bytearray(table)
  for position, value in changes:
    data[position % len(data)] = value
  cut = bytes(data[: length % (len(data) + 1)]) if length % 3 == 0 else bytes(data)
  try:
    entries = read_table(cut, "t")
  except CheckpointError:
    return
  # Every block has a checksum; only unused bytes (restart points, padding) may differ unseen.
  assert entries == _ENTRIES


@hypothesis.settings(max_examples=300, deadline=1000)
@hypothesis.given(st.binary(max_size=200), st.binary(max_size=60))
def test_hostile_blocks_with_right_checksums_are_errors_or_entries(block, index):
  data = _sealed(block) + _sealed(index)
  footer = encode_varint(0) + encode_varint(0) + encode_varint(len(block) + 5) + encode_varint(len(index))
  try:
    read_table(data + footer.ljust(40, b"\x00") + bytes.fromhex("57fb808b247547db"), "t")
  except CheckpointError:
    pass
