import shutil
from pathlib import Path

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

from graftax.graphdef_ir import DType, schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader, read_checkpoint
from graftax.savedmodel_io.checkpoint.table_reader import read_table
from graftax.savedmodel_io.checkpoint.table_writer import write_table
from graftax.savedmodel_io.errors import (
  CheckpointError,
  CheckpointKeyError,
  CheckpointNotFoundError,
  DamagedCheckpointError,
  MissingShardError,
  UnsupportedCheckpointError,
)

_DATA = Path(__file__).parents[1] / "testdata" / "2026_11_21"
_DTYPES = {
  "float32": np.float32,
  "float64": np.float64,
  "float16": np.float16,
  "bfloat16": ml_dtypes.bfloat16,
  "float8_e5m2": ml_dtypes.float8_e5m2,
  "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
  "int8": np.int8,
  "uint8": np.uint8,
  "int16": np.int16,
  "uint16": np.uint16,
  "int32": np.int32,
  "uint32": np.uint32,
  "int64": np.int64,
  "uint64": np.uint64,
  "complex64": np.complex64,
  "complex128": np.complex128,
}


def _copy(name: str, tmp_path: Path) -> Path:
  return Path(shutil.copytree(_DATA / name, tmp_path / name))


def _edit_index(prefix: Path, edit) -> None:
  """Rewrites an index with right checksums, so that only the edit is wrong."""
  path = Path(f"{prefix}.index")
  table = read_table(path.read_bytes(), "index")
  edit(table)
  path.write_bytes(write_table(table))


def _edit_entry(prefix: Path, key: bytes, **fields) -> None:
  def edit(table):
    entry = schema.BundleEntryProto.FromString(table[key])
    for name, value in fields.items():
      setattr(entry, name, value)
    table[key] = entry.SerializeToString()

  _edit_index(prefix, edit)


def _edit_header(prefix: Path, header: schema.BundleHeaderProto) -> None:
  _edit_index(prefix, lambda table: table.update({b"": header.SerializeToString()}))


@pytest.mark.parametrize("name", _DTYPES)
def test_every_dtype_is_read_without_a_copy(name):
  array = CheckpointReader(_DATA / "dtypes/ckpt")[name]
  assert array.dtype == _DTYPES[name]
  np.testing.assert_array_equal(array, np.array([0, 1, 3]).astype(_DTYPES[name]))
  assert not array.flags.owndata
  assert not array.flags.writeable


def test_bool_and_scalar_and_empty_tensors_are_read():
  reader = CheckpointReader(_DATA / "dtypes/ckpt")
  assert reader["bool"].tolist() == [False, True, True]
  assert (reader["scalar"].shape, reader["scalar"][()]) == ((), np.float32(2.5))
  assert (reader["empty"].shape, reader["empty"].dtype) == ((2, 0, 3), np.float32)


def test_a_region_of_a_scalar_is_an_array():
  region = CheckpointReader(_DATA / "dtypes/ckpt").read_region("scalar", ())
  assert isinstance(region, np.ndarray) and region.shape == () and region[()] == 2.5


def test_strings_are_bytes_in_an_object_array():
  reader = CheckpointReader(_DATA / "dtypes/ckpt")
  assert reader["strings"].tolist() == [[b"", b"ab"], [b"\x00\xff", b"x" * 200]]
  assert reader["strings"].dtype == object
  assert reader["no_strings"].shape == (0,)
  assert reader["one_string"][()] == b"one"


def test_keys_are_text_and_entries_are_known_without_reading():
  reader = CheckpointReader(_DATA / "dtypes/ckpt")
  key = "\u00e9t\u00e9/kernel"
  assert key in reader and "nope" not in reader
  assert (reader.shape(key), reader.dtype(key)) == ((2, 3), DType.FLOAT)
  assert list(reader) == sorted(reader, key=str.encode)
  assert len(reader) == 23
  assert repr(reader).endswith("23 tensors)")


def test_a_tensor_at_an_odd_offset_is_still_a_view():
  reader = CheckpointReader(_DATA / "dtypes/ckpt")
  unaligned = [key for key in reader if key in _DTYPES and not reader[key].flags.aligned]
  assert unaligned, "the artifact should have an unaligned tensor"
  assert all(not reader[key].flags.owndata for key in unaligned)


