"""Writing where files that are open can be neither replaced nor deleted, as on Windows, and without file locks."""

import errno
import gc
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.savedmodel_io import (
  load,
  read_checkpoint,
  read_safetensors,
  save,
  write_checkpoint,
  write_safetensors,
)
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.writing import atomic

_X = jax.ShapeDtypeStruct((2,), jnp.float32)
_FUNCTIONS = (lambda params, x: x * params["w"], _X)


def _open_files() -> set[str]:
  """Returns the files that this process has open or mapped."""
  links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
  opened = {os.readlink(link) for link in links if os.path.lexists(link)}
  mapped = {
    line.split(maxsplit=5)[5].strip() for line in Path("/proc/self/maps").read_text().splitlines() if line.count("/")
  }
  return opened | mapped


@pytest.fixture
def windows(monkeypatch):
  """Makes renaming and deleting fail for open files and for folders with such, and takes away what Windows lacks."""
  if not os.path.exists("/proc/self/maps"):
    pytest.skip("the open files of a process are listed on Linux only")

  def refusing(function, num_paths):
    def call(*paths, **options):
      real = [os.path.realpath(path) for path in paths[:num_paths] if isinstance(path, str | os.PathLike)]
      if any(name == path or name.startswith(f"{path}/") for name in _open_files() for path in real):
        raise PermissionError(errno.EACCES, "a file is open", str(paths[0]))
      return function(*paths, **options)

    return call

  for name, num_paths in (("replace", 2), ("rename", 2), ("unlink", 1), ("remove", 1), ("rmdir", 1)):
    monkeypatch.setattr(os, name, refusing(getattr(os, name), num_paths))
  monkeypatch.setattr(atomic, "fcntl", None)
  monkeypatch.setattr(atomic, "_exchange", lambda *paths: False)


def _names(folder: Path) -> list[str]:
  return sorted(p.name for p in folder.iterdir())


def test_the_simulation_refuses_to_replace_a_mapped_file(windows, tmp_path):
  np.save(tmp_path / "a.npy", np.ones(3))
  mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
  (tmp_path / "b").touch()
  with pytest.raises(PermissionError):
    os.replace(tmp_path / "b", tmp_path / "a.npy")
  del mapped
  os.replace(tmp_path / "b", tmp_path / "a.npy")


def test_writing_leaves_nothing_behind(windows, tmp_path):
  save(tmp_path / "model", _FUNCTIONS, {"w": np.ones(2, np.float32)})
  write_checkpoint(tmp_path / "ckpt", {"w": np.ones(2, np.float32)})
  write_safetensors(tmp_path / "w.safetensors", {"w": np.ones(2, np.float32)})
  assert _names(tmp_path) == ["ckpt.data-00000-of-00001", "ckpt.index", "model", "w.safetensors"]


def test_a_checkpoint_that_is_read_can_be_replaced(windows, tmp_path):
  prefix = tmp_path / "ckpt"
  write_checkpoint(prefix, {"w": np.zeros(5000, np.float32)})
  reader = CheckpointReader(prefix)
  before = reader["w"]
  write_checkpoint(prefix, {"w": np.ones(5000, np.float32)}, overwrite=True)
  np.testing.assert_array_equal(before, 0)
  np.testing.assert_array_equal(read_checkpoint(prefix)["w"], 1)
  del reader, before
  write_checkpoint(prefix, {"w": np.full(5000, 2, np.float32)}, overwrite=True)
  np.testing.assert_array_equal(read_checkpoint(prefix)["w"], 2)
  # The data file that could not be deleted the first time is deleted the second time.
  *data, index = _names(tmp_path)
  assert index == "ckpt.index"
  assert len({name.rpartition("-")[2] for name in data}) == 1


def test_a_model_that_is_mapped_is_not_replaced_and_stays_whole(windows, tmp_path):
  folder = tmp_path / "model"
  save(folder, _FUNCTIONS, {"w": np.ones(2, np.float32)})
  model = load(folder)
  _, params = model.convert("serving_default")
  with pytest.raises(PermissionError, match=r"model: cannot be replaced .* Windows replaces no file that is open"):
    save(folder, _FUNCTIONS, {"w": np.zeros(2, np.float32)}, overwrite=True)
  assert _names(tmp_path) == ["model"]
  np.testing.assert_array_equal(load(folder).convert("serving_default")[1]["w"], 1)
  del model, params


def test_a_model_that_nothing_maps_is_replaced(windows, tmp_path):
  folder = tmp_path / "model"
  save(folder, _FUNCTIONS, {"w": np.ones(2, np.float32)})
  save(folder, _FUNCTIONS, {"w": np.zeros(2, np.float32)}, overwrite=True)
  assert _names(tmp_path) == ["model"]
  np.testing.assert_array_equal(np.asarray(load(folder).convert("serving_default")[1]["w"]), 0)


def test_a_model_can_be_replaced_while_copies_of_its_values_are_used(windows, tmp_path):
  folder = tmp_path / "model"
  save(folder, _FUNCTIONS, {"w": np.ones(2, np.float32)})
  _, params = load(folder, copy=True).convert("serving_default")
  gc.collect()
  save(folder, _FUNCTIONS, {"w": np.zeros(2, np.float32)}, overwrite=True)
  assert _names(tmp_path) == ["model"]
  np.testing.assert_array_equal(params["w"], 1)


def test_a_file_that_is_open_is_named(windows, tmp_path):
  path = tmp_path / "w.safetensors"
  write_safetensors(path, {"w": np.ones(2, np.float32)})
  with open(path, "rb"), pytest.raises(PermissionError, match=r"w\.safetensors: cannot be replaced"):
    write_safetensors(path, {"w": np.zeros(2, np.float32)}, overwrite=True)
  assert _names(tmp_path) == ["w.safetensors"]
  np.testing.assert_array_equal(read_safetensors(path)["w"], 1)


def test_variables_whose_names_differ_in_case_only_stay_apart(tmp_path):
  params = {"W": np.ones(2, np.float32), "w": np.zeros(2, np.float32)}
  save(tmp_path / "model", (lambda p, x: x * p["W"] + p["w"], _X), params)
  write_checkpoint(tmp_path / "ckpt", params)
  write_safetensors(tmp_path / "w.safetensors", params)
  for read in (
    load(tmp_path / "model").convert("serving_default")[1],
    read_checkpoint(tmp_path / "ckpt"),
    read_safetensors(tmp_path / "w.safetensors"),
  ):
    assert {name: float(np.asarray(value)[0]) for name, value in read.items()} == {"W": 1, "w": 0}


def test_assets_whose_names_differ_in_case_only_are_refused(tmp_path):
  (tmp_path / "a.txt").write_text("a")
  assets = {"Vocab.txt": tmp_path / "a.txt", "vocab.txt": tmp_path / "a.txt"}
  with pytest.raises(SaveInputError, match="'Vocab.txt' and 'vocab.txt', which Windows and macOS take for one name"):
    save(tmp_path / "model", _FUNCTIONS, {"w": np.ones(2, np.float32)}, assets=assets)
