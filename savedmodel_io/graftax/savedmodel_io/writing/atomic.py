"""Writes files and folders under another name first, so that nothing half-written is found under their own.

The other name is a dot, the own name, a random part and `PARTIAL_SUFFIX`, as in `.model.k3x_9a2b.graftax-partial`.
A process that is killed leaves it behind; it may then be deleted. Nothing waits for the disk, so a power failure may
still lose what was written last.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from graftax.savedmodel_io.errors import MissingFolderError, OutputExistsError

__all__ = ["PARTIAL_SUFFIX", "check_new_file", "check_new_folder", "new_file", "new_folder", "scratch_folder"]

PARTIAL_SUFFIX = ".graftax-partial"
_OVERWRITE = "pass overwrite=True"


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
  """Yields a path to write to, whose file takes the place of `path` when the block ends without an error.

  The file is made beside `path`, with the same suffix, so that writers that look at the name see the right one.

  Raises:
    MissingFolderError: the folder of `path` does not exist.
    IsADirectoryError: `path` is a folder.
  """
  check_new_file(path)
  with scratch_folder(path) as scratch:
    yield scratch / path.name
    os.replace(scratch / path.name, path)


@contextlib.contextmanager
def new_folder(path: Path, *, replaces: str | None = None, how_to_replace: str = _OVERWRITE) -> Iterator[Path]:
  """Yields a folder to fill, which takes the name `path` when the block ends without an error.

  A folder that is replaced is moved into the scratch folder first, so for a moment there is none at `path`.

  Args:
    path: what it is to be called.
    replaces: a file name. A folder of that name that holds such a file is replaced; nothing else ever is.
    how_to_replace: what the error advises if `path` exists.

  Raises:
    OutputExistsError: `path` exists, is not an empty folder, and may not be replaced.
    MissingFolderError: the folder around it does not exist.
  """
  check_new_folder(path, replaces=replaces, how_to_replace=how_to_replace)
  with scratch_folder(path) as scratch:
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
  """Returns if `new_file` could make `path`; to be called before long work."""
  if path.is_dir():
    raise IsADirectoryError(f"{path} is a folder; expected the name of a file to write.")
  _check_parent(path)


def check_new_folder(path: Path, *, replaces: str | None = None, how_to_replace: str = _OVERWRITE) -> None:
  """Returns if `new_folder` could make `path`; to be called before long work."""
  _check_parent(path)
  if not path.exists() or (path.is_dir() and not any(path.iterdir())):
    return
  if not path.is_dir():
    raise OutputExistsError(f"{path} is a file, and files are not replaced by folders; choose another name.")
  if replaces is None:
    raise OutputExistsError(f"{path} exists already; {how_to_replace} to replace it, or choose another name.")
  if not (path / replaces).is_file():
    raise OutputExistsError(
      f"{path} exists already, but holds no {replaces}, so it is something else and is not replaced; choose another "
      "name."
    )


def _check_parent(path: Path) -> None:
  if not path.parent.is_dir():
    raise MissingFolderError(
      f"{path.parent}: no such folder, so {path.name!r} cannot be written there; make the folder first."
    )


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
  """Yields an empty folder beside `path`, on the same file system, which is deleted when the block ends."""
  try:
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PARTIAL_SUFFIX, dir=path.parent))
  except OSError as e:  # names a scratch folder that nobody asked for
    error = type(e)(f"{path}: cannot be written, as nothing can be made in {path.parent} ({e.strerror}).")
    error.errno = e.errno
    raise error from e
  try:
    yield scratch
  finally:
    # What was to be replaced is still in there if it could be moved neither on nor back.
    if path.exists() or not (scratch / "old").exists():
      shutil.rmtree(scratch, ignore_errors=True)
