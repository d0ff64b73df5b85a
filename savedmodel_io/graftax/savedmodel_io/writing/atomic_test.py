import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing import atomic
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


def test_folders_around_the_name_are_made(tmp_path):
  with new_file(tmp_path / "a" / "b" / "x.npz") as file:
    file.touch()
  with new_folder(tmp_path / "c" / "x"):
    pass
  assert (tmp_path / "a/b/x.npz").is_file() and (tmp_path / "c/x").is_dir()


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(FileNotFoundError, match="file is not a folder"), new_file(tmp_path / "file" / "x.npz"):
    pass
  with pytest.raises(FileNotFoundError, match="file is not a folder"), new_folder(tmp_path / "file" / "a" / "x"):
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

  monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
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

  monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
  monkeypatch.setattr(os, "rename", only_away)
  with pytest.raises(OSError, match="disk failure"), new_folder(tmp_path / "out", replaces="a"):
    pass
  (left,) = tmp_path.iterdir()
  assert left.name.endswith(PARTIAL_SUFFIX) and (left / "old" / "a").read_text() == "1"
  monkeypatch.undo()
  # The next writer puts it back, whatever it writes.
  with new_file(tmp_path / "x") as path:
    path.write_text("2")
  assert sorted(os.listdir(tmp_path)) == ["out", "x"] and (tmp_path / "out" / "a").read_text() == "1"


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced_in_one_step_or_in_two(tmp_path, monkeypatch, exchanges):
  if not exchanges:
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
  for number in range(3):
    with new_folder(tmp_path / "out", replaces="a") as fresh:
      (fresh / "a").write_text(str(number))
    assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out/a").read_text() == str(number)


_WRITER = """
import sys, time
from pathlib import Path
from graftax.savedmodel_io.writing import atomic
from graftax.savedmodel_io.writing.atomic import new_folder
with new_folder(Path(sys.argv[1])) as path:
  (path / "half").write_text("1")
  print("ready", flush=True)
  time.sleep(60)
"""


def test_what_a_killed_writer_left_is_deleted_and_what_a_living_one_writes_is_not(tmp_path):
  writers = [
    subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path / name)], stdout=subprocess.PIPE)
    for name in ("killed", "alive")
  ]
  try:
    assert [writer.stdout.readline() for writer in writers] == [b"ready\n"] * 2
    (tmp_path / f".empty.abcd_123{PARTIAL_SUFFIX}").mkdir()
    (tmp_path / f".older.abcd_123{PARTIAL_SUFFIX}").mkdir()
    (tmp_path / f".older.abcd_123{PARTIAL_SUFFIX}/x").touch()
    writers[0].kill()
    writers[0].wait()
    with new_file(tmp_path / "x") as path:
      path.write_text("2")
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != "x")
    # One without a lock is that of an older release, which may still be written.
    assert [name.split(".")[1] for name in left] == ["alive", "older"]
  finally:
    for writer in writers:
      writer.kill()
      writer.wait()
      writer.stdout.close()


def test_many_writers_do_not_delete_each_others_folders(tmp_path):
  def write(number):
    for _ in range(20):
      with new_file(tmp_path / f"x{number % 3}") as path:
        path.write_text(str(number))

  with ThreadPoolExecutor(8) as threads:
    list(threads.map(write, range(8)))
  assert sorted(os.listdir(tmp_path)) == ["x0", "x1", "x2"]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
  def refuse(**kwargs):
    raise PermissionError(13, "denied")

  monkeypatch.setattr("tempfile.mkdtemp", refuse)
  with pytest.raises(PermissionError, match="out: cannot be written, as nothing can be made in") as raised:
    with new_folder(tmp_path / "out"):
      pass
  assert raised.value.errno == 13
