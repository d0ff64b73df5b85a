import os
import pickle
import socket
import threading
from pathlib import Path

import pytest

from graftax.graphdef_ir import ModelFolder, UnreadableFileError, UnsafeFileError, open_regular_file, read_regular_file

_WHAT = "ReadFile node 'read' (function 'f')"


@pytest.fixture(autouse=True)
def no_further_folders(monkeypatch):
  monkeypatch.delenv("GRAFTAX_ALLOW_FILES_IN", raising=False)


@pytest.fixture
def model(tmp_path) -> Path:
  (tmp_path / "secret").write_bytes(b"secret")
  (tmp_path / "model/assets").mkdir(parents=True)
  (tmp_path / "model/assets/words").write_bytes(b"a\nb\n")
  return tmp_path / "model"


def test_files_below_the_folder_are_read(model, monkeypatch):
  folder = ModelFolder.of(model)
  assert folder.read(model / "assets/words", _WHAT) == b"a\nb\n"
  assert folder.size_bytes(model / "assets/../assets/words", _WHAT) == 4
  monkeypatch.chdir(model)
  assert folder.read("assets/words", _WHAT) == b"a\nb\n"
  assert ModelFolder.of(".").read("assets/words", _WHAT) == b"a\nb\n"
  assert pickle.loads(pickle.dumps(folder)) == folder


@pytest.mark.parametrize(
  "name", ["/etc/passwd", "{model}/../secret", "{model}/..", "{model}2/x", "../../../../etc/passwd"]
)
def test_paths_that_lead_out_are_refused(model, name):
  with pytest.raises(UnsafeFileError, match=r"ReadFile node 'read' \(function 'f'\): .*allow_files_in=\['"):
    ModelFolder.of(model).read(name.format(model=model), _WHAT)


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "{model}/../secret"])
def test_links_that_lead_out_are_refused(model, target):
  os.symlink(target.format(model=model), model / "assets/link")
  for use in (ModelFolder.open, ModelFolder.read, ModelFolder.size_bytes):
    with pytest.raises(UnsafeFileError, match="leads to '.*', which is outside of the folder of the model"):
      use(ModelFolder.of(model), model / "assets/link", _WHAT)


def test_a_linked_folder_that_leads_out_is_refused(model, tmp_path):
  os.symlink(tmp_path, model / "assets/outside")
  with pytest.raises(UnsafeFileError, match="outside of the folder"):
    ModelFolder.of(model).read(model / "assets/outside/secret", _WHAT)


def test_links_that_stay_inside_and_a_linked_model_are_read(model, tmp_path):
  os.symlink("words", model / "assets/link")
  os.symlink(model, tmp_path / "alias")
  assert ModelFolder.of(tmp_path / "alias").read(tmp_path / "alias/assets/link", _WHAT) == b"a\nb\n"


def test_a_file_that_the_caller_named_may_be_a_link(model, tmp_path):
  os.symlink(tmp_path / "secret", model / "saved_model.pb")
  assert ModelFolder.of(model, files=[model / "saved_model.pb"]).read(model / "saved_model.pb", _WHAT) == b"secret"


def test_the_line_in_the_message_reads_the_file(model, tmp_path):
  # As in a cache of Hugging Face: the files of a snapshot link into the folder `blobs`.
  (tmp_path / "blobs").mkdir()
  (tmp_path / "blobs/0a1b").write_bytes(b"x")
  os.symlink("../blobs/0a1b", model / "saved_model.pb")
  with pytest.raises(UnsafeFileError, match=f"pass allow_files_in=\\['{tmp_path}/blobs'\\]"):
    ModelFolder.of(model).read(model / "saved_model.pb", _WHAT)
  for allowed in (str(tmp_path / "blobs"), [tmp_path / "blobs"], "/"):
    assert ModelFolder.of(model, allowed).read(model / "saved_model.pb", _WHAT) == b"x"


def test_folders_in_the_environment_are_allowed(model, tmp_path, monkeypatch):
  monkeypatch.setenv("GRAFTAX_ALLOW_FILES_IN", os.pathsep.join(["/nowhere", str(tmp_path)]))
  assert ModelFolder.of(model).read(tmp_path / "secret", _WHAT) == b"secret"


