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
def new_folder(path: Path, *, replaces: str | None = None) -> Iterator[Path]:
  """A folder to fill, which takes the name `path` when the block ends without an error.

  Args:
    path: what it is to be called.
    replaces: a file name. A folder of that name that holds such a file is replaced; nothing else ever is.

  Raises:
    OutputExistsError: `path` exists, is not an empty folder, and may not be replaced.
    FileNotFoundError: the folder around it is not there.
  """
  check_new_folder(path, replaces=replaces)
  with _scratch_folder(path) as scratch:
    fresh, old = scratch / "new", scratch / "old"
    fresh.mkdir()
    yield fresh
    try:
      if path.exists():
        os.rename(path, old)
      os.rename(fresh, path)
    except BaseException:  # an interrupt must not lose the old folder either
      if old.exists() and not path.exists():
        os.rename(old, path)
      raise


def check_new_file(path: Path) -> None:
  """Returns when `new_file` could make `path`; to be called before long work."""
  if path.is_dir():
    raise IsADirectoryError(f"{path} is a folder; expected the name of a file to write.")
  _check_parent(path)


def check_new_folder(path: Path, *, replaces: str | None = None) -> None:
  """Returns when `new_folder` could make `path`; to be called before long work."""
  _check_parent(path)
  if not path.exists() or (path.is_dir() and not any(path.iterdir())):
    return
  if replaces is None:
    raise OutputExistsError(f"{path} exists already; pass --force to replace it, or choose another name.")
  if not (path / replaces).is_file():
    raise OutputExistsError(
      f"{path} exists already, and was not written by this command (it holds no {replaces}), so it is not replaced; "
      f"choose another name."
    )


def _check_parent(path: Path) -> None:
  if not path.parent.is_dir():
    raise FileNotFoundError(f"{path.parent}: no such folder, so {path.name!r} cannot be written there.")


@contextlib.contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
  try:
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
  except OSError as e:  # names a scratch folder that nobody asked for
    raise type(e)(f"{path}: cannot be written, as nothing can be made in {path.parent} ({e.strerror}).") from e
  try:
    yield scratch
  finally:
    shutil.rmtree(scratch, ignore_errors=True)