def test_tensors_come_from_their_own_shards():
  tensors = read_checkpoint(_DATA / "sharded/ckpt")
  assert tensors["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
  assert tensors["b"].tolist() == [1.5, -2.0]


@pytest.mark.parametrize("folder", ["partitioned_v1", "partitioned_v2"])
def test_a_partitioned_tensor_is_put_together(folder):
  reader = CheckpointReader(_DATA / folder / "model.ckpt")
  assert dict(reader.items()).keys() == {"rows", "columns", "whole"}
  np.testing.assert_array_equal(reader["rows"], np.arange(20, dtype=np.float32).reshape(5, 4))
  np.testing.assert_array_equal(reader["columns"], np.arange(6, dtype=np.int64).reshape(2, 3))
  assert reader["whole"].tolist() == [b"ab", b""]
  assert len(reader.entry("rows").slices) == 3


@pytest.mark.parametrize("folder", ["partitioned_v1", "partitioned_v2"])
def test_a_region_is_read_across_pieces(folder):
  reader = CheckpointReader(_DATA / folder / "model.ckpt")
  rows = np.arange(20, dtype=np.float32).reshape(5, 4)
  for start in range(6):
    for stop in range(6):
      np.testing.assert_array_equal(
        reader.read_region("rows", (slice(start, stop), slice(1, 3))), rows[start:stop, 1:3]
      )


def test_a_region_of_a_whole_tensor_is_a_view():
  region = CheckpointReader(_DATA / "sharded/ckpt").read_region("a", (slice(1, None), slice(None)))
  assert region.tolist() == [[3, 4, 5]]
  assert not region.flags.owndata


def test_a_region_of_other_rank_or_step_raises():
  reader = CheckpointReader(_DATA / "sharded/ckpt")
  for region in [(slice(None),), (slice(None, None, 2), slice(None))]:
    with pytest.raises(ValueError, match=r"does not fit shape \(2, 3\) of 'a'"):
      reader.read_region("a", region)


def test_an_unknown_key_lists_near_ones():
  with pytest.raises(CheckpointKeyError, match="no tensor 'float31' among 23; near ones: 'float32'"):
    CheckpointReader(_DATA / "dtypes/ckpt").read("float31")


def test_a_wrong_prefix_lists_the_checkpoints_beside_it():
  with pytest.raises(CheckpointNotFoundError, match=r"training/ckpt-1.*training/ckpt-2"):
    CheckpointReader(_DATA / "training/ckpt-7")


def test_a_missing_shard_is_found_when_the_checkpoint_is_opened(tmp_path):
  folder = _copy("sharded", tmp_path)
  (folder / "ckpt.data-00001-of-00002").unlink()
  with pytest.raises(MissingShardError, match="data shard 1 of 2 is missing"):
    CheckpointReader(folder / "ckpt")


def test_a_short_shard_is_found_when_the_checkpoint_is_opened(tmp_path):
  folder = _copy("sharded", tmp_path)
  shard = folder / "ckpt.data-00000-of-00002"
  shard.write_bytes(shard.read_bytes()[:20])
  with pytest.raises(DamagedCheckpointError, match="tensor 'a' ends at byte 24, but the file has 20 bytes"):
    CheckpointReader(folder / "ckpt")


def test_changed_string_lengths_are_always_found(tmp_path):
  folder = _copy("dtypes", tmp_path)
  entry = CheckpointReader(folder / "ckpt").entry("strings")
  shard = folder / "ckpt.data-00000-of-00001"
  data = bytearray(shard.read_bytes())
  data[entry.offset_bytes] += 1
  data[entry.offset_bytes + 1] -= 1
  shard.write_bytes(data)
  with pytest.raises(DamagedCheckpointError, match="checksum of the string lengths"):
    CheckpointReader(folder / "ckpt", verify=False)["strings"]


def test_a_big_endian_checkpoint_raises(tmp_path):
  folder = _copy("sharded", tmp_path)
  _edit_header(folder / "ckpt", schema.BundleHeaderProto(num_shards=2, endianness=1))
  with pytest.raises(UnsupportedCheckpointError, match="little-endian machine"):
    CheckpointReader(folder / "ckpt")


@pytest.mark.parametrize("version", [{"producer": 9, "min_consumer": 7}, {"producer": 9, "bad_consumers": [1]}])
def test_a_later_version_raises(tmp_path, version):
  folder = _copy("sharded", tmp_path)
  _edit_header(folder / "ckpt", schema.BundleHeaderProto(num_shards=2, version=schema.VersionDef(**version)))
  with pytest.raises(UnsupportedCheckpointError, match="bundle format 9"):
    CheckpointReader(folder / "ckpt")


@pytest.mark.parametrize("num_shards", [0, -1, 2**31 - 1])
def test_an_impossible_number_of_shards_raises(tmp_path, num_shards):
  folder = _copy("sharded", tmp_path)
  _edit_header(folder / "ckpt", schema.BundleHeaderProto(num_shards=num_shards))
  with pytest.raises(DamagedCheckpointError, match=f"counts {num_shards} shards"):
    CheckpointReader(folder / "ckpt")


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"shard_id": 2}, "entry 'a' is in shard 2 of 2"),
    ({"offset": -1}, "offset -1 or size 24 is negative"),
    ({"size": 1 << 62}, "but the file has 24 bytes"),
    ({"dtype": 77}, "77 is not a valid DType"),
  ],
)
def test_a_damaged_entry_is_found_when_the_checkpoint_is_opened(tmp_path, fields, message):
  folder = _copy("sharded", tmp_path)
  _edit_entry(folder / "ckpt", b"a", **fields)
  with pytest.raises(DamagedCheckpointError, match=message):
    CheckpointReader(folder / "ckpt")


