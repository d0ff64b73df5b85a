import os
import shutil
from pathlib import Path

import pytest

from graftax.graphdef_ir import UnsafeFileError
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.checkpoint.state import checkpoint_paths, latest_checkpoint
from graftax.savedmodel_io.errors import CheckpointNotFoundError, DamagedCheckpointError

_TRAINING = Path(__file__).parents[1] / "testdata/2026_11_21/training"


def test_the_latest_checkpoint_of_a_training_folder_can_be_opened():
  reader = CheckpointReader(latest_checkpoint(_TRAINING))
  assert reader["step/.ATTRIBUTES/VARIABLE_VALUE"][()] == 2
  assert reader["net/0/.ATTRIBUTES/VARIABLE_VALUE"].tolist() == [3.0, 4.0]


def test_all_checkpoints_are_listed_oldest_first():
  assert [Path(path).name for path in checkpoint_paths(_TRAINING)] == ["ckpt-1", "ckpt-2"]


def test_escaped_paths_are_understood(tmp_path):
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "\\303\\251t\\303\\251/a\\"b"\n')
  assert latest_checkpoint(tmp_path) == f'{tmp_path}/été/a"b'


@pytest.mark.parametrize("written", ["{outside}/ckpt-2", "../outside/ckpt-2"])
def test_checkpoints_in_other_folders_are_read_only_if_the_caller_allows_it(tmp_path, written):
  folder, outside = tmp_path / "folder", tmp_path / "outside"
  shutil.copytree(_TRAINING, outside)
  folder.mkdir()
  written = written.format(outside=outside)
  (folder / "checkpoint").write_text(
    f'model_checkpoint_path: "{written}"\nall_model_checkpoint_paths: "{written}"\nall_model_checkpoint_paths: "x"\n'
  )
  for read in (latest_checkpoint, CheckpointReader):
    with pytest.raises(UnsafeFileError, match=f"names the newest checkpoint.*allow_files_in=..{outside}"):
      read(folder)
  assert checkpoint_paths(folder) == (f"{folder}/x",)
  path = latest_checkpoint(folder, allow_files_in=outside)
  assert path == os.path.join(folder, written)
  assert CheckpointReader(folder, allow_files_in=[outside])["step/.ATTRIBUTES/VARIABLE_VALUE"][()] == 2
  # As it is after a training folder was copied: the state file names the checkpoints of the first one.
  shutil.copytree(_TRAINING, folder, ignore=lambda *_: ["checkpoint"], dirs_exist_ok=True)
  assert latest_checkpoint(folder) == f"{folder}/ckpt-2"


def test_a_folder_without_a_state_file_is_an_error(tmp_path):
  with pytest.raises(CheckpointNotFoundError, match="no such file"):
    latest_checkpoint(tmp_path)


@pytest.mark.parametrize(
  "content", [b"", b"model_checkpoint_path: 5\n", b"\xff\xfe", b'model_checkpoint_path: "\\xff"']
)
def test_a_state_file_of_something_else_is_an_error(tmp_path, content):
  (tmp_path / "checkpoint").write_bytes(content)
  with pytest.raises(DamagedCheckpointError, match="checkpoint"):
    latest_checkpoint(tmp_path)