def test_a_model_without_a_folder_reads_nothing(model):
  with pytest.raises(UnsafeFileError, match="a graph without a folder of its own may read none"):
    ModelFolder.of(None).read(model / "assets/words", _WHAT)
  assert ModelFolder.of(None, model).read(model / "assets/words", _WHAT) == b"a\nb\n"


def test_what_is_not_a_regular_file_is_refused_without_waiting(model, monkeypatch):
  os.mkfifo(model / "pipe")
  os.symlink("pipe", model / "link")
  os.mkdir(model / "folder")
  monkeypatch.chdir(model)  # the path of a socket has at most 107 bytes
  with socket.socket(socket.AF_UNIX) as listener:
    listener.bind("socket")
  folder = ModelFolder.of(model, "/dev")
  kinds = [("pipe", "a named pipe"), ("link", "a named pipe"), ("folder", "a folder"), ("socket", "a socket")]
  done = threading.Event()

  def refused():
    for name, kind in [*kinds, ("/dev/zero", "a device")]:
      for read in (folder.read, read_regular_file, open_regular_file, folder.size_bytes):
        with pytest.raises(UnsafeFileError, match=f"{kind}; expected a regular file"):
          read(model / name, _WHAT)
    done.set()

  thread = threading.Thread(target=refused, daemon=True)
  thread.start()
  thread.join(20)
  assert done.is_set()


def test_a_tree_for_another_library_holds_only_files_that_may_be_read(model, tmp_path):
  os.symlink("assets", model / "again")
  os.symlink("..", model / "assets/circle")
  os.symlink("words", model / "assets/link")
  os.symlink("nothing", model / "dangling")
  ModelFolder.of(model).check_all(model, _WHAT)
  os.symlink(tmp_path / "secret", model / "assets/out")
  with pytest.raises(UnsafeFileError, match="outside of the folder"):
    ModelFolder.of(model).check_all(model, _WHAT)
  ModelFolder.of(model, tmp_path).check_all(model, _WHAT)
  os.mkfifo(model / "assets/pipe")
  with pytest.raises(UnsafeFileError, match="a named pipe"):
    ModelFolder.of(model, tmp_path).check_all(model, _WHAT)


def test_a_missing_file_is_not_found(model):
  for name in ("missing", "assets/words/below", "assets/missing/x"):
    with pytest.raises(FileNotFoundError, match="ReadFile node 'read'"):
      ModelFolder.of(model).open(model / name, _WHAT)
    with pytest.raises(FileNotFoundError):
      read_regular_file(model / name, _WHAT)


def test_names_that_no_file_can_have_are_typed_errors(model):
  with pytest.raises(UnsafeFileError, match="not the path of a file"):
    ModelFolder.of(model).read(f"{model}/a\0b", _WHAT)
  with pytest.raises(UnsafeFileError, match="not the path of a file"):
    read_regular_file(f"{model}/a\0b", _WHAT)
  with pytest.raises(UnreadableFileError, match="ReadFile node 'read'.*cannot be read"):
    ModelFolder.of(model).read(model / ("x" * 5000), _WHAT)
  os.symlink("loop", model / "loop")
  with pytest.raises((UnreadableFileError, UnsafeFileError)):
    ModelFolder.of(model).read(model / "loop", _WHAT)


def test_a_file_that_is_too_large_is_not_read(model):
  with open(model / "sparse", "wb") as f:
    f.truncate(1 << 40)
  with pytest.raises(UnsafeFileError, match="1099511627776 bytes; expected at most 2147483647"):
    ModelFolder.of(model).read(model / "sparse", _WHAT)
  with pytest.raises(UnsafeFileError, match="4 bytes; expected at most 3"):
    ModelFolder.of(model).read(model / "assets/words", _WHAT, max_bytes=3)


def test_a_link_to_itself_is_left_to_what_reads_the_folder(model):
  (model / "assets/loop").symlink_to("loop")
  ModelFolder.of(model).check_all(model, _WHAT)