@pytest.mark.parametrize(
  ("fields", "error", "message"),
  [
    ({"size": 20}, DamagedCheckpointError, r"INT32 \(2, 3\) takes 24 bytes, the index says 20"),
    ({"dtype": 9}, DamagedCheckpointError, r"INT64 \(2, 3\) takes 48 bytes, the index says 24"),
    ({"dtype": 7}, DamagedCheckpointError, "tensor 'a'"),
    ({"dtype": 21}, UnsupportedCheckpointError, "VARIANT has no array form"),
  ],
)
def test_an_entry_that_contradicts_itself_is_found_when_it_is_read(tmp_path, fields, error, message):
  folder = _copy("sharded", tmp_path)
  _edit_entry(folder / "ckpt", b"a", **fields)
  with pytest.raises(error, match=message):
    CheckpointReader(folder / "ckpt")["a"]


@pytest.mark.parametrize("dims", [[0, 2**62], [1] * 70, [2**40, 2**40]])
def test_a_shape_that_no_array_can_have_is_an_error(tmp_path, dims):
  folder = _copy("sharded", tmp_path)
  entry = schema.BundleEntryProto(dtype=3, size=4 if len(dims) > 2 else 0)
  for dim in dims:
    entry.shape.dim.add(size=dim)
  _edit_index(folder / "ckpt", lambda table: table.update({b"a": entry.SerializeToString()}))
  with pytest.raises(DamagedCheckpointError, match="tensor 'a'"):
    CheckpointReader(folder / "ckpt")["a"]


def test_a_missing_slice_is_named(tmp_path):
  folder = _copy("partitioned_v2", tmp_path)

  def drop_last_slice_of_rows(table):
    del table[[key for key in table if key.startswith(b"\x00rows")][-1]]

  _edit_index(folder / "model.ckpt", drop_last_slice_of_rows)
  with pytest.raises(DamagedCheckpointError, match="slice 4,1:0,4 of 'rows': the index has no entry"):
    CheckpointReader(folder / "model.ckpt")["rows"]


def test_slices_that_leave_a_hole_are_an_error(tmp_path):
  folder = _copy("partitioned_v2", tmp_path)

  def forget_last_slice_of_rows(table):
    entry = schema.BundleEntryProto.FromString(table[b"rows"])
    del entry.slices[-1]
    table[b"rows"] = entry.SerializeToString()

  _edit_index(folder / "model.ckpt", forget_last_slice_of_rows)
  with pytest.raises(DamagedCheckpointError, match=r"slices 0,2:0,4, 2,2:0,4 do not cover shape \(5, 4\)"):
    CheckpointReader(folder / "model.ckpt")["rows"]


