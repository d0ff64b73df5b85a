import shutil
from pathlib import Path

import numpy as np
import pytest

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.checkpoint.table_reader import read_table
from graftax.savedmodel_io.checkpoint.table_writer import write_table
from graftax.savedmodel_io.checkpoint.v1_reader import is_v1_checkpoint
from graftax.savedmodel_io.errors import DamagedCheckpointError, UnsupportedCheckpointError

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_TABLE = read_table((_DATA / "partitioned_v1/model.ckpt").read_bytes(), "v1")
_ROWS = sorted(key for key in _TABLE if b"rows" in key)


def _write(path: Path, table: dict[bytes, bytes]) -> Path:
  path.write_bytes(write_table(table, snappy=True))
  return path


def _with_meta(edit) -> dict[bytes, bytes]:
  message = schema.SavedTensorSlices.FromString(_TABLE[b""])
  edit(message.meta)
  return {**_TABLE, b"": message.SerializeToString()}


def _with_record(key: bytes, edit) -> dict[bytes, bytes]:
  message = schema.SavedTensorSlices.FromString(_TABLE[key])
  edit(message.data)
  return {**_TABLE, key: message.SerializeToString()}


def test_a_checkpoint_is_recognised_by_its_files(tmp_path):
  assert is_v1_checkpoint(str(_DATA / "partitioned_v1/model.ckpt"))
  assert not is_v1_checkpoint(str(tmp_path / "model.ckpt"))
  (tmp_path / "model.ckpt-00000-of-00001").touch()
  assert is_v1_checkpoint(str(tmp_path / "model.ckpt"))


def test_a_tensor_may_have_its_slices_in_several_files(tmp_path):
  def part(rows: slice, *, with_others: bool):
    def edit(meta):
      for tensor in list(meta.tensor):
        if tensor.name == "rows":
          kept = list(tensor.slice)[rows]
          del tensor.slice[:]
          tensor.slice.extend(kept)
        elif not with_others:
          meta.tensor.remove(tensor)

    return _with_meta(edit)

  _write(tmp_path / "model.ckpt-00000-of-00002", part(slice(0, 1), with_others=True))
  _write(tmp_path / "model.ckpt-00001-of-00002", part(slice(1, 3), with_others=False))
  reader = CheckpointReader(tmp_path / "model.ckpt")
  np.testing.assert_array_equal(reader["rows"], np.arange(20, dtype=np.float32).reshape(5, 4))


def test_a_table_without_meta_record_is_an_error(tmp_path):
  table = {key: value for key, value in _TABLE.items() if key}
  with pytest.raises(DamagedCheckpointError, match="without the meta record"):
    CheckpointReader(_write(tmp_path / "m", table))


def test_a_file_of_something_else_is_an_error(tmp_path):
  shutil.copy(__file__, tmp_path / "m")
  with pytest.raises(DamagedCheckpointError, match="not the table that a checkpoint in format 1 is"):
    CheckpointReader(tmp_path / "m")


def test_a_later_version_raises(tmp_path):
  table = _with_meta(lambda meta: setattr(meta.versions, "min_consumer", 5))
  with pytest.raises(UnsupportedCheckpointError, match="readers of at least version 5"):
    CheckpointReader(_write(tmp_path / "m", table))


def test_a_missing_record_is_named(tmp_path):
  table = {key: value for key, value in _TABLE.items() if key != _ROWS[1]}
  with pytest.raises(DamagedCheckpointError, match="slice 2,2:0,4 of 'rows': the table has no record"):
    CheckpointReader(_write(tmp_path / "m", table))["rows"]


def test_a_record_with_too_few_values_is_an_error(tmp_path):
  table = _with_record(_ROWS[0], lambda data: data.data.float_val.__delitem__(slice(1, None)))
  with pytest.raises(DamagedCheckpointError, match=r"1 stored values for shape \(2, 4\) of FLOAT"):
    CheckpointReader(_write(tmp_path / "m", table))["rows"]


def test_an_impossible_shape_is_an_error(tmp_path):
  def edit(meta):
    for tensor in meta.tensor:
      tensor.shape.dim[0].size = -1

  with pytest.raises(DamagedCheckpointError, match="the meta record is damaged"):
    CheckpointReader(_write(tmp_path / "m", _with_meta(edit)))


def test_a_type_without_arrays_raises(tmp_path):
  def edit(meta):
    for tensor in meta.tensor:
      tensor.type = 21

  with pytest.raises(UnsupportedCheckpointError, match="'rows' has no array form"):
    CheckpointReader(_write(tmp_path / "m", _with_meta(edit)))["rows"]
