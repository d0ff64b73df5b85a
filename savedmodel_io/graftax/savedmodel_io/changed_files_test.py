"""What becomes of a loaded model whose files are written to."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from graftax.savedmodel_io import CheckpointReader, load, read_checkpoint, write_checkpoint
from graftax.savedmodel_io.errors import DamagedCheckpointError

_SIZE = 1 << 16


@pytest.fixture
def checkpoint(tmp_path):
  write_checkpoint(tmp_path / "c", {name: np.full(_SIZE, 2, np.float32) for name in ("a", "b")})
  return tmp_path / "c"


def _overwrite(checkpoint, value: float) -> None:
  """Writes into the file, as `rsync --inplace` does."""
  with open(f"{checkpoint}.data-00000-of-00001", "r+b") as f:
    f.write(np.full(2 * _SIZE, value, np.float32).tobytes())
  os.utime(f"{checkpoint}.data-00000-of-00001", ns=(0, 0))


def test_copies_keep_their_values_when_the_file_is_overwritten(checkpoint):
  copied, mapped = read_checkpoint(checkpoint, copy=True), read_checkpoint(checkpoint)
  _overwrite(checkpoint, 9)
  assert {name: set(value.tolist()) for name, value in copied.items()} == {"a": {2}, "b": {2}}
  assert set(mapped["a"].tolist()) == {9}
  assert not copied["a"].flags.writeable


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("verify", [False, True])
def test_values_of_an_overwritten_file_are_not_mixed_with_older_ones(checkpoint, copy, verify):
  reader = CheckpointReader(checkpoint, copy=copy, verify=verify)
  assert reader["a"][0] == 2
  _overwrite(checkpoint, 9)
  for key in ("a", "b"):
    with pytest.raises(DamagedCheckpointError, match="its checksum is"):
      reader[key]


@pytest.mark.parametrize("verify", [False, True])
def test_a_file_that_only_got_another_time_is_read_on(checkpoint, verify):
  reader = CheckpointReader(checkpoint, verify=verify)
  assert reader["a"][0] == 2
  os.utime(f"{checkpoint}.data-00000-of-00001", ns=(0, 0))
  assert reader["a"][0] == reader["b"][0] == 2


def test_a_file_that_is_shortened_is_an_error_on_the_next_read(checkpoint):
  reader = CheckpointReader(checkpoint)
  assert reader["a"][0] == 2
  os.truncate(f"{checkpoint}.data-00000-of-00001", 10)
  with pytest.raises(DamagedCheckpointError, match="was shortened from .* to 10 bytes .*copy=True"):
    reader["b"]


def test_a_file_that_another_takes_the_place_of_is_read_on(checkpoint):
  reader = CheckpointReader(checkpoint)
  assert reader["a"][0] == 2
  write_checkpoint(checkpoint, {name: np.full(_SIZE, 9, np.float32) for name in ("a", "b")}, overwrite=True)
  assert reader["b"][0] == 2


_TRUNCATED = """
import os, sys
from graftax.savedmodel_io import read_checkpoint
values = read_checkpoint(sys.argv[1], copy=sys.argv[2] == "True")
os.truncate(sys.argv[1] + ".data-00000-of-00001", 10)
print(float(values["b"].sum()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems end the process with other signals")
@pytest.mark.parametrize("copy", [False, True])
def test_only_copies_outlive_a_file_that_is_shortened(checkpoint, copy):
  command = [sys.executable, "-c", _TRUNCATED, str(checkpoint), str(copy)]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if copy:
    assert (done.returncode, done.stdout) == (0, f"{2.0 * _SIZE}\n"), done.stderr
  else:
    assert done.returncode == -signal.SIGBUS


def test_a_model_is_loaded_as_copies(tmp_path):
  from pathlib import Path

  model = load(Path(__file__).parent / "testdata/2026_11_21/keras_export", copy=True)
  mapped = load(Path(__file__).parent / "testdata/2026_11_21/keras_export")
  for name, value in model.variables.items():
    assert isinstance(value, np.ndarray)
    np.testing.assert_array_equal(value, mapped.variables[name])
    assert not np.shares_memory(value, model.variables[name]) or not value.size
