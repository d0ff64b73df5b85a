"""Writing files and folders so that nothing half-written is ever found under their name."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from graftax.tools.errors import OutputExistsError

__all__ = ["check_new_file", "check_new_folder", "new_file", "new_folder"]


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
  """A path to write to, whose file takes the place of `path` when the block ends without an error.

  The file is made beside `path`, with the same suffix, so that writers that look at the name see the right one.

  Raises:
    FileNotFoundError: the folder of `path` is not there.
    IsADirectoryError: `path` is a folder.
  """
  check_new_file(path)
  with _scratch_folder(path) as scratch:
    yield scratch / path.name
    os.replace(scratch / path.name, path)


@contextlib.contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
  """A folder to fill, which takes the name `path` when the block ends without an error.

  Args:
    path: what it is to be called.
    replace: when something is there already, put the new folder in its place.

  Raises:
    OutputExistsError: `path` exists, is not an empty folder, and `replace` is false.
    FileNotFoundError: the folder around it is not there.
  """
  check_new_folder(path, replace=replace)
  with _scratch_folder(path) as scratch:
    fresh, old = scratch / "new", scratch / "old"
    fresh.mkdir()
    yield fresh
    if path.exists():
      os.rename(path, old)
    try:
      os.rename(fresh, path)
    except OSError:
      if old.exists():
        os.rename(old, path)
      raise


def check_new_file(path: Path) -> None:
  """Returns when `new_file` could make `path`; to be called before long work."""
  if path.is_dir():
    raise IsADirectoryError(f"{path} is a folder; expected the name of a file to write.")
  _check_parent(path)


def check_new_folder(path: Path, *, replace: bool) -> None:
  """Returns when `new_folder` could make `path`; to be called before long work."""
  _check_parent(path)
  if path.exists() and not replace and not (path.is_dir() and not any(path.iterdir())):
    raise OutputExistsError(f"{path} exists already; pass --force to replace it, or choose another name.")


def _check_parent(path: Path) -> None:
  if not path.parent.is_dir():
    raise FileNotFoundError(f"{path.parent}: no such folder, so {path.name!r} cannot be written there.")


@contextlib.contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
  scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
  try:
    yield scratch
  finally:
    shutil.rmtree(scratch, ignore_errors=True)
