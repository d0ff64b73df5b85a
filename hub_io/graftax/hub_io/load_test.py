import hashlib
import os
import shutil
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from graftax.hub_io import load
from graftax.hub_io.errors import AmbiguousArchiveError, DamagedCacheWarning, ModuleNotCachedError
from graftax.savedmodel_io.errors import SavedModelNotFoundError, UnknownTagsError

_DATA = Path(__file__).parent / "testdata/2026_11_22"
_URL = "https://tfhub.dev/publisher/model/1"


def _archive(path: Path, module: str = "tf1_module") -> Path:
  with tarfile.open(path, "w:gz", dereference=True) as tar:  # under Bazel the files are links
    tar.add(_DATA / module, ".")
  return path


def _in_tfhub_cache(caches: Path, handle: str, module: str = "tf1_module") -> Path:
  return Path(shutil.copytree(_DATA / module, caches / "tfhub" / hashlib.sha1(handle.encode()).hexdigest()))


def _in_kaggle_cache(caches: Path, name: str, module: str = "tf1_module", *, complete: bool = True) -> Path:
  folder = Path(shutil.copytree(_DATA / module, caches / "kaggle/models" / name))
  if complete:
    folder.with_name(f"{folder.name}.complete").touch()
  return folder


@pytest.mark.parametrize("name", ["module.tar.gz", "module.tgz", "renamed.bin"])
def test_an_archive_is_unpacked_once(name, tmp_path):
  archive = _archive(tmp_path / name)
  module = load(archive, {"train"})
  written = os.stat(Path(module.path, "saved_model.pb")).st_mtime_ns
  assert module.handle == str(archive)
  assert load(str(archive), offline=True).variables["norm/gamma"].tolist() == [1, 2, 0.5]
  assert os.stat(Path(module.path, "saved_model.pb")).st_mtime_ns == written


@pytest.mark.parametrize("compression", ["gz", "bz2", ""])
def test_a_model_in_folders_of_an_archive_is_found(compression, tmp_path):
  # The layout of the object detection API: a frozen graph beside the folder of the SavedModel.
  with tarfile.open(tmp_path / "m.tar", f"w:{compression}", dereference=True) as tar:
    tar.add(_DATA / "tf2_module", "ssd_2018/saved_model")
    tar.add(_DATA / "tf2_module/saved_model.pb", "ssd_2018/frozen_inference_graph.pb")
  module = load(tmp_path / "m.tar")
  assert module.path.endswith("ssd_2018/saved_model")
  assert load(tmp_path / "m.tar", offline=True).path == module.path


def test_an_archive_with_several_models_says_which(tmp_path):
  with tarfile.open(tmp_path / "m.tar", "w", dereference=True) as tar:
    tar.add(_DATA / "tf2_module", "models/one")
    tar.add(_DATA / "tf1_module", "models/two")
  with pytest.raises(
    AmbiguousArchiveError, match=r"m\.tar: there are 2 SavedModels in it, in the folders models/one, models/"
  ):
    load(tmp_path / "m.tar")


def test_a_model_in_a_folder_of_a_kaggle_entry_is_found(caches):
  folder = _in_kaggle_cache(caches, "a/b/tensorFlow2/c/1", "tf2_module")
  folder.rename(folder.with_name("inner"))
  folder.mkdir()
  folder.with_name("inner").rename(folder / "inner")
  assert load("a/b/tensorFlow2/c/1", offline=True).path == str(folder / "inner")


def test_another_archive_of_the_same_name_is_another_module(tmp_path):
  first = load(_archive(tmp_path / "m.tar.gz"))
  second = load(_archive(tmp_path / "m.tar.gz", "tf2_module"))
  assert first.is_tf1_hub
  assert not second.is_tf1_hub
  np.testing.assert_array_equal(first.variables["norm/gamma"], [1, 2, 0.5])  # its files are still there


def test_unknown_tags_of_an_archive_are_the_callers_mistake(tmp_path):
  with pytest.raises(UnknownTagsError):
    load(_archive(tmp_path / "m.tar.gz"), "serve")
  assert load(tmp_path / "m.tar.gz").tags == frozenset()


@pytest.mark.parametrize("handle", [_URL, "https://www.kaggle.com/models/a/b/tensorFlow1/c/1", "gs://x/m.tar.gz"])
def test_modules_in_tensorflow_hubs_cache_are_read_offline(handle, caches):
  folder = _in_tfhub_cache(caches, handle)
  module = load(handle, {"train"}, offline=True)
  assert (module.path, module.handle, module.tags) == (str(folder), handle, frozenset({"train"}))


def test_a_module_that_was_cached_by_its_plain_address_is_found(caches):
  _in_tfhub_cache(caches, _URL)
  assert load(f"{_URL}/", offline=True).is_tf1_hub
  assert load("gs://tfhub-modules/publisher/model/1.tar.gz", offline=True).is_tf1_hub


def test_models_in_kaggles_cache_are_read_offline(caches):
  folder = _in_kaggle_cache(caches, "a/b/tensorFlow1/c/3")
  for handle in ("a/b/tensorFlow1/c/3", "a/b/tensorflow1/c/3", "https://kaggle.com/models/a/b/TensorFlow1/c/3"):
    assert load(handle, offline=True).path == str(folder)


