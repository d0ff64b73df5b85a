"""Checkpoints whose checksums are right and whose records are not: each is a typed error, quickly, in little memory.

They are made record by record, because changed bytes never get past the checksums.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import cramjam
import numpy as np
import pytest

from graftax.graphdef_ir import DType, GraftaxError, LimitExceededError, Limits, schema
from graftax.savedmodel_io import CheckpointReader, read_checkpoint
from graftax.savedmodel_io.checkpoint.crc32c import masked_crc32c
from graftax.savedmodel_io.checkpoint.table_reader import read_table
from graftax.savedmodel_io.checkpoint.table_writer import write_table
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice, slice_key
from graftax.savedmodel_io.checkpoint.varint import encode_varint
from graftax.savedmodel_io.errors import DamagedCheckpointError
from graftax.testing.resource_limits import within_limits

_HEADER = schema.BundleHeaderProto(num_shards=1, version=schema.VersionDef(producer=1)).SerializeToString()
_MIB = 1 << 20

Box = Sequence[tuple[int, int]]


def _shape(sizes: Sequence[int]) -> schema.TensorShapeProto:
  return schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=size) for size in sizes])


def _entry(shape: Sequence[int], offset: int, size: int, data: bytes, dtype: DType = DType.FLOAT) -> bytes:
  checksum = masked_crc32c(np.frombuffer(data[offset : offset + size], np.uint8))
  entry = schema.BundleEntryProto(dtype=int(dtype), shape=_shape(shape), offset=offset, size=size, crc32c=checksum)
  return entry.SerializeToString()


def _write(prefix: Path, table: dict[bytes, bytes], data: bytes) -> str:
  Path(f"{prefix}.index").write_bytes(write_table({b"": _HEADER, **table}))
  Path(f"{prefix}.data-00000-of-00001").write_bytes(data)
  return str(prefix)


def _partitioned(prefix: Path, shape: Sequence[int], parts: Sequence[tuple[Box, int]], data: bytes) -> str:
  """Writes one tensor of float32 in slices, each a box and where it is stored."""
  whole = schema.BundleEntryProto(dtype=int(DType.FLOAT), shape=_shape(shape))
  table = {}
  for box, offset in parts:
    extents = [schema.TensorSliceProto.Extent(start=start, length=length) for start, length in box]
    whole.slices.append(schema.TensorSliceProto(extent=extents))
    sizes = [length for _, length in box]
    key = slice_key("x", TensorSlice(tuple(box)))
    table[key] = _entry(sizes, offset, 4 * int(np.prod(sizes)), data)
  return _write(prefix, {b"x": whole.SerializeToString(), **table}, data)


def _slices_of_one_place(folder: Path) -> str:
  row = 1 << 20
  parts = [(((i, 1), (0, row)), 0) for i in range(600)]
  return _partitioned(folder / "c", (600, row), parts, bytes(4 * row))


def _tensors_of_one_place(folder: Path) -> str:
  data = bytes(4 * _MIB)
  table = {b"x%04d" % i: _entry((_MIB,), 0, 4 * _MIB, data) for i in range(600)}
  return _write(folder / "c", table, data)


def _tensors_that_overlap(folder: Path) -> str:
  data = bytes(8 * _MIB)
  table = {b"x%04d" % i: _entry((_MIB,), 1000 * i, 4 * _MIB, data) for i in range(600)}
  return _write(folder / "c", table, data)


def _slices_that_overlap(folder: Path) -> str:
  return _partitioned(folder / "c", (4,), [(((0, 3),), 0), (((2, 2),), 8)], bytes(16))


def _slices_that_overlap_beside_a_hole(folder: Path) -> str:
  return _partitioned(folder / "c", (4,), [(((0, 2),), 0), (((1, 2),), 4)], bytes(16))


def _slices_of_a_giant(folder: Path) -> str:
  return _partitioned(folder / "c", (1 << 40, 4), [(((0, 1), (0, 4)), 0)], bytes(16))


def _shape_of_many_dimensions(folder: Path) -> str:
  box = [(0, 1)] * 70
  return _partitioned(folder / "c", (2, *[1] * 69), [(box, 0), ([(1, 1), *box[1:]], 4)], bytes(8))


def _size_of_a_giant(folder: Path) -> str:
  return _write(folder / "c", {b"x": _entry((1 << 38,), 0, 1 << 40, b"")}, bytes(16))


def _offset_that_overflows(folder: Path) -> str:
  entry = schema.BundleEntryProto(dtype=1, shape=_shape((4,)), offset=(1 << 63) - 1, size=16).SerializeToString()
  return _write(folder / "c", {b"x": entry}, bytes(16))


def _giant_beside_a_zero(folder: Path) -> str:
  return _write(folder / "c", {b"x": _entry((0, 1 << 62, 1 << 62), 0, 0, b"")}, bytes(16))


def _more_strings_than_bytes(folder: Path) -> str:
  data = bytes(1000)
  return _write(folder / "c", {b"x": _entry((1 << 30,), 0, 1000, data, DType.STRING)}, data)


def _strings_longer_than_the_file(folder: Path) -> str:
  data = encode_varint(1 << 60) + bytes(20)
  return _write(folder / "c", {b"x": _entry((1,), 0, len(data), data, DType.STRING)}, data)


def _block(entries: bytes) -> bytes:
  return entries + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def _table_of_block(block: bytes) -> bytes:
  """Returns a table of one snappy block."""
  stored = bytes(cramjam.snappy.compress_raw(block)) + b"\1"
  stored += masked_crc32c(stored).to_bytes(4, "little")
  handle = encode_varint(0) + encode_varint(len(stored) - 5)
  index = _block(b"\0\1" + encode_varint(len(handle)) + b"~" + handle)
  sealed = index + b"\0"
  footer = encode_varint(0) + encode_varint(0) + encode_varint(len(stored)) + encode_varint(len(index))
  footer = footer.ljust(40, b"\0") + 0xDB4775248B80FB57.to_bytes(8, "little")
  return stored + sealed + masked_crc32c(sealed).to_bytes(4, "little") + footer


def _index_of_long_keys(folder: Path) -> str:
  """Keys of 1 MB that share all but their last bytes with the one before."""
  keys = b"".join(encode_varint(_MIB) + b"\2\0" + i.to_bytes(2, "big") for i in range(1, 5000))
  padding = b"~" * (32 * _MIB)  # a value, so that the block is large enough for its keys
  last = b"\0\1" + encode_varint(len(padding)) + b"~" + padding
  block = b"\0" + encode_varint(_MIB) + b"\0" + bytes(_MIB) + keys + last
  (folder / "c.index").write_bytes(_table_of_block(_block(block)))
  return str(folder / "c")


def _index_of_many_entries(folder: Path) -> str:
  entries = b"".join(b"\0\3\0" + i.to_bytes(3, "big") for i in range(1 << 19))
  (folder / "c.index").write_bytes(_table_of_block(_block(entries)))
  return str(folder / "c")


def _slices_of_a_scalar(folder: Path) -> str:
  entry = schema.BundleEntryProto(dtype=1, slices=[schema.TensorSliceProto()] * (1 << 20)).SerializeToString()
  return _write(folder / "c", {b"x": entry}, bytes(4))


_HOSTILE: dict[str, tuple[Callable[[Path], str], type[GraftaxError], str]] = {
  "slices_of_one_place": (
    _slices_of_one_place,
    LimitExceededError,
    "several tensors share needs .* the limit unpacked_ratio",
  ),
  "tensors_of_one_place": (
    _tensors_of_one_place,
    LimitExceededError,
    "several tensors share needs .* the limit unpacked_ratio",
  ),
  "tensors_that_overlap": (
    _tensors_that_overlap,
    LimitExceededError,
    "several tensors share needs .* the limit unpacked_ratio",
  ),
  "slices_that_overlap": (_slices_that_overlap, DamagedCheckpointError, "5 elements overlap"),
  "slices_that_overlap_beside_a_hole": (_slices_that_overlap_beside_a_hole, DamagedCheckpointError, "do not cover"),
  "slices_of_a_giant": (_slices_of_a_giant, DamagedCheckpointError, "do not cover"),
  "shape_of_many_dimensions": (_shape_of_many_dimensions, DamagedCheckpointError, "cannot be an array"),
  "size_of_a_giant": (_size_of_a_giant, DamagedCheckpointError, "it is cut off"),
  "offset_that_overflows": (_offset_that_overflows, DamagedCheckpointError, "it is cut off"),
  "giant_beside_a_zero": (_giant_beside_a_zero, DamagedCheckpointError, "cannot be an array"),
  "more_strings_than_bytes": (_more_strings_than_bytes, DamagedCheckpointError, "cannot hold 1073741824 strings"),
  "strings_longer_than_the_file": (_strings_longer_than_the_file, DamagedCheckpointError, "do not fill"),
  "index_of_long_keys": (_index_of_long_keys, LimitExceededError, "c.index, block at byte 0 needs"),
  "index_of_many_entries": (_index_of_many_entries, LimitExceededError, "c.index, block at byte 0 needs"),
  "slices_of_a_scalar": (_slices_of_a_scalar, LimitExceededError, "c.index: an index of 1048576 slices needs"),
}


@pytest.mark.parametrize("case", _HOSTILE)
def test_a_hostile_checkpoint_is_a_typed_error(case, tmp_path):
  make, error, message = _HOSTILE[case]
  prefix = make(tmp_path)
  with within_limits(), pytest.raises(error, match=message) as caught:
    read_checkpoint(prefix)
  assert str(caught.value).startswith(prefix)


def test_an_index_of_zeros_is_refused(tmp_path):
  (tmp_path / "c.index").write_bytes(_table_of_block(bytes(400 * _MIB)))
  with within_limits(), pytest.raises(LimitExceededError, match=r"c.index, block at byte 0 needs 419430400 bytes"):
    read_checkpoint(tmp_path / "c", limits=Limits(unpacked_ratio=10))


def test_what_a_limit_refuses_is_read_with_a_higher_limit(tmp_path):
  prefix = _tensors_that_overlap(tmp_path)
  with pytest.raises(LimitExceededError) as caught:
    CheckpointReader(prefix)
  reader = CheckpointReader(prefix, limits=Limits(**{caught.value.limit: caught.value.needed}))
  assert len(reader) == 600
  assert reader["x0599"].shape == (_MIB,)


def test_tensors_that_share_bytes_are_read_if_they_are_small(tmp_path):
  # TensorFlow reads them, too.
  data = np.arange(4, dtype=np.float32).tobytes()
  prefix = _write(tmp_path / "c", {b"a": _entry((4,), 0, 16, data), b"b": _entry((3,), 4, 12, data)}, data)
  values = read_checkpoint(prefix)
  assert (values["a"].tolist(), values["b"].tolist()) == ([0, 1, 2, 3], [1, 2, 3])


@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 127], [128, 1], [300] * 3, [5] * 1000])
def test_strings_of_all_lengths_are_read(tmp_path, lengths):
  from graftax.savedmodel_io import write_checkpoint

  strings = np.array([bytes([65 + i % 20]) * length for i, length in enumerate(lengths)], object)
  write_checkpoint(tmp_path / "c", {"x": strings})
  assert read_checkpoint(tmp_path / "c")["x"].tolist() == strings.tolist()


def test_the_table_of_this_module_is_read():
  assert read_table(_table_of_block(_block(b"\0\1\1ab")), "t") == {b"a": b"b"}
