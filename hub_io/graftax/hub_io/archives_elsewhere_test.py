"""Archives on file systems that do not tell upper from lower case, and on Windows."""

import builtins
import io
import ntpath
import os
import tarfile
from pathlib import Path, PureWindowsPath

import pytest

from graftax.hub_io import archives
from graftax.hub_io.errors import UnsafeArchiveError


def _is_reserved(name: str) -> bool:
  # Python 3.13 moved it.
  return ntpath.isreserved(name) if hasattr(ntpath, "isreserved") else PureWindowsPath(name).is_reserved()


def _archive(*names: str) -> io.BytesIO:
  stream = io.BytesIO()
  with tarfile.open(fileobj=stream, mode="w") as tar:
    for name in names:
      member = tarfile.TarInfo(name.rstrip("/"))
      member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
      tar.addfile(member)
  stream.seek(0)
  return stream


@pytest.fixture
def one_case(monkeypatch, tmp_path) -> Path:
  """Returns a folder below which names are the same if they differ in case only."""

  def folded(path: os.PathLike[str] | str) -> str:
    text = os.fspath(path)
    return str(tmp_path) + text.removeprefix(str(tmp_path)).lower()

  monkeypatch.setattr(archives, "open", lambda path, *args: builtins.open(folded(path), *args), raising=False)
  mkdir, status = os.mkdir, os.stat
  monkeypatch.setattr(
    os, "stat", lambda path, **options: status(folded(path) if isinstance(path, str | os.PathLike) else path, **options)
  )
  monkeypatch.setattr(os, "mkdir", lambda path, *args, **options: mkdir(folded(path), *args, **options))
  return tmp_path


@pytest.mark.parametrize("names", [("a/Vocab.txt", "a/vocab.txt"), ("a/B/", "a/b"), ("a/b", "A/B/c")])
def test_names_that_differ_in_case_only_are_one_clear_error(one_case, names):
  with pytest.raises(UnsafeArchiveError, match="takes for the same"):
    archives.extract_archive(_archive(*names), one_case, name="m.tar")


def test_folders_that_differ_in_case_only_become_one(one_case):
  archives.extract_archive(_archive("a/x", "A/y"), one_case, name="m.tar")
  assert sorted(p.name for p in (one_case / "a").iterdir()) == ["x", "y"]


def test_names_that_differ_in_case_only_are_two_files_here(tmp_path):
  (tmp_path / "probe").touch()
  if (tmp_path / "PROBE").exists():
    pytest.skip("this file system does not tell upper from lower case")
  archives.extract_archive(_archive("a/Vocab.txt", "a/vocab.txt"), tmp_path, name="m.tar")
  assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["Vocab.txt", "vocab.txt"]


_NOT_FOR_WINDOWS = [
  "C:x",
  "a/b:c",
  "nul",
  "a/COM1.txt",
  "aux .txt",
  "a./b",
  "b ",
  "a?",
  "LPT9",
  "x/con.pb",
  'q"',
  "a\x01",
]


@pytest.mark.parametrize("member", _NOT_FOR_WINDOWS)
def test_names_that_windows_takes_for_something_else_are_refused_there(monkeypatch, tmp_path, member):
  monkeypatch.setattr(archives.os, "name", "nt")
  with pytest.raises(UnsafeArchiveError, match="not the name of a file on Windows"):
    archives._checked_path(tarfile.TarInfo(member), "m.tar")


@pytest.mark.parametrize(
  "member", ["saved_model.pb", "variables/variables.data-00000-of-00001", "console.txt", "nullable"]
)
def test_names_of_models_are_files_on_windows(monkeypatch, member):
  monkeypatch.setattr(archives.os, "name", "nt")
  assert archives._checked_path(tarfile.TarInfo(member), "m.tar") == member


@pytest.mark.parametrize("member", ["con", "PRN", "aux.txt", "nul", "com1", "lpt9.x", "CONIN$"])
def test_reserved_names_are_those_of_the_standard_library(member):
  assert _is_reserved(member)
  assert archives._NOT_FOR_WINDOWS.search(member)
