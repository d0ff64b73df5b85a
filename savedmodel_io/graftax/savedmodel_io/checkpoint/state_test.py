from pathlib import Path

import pytest

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


def test_absolute_and_escaped_paths_are_understood(tmp_path):
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/models/\\303\\251t\\303\\251/a\\"b"\n')
  assert latest_checkpoint(tmp_path) == '/models/été/a"b'


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
