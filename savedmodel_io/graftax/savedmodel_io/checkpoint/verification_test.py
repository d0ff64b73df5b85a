"""A flipped bit in stored data is an error in every format, unless the caller asks for no verification."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint import bundle_reader
from graftax.savedmodel_io.checkpoint.crc32c import masked_crc32c
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader, read_checkpoint
from graftax.savedmodel_io.checkpoint.table_reader import read_table
from graftax.savedmodel_io.errors import DamagedCheckpointError
from graftax.savedmodel_io.saved_model import load

_DATA = Path(__file__).parents[1] / "testdata" / "2026_11_21"


def _copy(name: str, tmp_path: Path) -> Path:
  return Path(shutil.copytree(_DATA / name, tmp_path / name))


def _flip_bit(path: Path, offset: int) -> None:
  data = bytearray(path.read_bytes())
  data[offset] ^= 1
  path.write_bytes(data)


def _flip_bit_of(prefix: Path, key: str, *, last: bool = False) -> Path:
  """Flips a bit of one tensor's bytes, or of one stored slice; returns the file."""
  table = read_table(Path(f"{prefix}.index").read_bytes(), "index")
  is_partitioned = CheckpointReader(prefix).entry(key).slices
  name = min(k for k in table if k.startswith(b"\x00" + key.encode())) if is_partitioned else key.encode()
  entry = schema.BundleEntryProto.FromString(table[name])
  (shard,) = prefix.parent.glob(f"{prefix.name}.data-{entry.shard_id:05d}-of-*")
  _flip_bit(shard, entry.offset + (entry.size - 1 if last else 0))
  return shard


def test_a_flipped_bit_of_a_tensor_is_an_error(tmp_path):
  prefix = _copy("sharded", tmp_path) / "ckpt"
  shard = _flip_bit_of(prefix, "b")
  with pytest.raises(DamagedCheckpointError) as caught:
    read_checkpoint(prefix)
  entry = CheckpointReader(prefix).entry("b")
  data = shard.read_bytes()[entry.offset_bytes : entry.offset_bytes + entry.size_bytes]
  assert str(caught.value) == (
    f"{shard}: tensor 'b' at byte {entry.offset_bytes}: its checksum is {masked_crc32c(data):#010x}, but the index "
    f"stores {entry.crc32c:#010x}. The file was damaged after it was written; copy it again from its source. To read "
    "the damaged values anyway, pass verify=False."
  )


def test_a_flipped_bit_of_a_stored_slice_is_an_error(tmp_path):
  prefix = _copy("partitioned_v2", tmp_path) / "model.ckpt"
  _flip_bit_of(prefix, "rows")
  with pytest.raises(DamagedCheckpointError, match=r"model\.ckpt\.data-.*slice .* of 'rows' at byte \d+: its checksum"):
    CheckpointReader(prefix)["rows"]


def test_a_region_is_verified_with_the_slices_that_it_touches(tmp_path):
  prefix = _copy("partitioned_v2", tmp_path) / "model.ckpt"
  _flip_bit_of(prefix, "rows")
  reader = CheckpointReader(prefix)
  with pytest.raises(DamagedCheckpointError, match="its checksum"):
    reader.read_region("rows", (slice(0, 1), slice(0, 4)))
  assert reader.read_region("rows", (slice(4, 5), slice(0, 4))).tolist() == [[16, 17, 18, 19]]


def test_a_flipped_bit_of_a_string_is_an_error(tmp_path):
  prefix = _copy("dtypes", tmp_path) / "ckpt"
  _flip_bit_of(prefix, "strings", last=True)
  with pytest.raises(DamagedCheckpointError, match=r"'strings' at byte \d+: its checksum"):
    CheckpointReader(prefix)["strings"]


def test_a_flipped_bit_of_a_checkpoint_in_format_1_is_an_error(tmp_path):
  path = _copy("partitioned_v1", tmp_path) / "model.ckpt"
  _flip_bit(path, 20)
  for verify in (True, False):
    with pytest.raises(DamagedCheckpointError, match=r"model\.ckpt: .*block at byte 0.*copy it again"):
      read_checkpoint(path, verify=verify)


def test_a_flipped_bit_of_an_index_is_an_error_even_without_verification(tmp_path):
  prefix = _copy("sharded", tmp_path) / "ckpt"
  _flip_bit(prefix.with_name("ckpt.index"), 20)
  with pytest.raises(DamagedCheckpointError, match=r"ckpt\.index: .*block at byte 0.*copy it again"):
    CheckpointReader(prefix, verify=False)


@pytest.mark.parametrize(
  ("folder", "key"), [("sharded/ckpt", "b"), ("partitioned_v2/model.ckpt", "rows"), ("dtypes/ckpt", "strings")]
)
def test_damaged_values_are_read_if_verification_is_off(tmp_path, folder, key):
  name, _, file = folder.partition("/")
  prefix = _copy(name, tmp_path) / file
  sound = np.array(CheckpointReader(prefix)[key])  # a copy: the file changes in place
  _flip_bit_of(prefix, key, last=True)
  assert not np.array_equal(CheckpointReader(prefix, verify=False)[key], sound)
  assert not np.array_equal(read_checkpoint(prefix, verify=False)[key], sound)
  assert not np.array_equal(CheckpointReader(prefix).read(key, verify=False), sound)


def test_a_damaged_parameter_is_an_error_when_a_model_is_converted(tmp_path):
  folder = _copy("keras_export", tmp_path)
  model = load(folder)
  key = model.variables.info("sequential/head/bias").checkpoint_key
  _flip_bit_of(folder / "variables/variables", key)
  with pytest.raises(DamagedCheckpointError, match=re.escape(f"{key!r} at byte")):
    load(folder).convert("serving_default")
  _, params = load(folder, verify=False).convert("serving_default")
  assert "sequential/head/bias" in params


def test_a_tensor_is_verified_once_and_only_if_it_is_read(monkeypatch):
  verified = []

  def count(data):
    verified.append(data.size)
    return masked_crc32c(data)

  monkeypatch.setattr(bundle_reader, "masked_crc32c", count)
  reader = CheckpointReader(_DATA / "sharded/ckpt")
  assert not verified
  for _ in range(2):
    assert not reader["a"].flags.owndata
    reader.read_region("a", (slice(0, 1), slice(0, 2)))
  assert verified == [24]


@pytest.mark.parametrize(
  ("name", "key"),
  [("sharded/ckpt", "b"), ("partitioned_v2/model.ckpt", "rows"), ("dtypes/ckpt", "strings"), ("dtypes/ckpt", "bool")],
)
def test_verify_finds_a_flipped_bit_in_any_tensor(tmp_path, name, key):
  folder, _, prefix = name.partition("/")
  prefix = _copy(folder, tmp_path) / prefix
  CheckpointReader(prefix).verify()
  _flip_bit_of(prefix, key, last=True)
  with pytest.raises(DamagedCheckpointError, match=r"its checksum|string"):
    CheckpointReader(prefix).verify()


def test_what_verify_has_read_is_not_verified_again(tmp_path, monkeypatch):
  reader = CheckpointReader(_DATA / "sharded/ckpt")
  reader.verify()
  monkeypatch.setattr(bundle_reader, "masked_crc32c", None)
  assert reader["b"].tolist() == [1.5, -2.0]
  CheckpointReader(_DATA / "partitioned_v1/model.ckpt").verify()