def test_without_a_version_the_newest_complete_one_is_read(caches):
  _in_kaggle_cache(caches, "a/b/tensorFlow2/c/9")
  newest = _in_kaggle_cache(caches, "a/b/tensorFlow2/c/10")
  _in_kaggle_cache(caches, "a/b/tensorFlow2/c/11", complete=False)
  assert load("a/b/tensorFlow2/c", offline=True).path == str(newest)


def test_a_tfhub_handle_is_found_in_kaggles_cache(caches):
  folder = _in_kaggle_cache(caches, "google/yamnet/tensorFlow2/yamnet/1", "tf2_module")
  assert load("https://tfhub.dev/google/yamnet/1", offline=True).path == str(folder)


def test_offline_an_undamaged_copy_elsewhere_is_read(caches):
  (_in_tfhub_cache(caches, "https://tfhub.dev/google/yamnet/1", "tf2_module") / "saved_model.pb").write_bytes(b"")
  folder = _in_kaggle_cache(caches, "google/yamnet/tensorFlow2/yamnet/1", "tf2_module")
  assert load("https://tfhub.dev/google/yamnet/1", offline=True).path == str(folder)


def test_offline_a_module_that_is_nowhere_raises(caches):
  with pytest.raises(ModuleNotCachedError, match=r"neither in TF-Hub's nor in Kaggle's cache \(.*tfhub and .*kaggle\)"):
    load(_URL, offline=True)
  with pytest.raises(
    ModuleNotCachedError, match=r"moved to Kaggle.* to which https://tfhub.dev/a/b/1 leads in a browser"
  ):
    load("https://tfhub.dev/a/b/1", offline=True)
  with pytest.raises(ModuleNotCachedError, match=r"or copy it there\.$"):
    load("https://tfhub.dev/google/yamnet/1", offline=True)
  (caches / "tfhub" / hashlib.sha1(_URL.encode()).hexdigest()).mkdir(parents=True)  # empty: not there for TF-Hub either
  with pytest.raises(ModuleNotCachedError, match="neither"):
    load(_URL, offline=True)
  assert not list((caches / "tfhub").glob("*-lock"))


def test_offline_a_half_written_model_raises(caches):
  _in_kaggle_cache(caches, "a/b/tensorFlow1/c/3", complete=False)
  with pytest.raises(ModuleNotCachedError, match="half-written"):
    load("a/b/tensorFlow1/c/3", offline=True)


_DAMAGES = {
  "no_model": lambda folder: os.remove(folder / "saved_model.pb"),
  "model_cut_off": lambda folder: os.truncate(folder / "saved_model.pb", 1000),
  "model_empty": lambda folder: os.truncate(folder / "saved_model.pb", 0),
  "web_page": lambda folder: (folder / "saved_model.pb").write_bytes(b"<html>"),
  "no_index": lambda folder: os.remove(folder / "variables/variables.index"),
  "index_cut_off": lambda folder: os.truncate(folder / "variables/variables.index", 100),
  "no_values": lambda folder: os.remove(folder / "variables/variables.data-00000-of-00001"),
  "values_changed": lambda folder: (folder / "variables/variables.data-00000-of-00001").write_bytes(bytes(108)),
  "values_cut_off": lambda folder: os.truncate(folder / "variables/variables.data-00000-of-00001", 50),
  "no_variables": lambda folder: shutil.rmtree(folder / "variables"),
  "description_cut_off": lambda folder: os.truncate(folder / "tfhub_module.pb", 1),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_copy_is_said_and_fetched_again(damage, tmp_path):
  archive = _archive(tmp_path / "m.tar.gz")
  folder = Path(load(archive).path)
  _DAMAGES[damage](folder)
  with pytest.warns(DamagedCacheWarning, match=f"the copy in {folder} is damaged .*; it is fetched again"):
    module = load(archive)
  np.testing.assert_array_equal(module.variables["norm/gamma"], [1, 2, 0.5])
  with warnings.catch_warnings(action="error"):
    load(archive)
  assert not list(folder.parent.glob("*partial*"))


@pytest.mark.parametrize("damage", _DAMAGES)
def test_offline_a_damaged_copy_is_an_error(damage, caches):
  _DAMAGES[damage](_in_tfhub_cache(caches, _URL))
  with pytest.raises(ModuleNotCachedError, match="is damaged"):
    load(_URL, offline=True)


def test_a_folder_that_exists_is_read_where_it_is(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  shutil.copytree(_DATA / "tf2_module", tmp_path / "a/b/tensorFlow2/c")
  assert load("a/b/tensorFlow2/c").path == "a/b/tensorFlow2/c"
  with pytest.raises(SavedModelNotFoundError, match="There are SavedModels in"):
    load("a/b/tensorFlow2")


def test_a_keras_file_is_no_archive(tmp_path):
  (tmp_path / "m.keras").write_bytes(b"PK")
  with pytest.raises(SavedModelNotFoundError, match=r"The weights of a Keras file are read with"):
    load(tmp_path / "m.keras")