_INDEX = (_DATA / "partitioned_v2/model.ckpt.index").read_bytes()
_V1 = (_DATA / "partitioned_v1/model.ckpt").read_bytes()
_changes = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3)


def _damage(data: bytes, changes: list[tuple[int, int]], length: int) -> bytes:
  damaged = bytearray(data)
  for position, value in changes:
    damaged[position % len(damaged)] = value
  return bytes(damaged[: length % (len(data) + 1)] if length % 3 == 0 else damaged)


@hypothesis.settings(max_examples=200, deadline=2000)
@hypothesis.given(_changes, st.integers(0, 10_000), st.sampled_from(["index", "v1"]))
def test_a_damaged_checkpoint_file_is_an_error_or_reads_the_same(tmp_path_factory, changes, length, kind):
  folder = tmp_path_factory.mktemp("damaged")
  if kind == "index":
    (folder / "model.ckpt.index").write_bytes(_damage(_INDEX, changes, length))
    shutil.copy(_DATA / "partitioned_v2/model.ckpt.data-00000-of-00001", folder)
  else:
    (folder / "model.ckpt").write_bytes(_damage(_V1, changes, length))
  try:
    tensors = read_checkpoint(folder / "model.ckpt")
  except CheckpointError:
    return
  np.testing.assert_array_equal(tensors["rows"], np.arange(20, dtype=np.float32).reshape(5, 4))


@hypothesis.settings(max_examples=200, deadline=2000)
@hypothesis.given(st.data())
def test_hostile_entries_with_right_checksums_are_errors_or_arrays(tmp_path_factory, data):
  folder = tmp_path_factory.mktemp("hostile")
  shutil.copy(_DATA / "sharded/ckpt.data-00000-of-00002", folder)
  shutil.copy(_DATA / "sharded/ckpt.data-00001-of-00002", folder)
  small = st.one_of(st.integers(-2, 30), st.sampled_from([2**31, 2**62, -(2**63)]))
  entry = schema.BundleEntryProto(
    dtype=data.draw(st.integers(0, 35)),
    shard_id=data.draw(st.integers(-1, 3)),
    offset=data.draw(small),
    size=data.draw(small),
  )
  for size in data.draw(st.lists(small, max_size=3)):
    entry.shape.dim.add(size=size)
  if data.draw(st.booleans()):
    part = entry.slices.add()
    for start, length in data.draw(st.lists(st.tuples(small, small), max_size=3)):
      part.extent.add(start=start, length=length)
  header = schema.BundleHeaderProto(num_shards=2).SerializeToString()
  (folder / "ckpt.index").write_bytes(write_table({b"": header, b"a": entry.SerializeToString()}))
  try:
    read_checkpoint(folder / "ckpt", verify=data.draw(st.booleans()))
  except CheckpointError:
    pass


def test_one_file_of_a_checkpoint_is_not_taken_for_all_of_it():
  for part in (".index", ".data-00000-of-00001"):
    with pytest.raises(CheckpointNotFoundError, match=r"one file of a checkpoint; expected .*'.*training/ckpt-1'$"):
      CheckpointReader(_DATA / f"training/ckpt-1{part}")


def test_of_a_training_folder_the_newest_checkpoint_is_read():
  reader = CheckpointReader(_DATA / "training")
  assert reader.path_prefix.endswith("ckpt-2")
  assert reader["step/.ATTRIBUTES/VARIABLE_VALUE"][()] == 2


def test_a_folder_in_place_of_a_checkpoint_is_told_what_it_holds(tmp_path):
  folder = shutil.copytree(_DATA / "training", tmp_path / "training", ignore=shutil.ignore_patterns("checkpoint"))
  with pytest.raises(CheckpointNotFoundError, match=r"a folder; .*training/ckpt-1, .*training/ckpt-2$"):
    CheckpointReader(folder)
  with pytest.raises(CheckpointNotFoundError, match=r"a folder; .*module/variables/variables$"):
    CheckpointReader(_DATA / "module")
