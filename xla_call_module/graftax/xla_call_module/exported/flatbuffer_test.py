import struct

import pytest

from graftax.xla_call_module import DecodeError
from graftax.xla_call_module.exported import flatbuffer


def _chain(num_tables: int) -> bytes:
  """Tables whose only field is a vector with two offsets, both to the next table: 2**num_tables paths."""
  vtable, table, vector = struct.pack("<4H", 6, 8, 4, 0), struct.pack("<iI", 8, 4), struct.pack("<III", 2, 16, 12)
  return struct.pack("<I", 12) + (vtable + table + vector) * num_tables + struct.pack("<4Hi", 4, 4, 0, 0, 8)


def _count(table: flatbuffer.Table) -> int:
  return 1 + sum(map(_count, table.tables(0)))


def test_each_table_is_read_through_its_offsets():
  assert _count(flatbuffer.root(_chain(3), what="a chain")) == 15


def test_offsets_that_meet_again_and_again_are_refused_at_once():
  with pytest.raises(DecodeError, match="are not a chain: its offsets lead to the same bytes again and again"):
    _count(flatbuffer.root(_chain(40), what="a chain"))


def test_tables_inside_each_other_are_limited():
  with pytest.raises(DecodeError, match="more than 5 levels"):
    _count(flatbuffer.root(_chain(6), what="a chain", max_depth=5))


def test_fields_that_a_file_lacks_have_their_default():
  table = flatbuffer.root(_chain(0), what="a chain")
  assert (table.number(3, "u4", 7), table.string(0), table.strings(1), table.table(2), table.has(0)) == (
    7,
    "",
    (),
    None,
    False,
  )
