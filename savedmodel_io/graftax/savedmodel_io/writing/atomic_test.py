import os

import pytest

from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing.atomic import PARTIAL_SUFFIX, new_file, new_folder, scratch_folder


def test_a_file_appears_whole(tmp_path):
  target = tmp_path / "x.npz"
  with new_file(target) as path:
    path.write_text("half")
    assert path.suffix == ".npz"
    assert not target.exists()
  assert target.read_text() == "half"
  assert os.listdir(tmp_path) == ["x.npz"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
  target = tmp_path / "x.npz"
  target.write_text("old")
  with pytest.raises(RuntimeError), new_file(target) as path:
    path.write_text("new")
    raise RuntimeError
  assert target.read_text() == "old"
  assert os.listdir(tmp_path) == ["x.npz"]


def test_a_file_is_not_written_over_a_folder(tmp_path):
  with pytest.raises(IsADirectoryError, match="is a folder"), new_file(tmp_path):
    pass


def test_a_folder_that_is_not_there_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match="nowhere"), new_file(tmp_path / "nowhere" / "x.npz"):
    pass
  with pytest.raises(FileNotFoundError, match="nowhere"), new_folder(tmp_path / "nowhere" / "x"):
    pass


def test_a_folder_appears_whole(tmp_path):
  with new_folder(tmp_path / "out") as path:
    (path / "a").write_text("1")
    assert not (tmp_path / "out").exists()
  assert (tmp_path / "out" / "a").read_text() == "1"
  assert os.listdir(tmp_path) == ["out"]


def test_a_folder_with_something_in_it_is_kept_unless_told_otherwise(tmp_path):
  (tmp_path / "out").mkdir()
  with new_folder(tmp_path / "out") as path:  # empty: nothing is lost
    (path / "a").write_text("1")
  with pytest.raises(OutputExistsError, match="overwrite=True to replace it"), new_folder(tmp_path / "out"):
    pass
  with pytest.raises(OutputExistsError, match="--force"), new_folder(tmp_path / "out", how_to_replace="pass --force"):
    pass
  with pytest.raises(OutputExistsError, match="a is a file"), new_folder(tmp_path / "out" / "a", replaces="b"):
    pass
  with pytest.raises(OutputExistsError, match="holds no b"), new_folder(tmp_path / "out", replaces="b"):
    pass
  with new_folder(tmp_path / "out", replaces="a") as path:
    (path / "b").write_text("2")
  assert os.listdir(tmp_path / "out") == ["b"]
  assert os.listdir(tmp_path) == ["out"]


def test_an_error_leaves_the_old_folder(tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "a").write_text("1")
  with pytest.raises(RuntimeError), new_folder(tmp_path / "out", replaces="a") as path:
    (path / "b").write_text("2")
    raise RuntimeError
  assert os.listdir(tmp_path / "out") == ["a"]
  assert os.listdir(tmp_path) == ["out"]


def test_a_scratch_folder_is_recognised_by_its_name(tmp_path):
  with scratch_folder(tmp_path / "out") as path:
    assert path.name.startswith(".out.") and path.name.endswith(PARTIAL_SUFFIX)
  assert os.listdir(tmp_path) == []


def test_an_old_folder_is_moved_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "a").write_text("1")
  rename = os.rename

  def not_the_new_one(source, target):
    if source.name == "new":
      raise KeyboardInterrupt
    rename(source, target)

  monkeypatch.setattr(os, "rename", not_the_new_one)
  with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "out", replaces="a"):
    pass
  assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out" / "a").read_text() == "1"


def test_an_old_folder_that_can_be_moved_nowhere_is_not_deleted(tmp_path, monkeypatch):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "a").write_text("1")
  rename = os.rename

  def only_away(source, target):
    if target == tmp_path / "out":
      raise OSError(5, "disk failure")
    rename(source, target)

  monkeypatch.setattr(os, "rename", only_away)
  with pytest.raises(OSError, match="disk failure"), new_folder(tmp_path / "out", replaces="a"):
    pass
  (left,) = tmp_path.iterdir()
  assert left.name.endswith(PARTIAL_SUFFIX) and (left / "old" / "a").read_text() == "1"


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
  def refuse(**kwargs):
    raise PermissionError(13, "denied")

  monkeypatch.setattr("tempfile.mkdtemp", refuse)
  with pytest.raises(PermissionError, match="out: cannot be written, as nothing can be made in") as raised:
    with new_folder(tmp_path / "out"):
      pass
  assert raised.value.errno == 13
