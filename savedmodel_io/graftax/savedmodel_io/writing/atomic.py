"""Writes files and folders under another name first, so that nothing half-written is found under their own.

The other name is a dot, the own name, a random part and `PARTIAL_SUFFIX`, as in `.model.k3x_9a2b.graftax-partial`.
A process that is killed leaves it behind, and the next one that writes something into the same folder deletes it: the
writer holds a lock on a file in it, which the system releases when the process ends. Nothing waits for the disk, so a
power failure may still lose what was written last.
"""

import contextlib
import ctypes
import functools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from graftax.savedmodel_io.errors import MissingFolderError, OutputExistsError

try:
  import fcntl
except ImportError:  # Windows; nothing that a killed process left behind is deleted there
  fcntl = None  # type: ignore[assignment]  # the name of a module

__all__ = ["PARTIAL_SUFFIX", "check_new_file", "check_new_folder", "new_file", "new_folder", "scratch_folder"]

PARTIAL_SUFFIX = ".graftax-partial"
_OVERWRITE = "pass overwrite=True"
# As `tempfile.mkdtemp` makes it.
_SCRATCH_NAME = re.compile(rf"\.(?P<name>.+)\.[a-z0-9_]{{8}}{re.escape(PARTIAL_SUFFIX)}", re.DOTALL)
_LOCK = "graftax-lock"
_PROBE = "graftax-mode"
_OLD = "old"
_ATTEMPTS = 10
# Of the system call renameat2.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
  """Yields a path to write to, whose file takes the place of `path` when the block ends without an error.

  The file is made beside `path`, with the same suffix, so that writers that look at the name see the right one.

  Raises:
    MissingFolderError: a part of the path in front of the name is a file.
    IsADirectoryError: `path` is a folder.
    PermissionError: the system does not let `path` be replaced. Windows refuses while any program has it open.

  Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "labels.txt")
    >>> with new_file(path) as unfinished:
    ...   _ = unfinished.write_text("cat")
    ...   path.exists()
    False
    >>> path.read_text()
    'cat'
  """
  check_new_file(path)
  with scratch_folder(path) as scratch:
    yield scratch / path.name
    if os.name == "posix":  # a library may have renamed a temporary file, which only its owner can read
      (scratch / path.name).chmod(_mode_of_new_files(scratch))
    with _replacing(path):
      os.replace(scratch / path.name, path)


@contextlib.contextmanager
def new_folder(path: Path, *, replaces: str | None = None, how_to_replace: str = _OVERWRITE) -> Iterator[Path]:
  """Yields a folder to fill, which takes the name `path` when the block ends without an error.

  A folder that is replaced changes places with the new one. Where the system cannot do that in one step, it is moved
  into the scratch folder first, and for a moment there is none at `path`.

  Args:
    path: what it is to be called.
    replaces: a file name. A folder of that name that holds such a file is replaced; nothing else ever is.
    how_to_replace: what the error advises if `path` exists.

  Raises:
    OutputExistsError: `path` exists, is not an empty folder, and may not be replaced.
    MissingFolderError: a part of the path in front of the name is a file.
    PermissionError: the system does not let `path` be replaced. Windows refuses while a file in it is open.

  Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "model")
    >>> with new_folder(path) as unfinished:
    ...   _ = (unfinished / "labels.txt").write_text("cat")
    ...   path.exists()
    False
    >>> (path / "labels.txt").read_text()
    'cat'
  """
  check_new_folder(path, replaces=replaces, how_to_replace=how_to_replace)
  with scratch_folder(path) as scratch:
    fresh, old = scratch / "new", scratch / _OLD
    fresh.mkdir()
    yield fresh
    if path.exists() and _exchange(fresh, path):
      return
    try:
      with _replacing(path):
        if path.exists():
          os.rename(path, old)
        os.rename(fresh, path)
    except BaseException:  # an interrupt must not lose the old folder either
      if old.exists() and not path.exists():
        os.rename(old, path)
      raise


def _mode_of_new_files(folder: Path) -> int:
  """Returns the mode that the user's umask gives files. The umask itself cannot be read without being changed."""
  path = folder / _PROBE
  path.touch(mode=0o666, exist_ok=False)
  mode = stat.S_IMODE(path.stat().st_mode)
  path.unlink()
  return mode


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[None]:
  """Gives the `PermissionError` of a rename a message that says what may have the file open."""
  try:
    yield
  except PermissionError as e:
    reason = "" if fcntl else " Windows replaces no file that is open, as those of a loaded model or checkpoint are."
    error = type(e)(
      f"{path}: cannot be replaced ({e.strerror}).{reason} Close what uses it, or choose another name; what was there "
      "is unchanged."
    )
    error.errno = e.errno
    raise error from e


def check_new_file(path: Path) -> None:
  """Returns if `new_file` could make `path`; to be called before long work.

  Args:
    path: the file to write. A file that is there will be replaced.

  Raises:
    IsADirectoryError: `path` is a folder.
    MissingFolderError: a part of the path in front of the name is a file.
  """
  if path.is_dir():
    raise IsADirectoryError(f"{path} is a folder; expected the name of a file to write.")
  _check_parent(path)


def check_new_folder(path: Path, *, replaces: str | None = None, how_to_replace: str = _OVERWRITE) -> None:
  """Returns if `new_folder` could make `path`; to be called before long work.

  Args:
    path: the folder to write. An empty folder may be there.
    replaces: a file name, such as that of a model's graph. A folder at `path` that holds such a file may be replaced.
      If None, no folder may be.
    how_to_replace: what the error advises if `path` exists.

  Raises:
    OutputExistsError: `path` exists, is not an empty folder, and may not be replaced.
    MissingFolderError: a part of the path in front of the name is a file.
  """
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
  """Raises if the folders around `path` cannot be made because one of them is a file."""
  nearest = next((folder for folder in path.absolute().parents if folder.exists() or folder.is_symlink()), None)
  if nearest is not None and not nearest.is_dir():
    raise MissingFolderError(
      f"{path.parent}: no such folder, and it cannot be made, because {nearest} is not a folder; choose another name "
      f"for {path.name!r}."
    )


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
  """Yields an empty folder beside `path`, on the same file system, which is deleted when the block ends.

  Folders around `path` that do not exist are made, and stay.

  Raises:
    OSError: nothing can be made beside `path`. The error has the class and number of the system's, and names `path`.
  """
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    _delete_abandoned(path.parent)
    scratch, lock = _locked_folder(path)
  except OSError as e:  # names a scratch folder that nobody asked for
    error = type(e)(f"{path}: cannot be written, as nothing can be made in {path.parent} ({e.strerror}).")
    error.errno = e.errno
    raise error from e
  try:
    yield scratch
  finally:
    # What was to be replaced is still in there if it could be moved neither on nor back.
    try:
      if path.exists() or not (scratch / _OLD).exists():
        _delete(scratch)
    finally:
      if lock is not None:
        os.close(lock)


def _delete(scratch: Path) -> None:
  """Deletes a scratch folder, and its lock last: if this is interrupted, it can still be seen to be abandoned."""
  for child in list(scratch.iterdir()) if scratch.is_dir() else ():
    if child.is_dir() and not child.is_symlink():
      shutil.rmtree(child, ignore_errors=True)
    elif child.name != _LOCK:
      with contextlib.suppress(OSError):  # Windows keeps files that a writer that failed has open
        child.unlink()
  shutil.rmtree(scratch, ignore_errors=True)


def _locked_folder(path: Path) -> tuple[Path, int | None]:
  """Returns a new folder beside `path`, and the descriptor of a file in it that this process has locked.

  There is no such file on Windows, which would neither delete nor rename the folder while it is open.
  """
  for _ in range(_ATTEMPTS):
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PARTIAL_SUFFIX, dir=path.parent))
    if fcntl is None:
      return scratch, None
    # Until it is locked, another process may take the folder for an abandoned one.
    with contextlib.suppress(FileNotFoundError):
      lock = os.open(scratch / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
      if _try_lock(lock) is not False and (scratch / _LOCK).exists():
        return scratch, lock
      os.close(lock)
  raise FileNotFoundError(0, f"other processes delete new folders in {path.parent}")


def _try_lock(descriptor: int) -> bool | None:
  """Locks a file; returns False if another process has locked it, and None if the file system has no locks."""
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except OSError:
    return None
  return True


def _delete_abandoned(folder: Path) -> None:
  """Deletes the scratch folders of processes that were killed. What they were about to replace is put back."""
  if fcntl is None:
    return
  with os.scandir(folder) as entries:
    found = [Path(entry.path) for entry in entries if entry.name.endswith(PARTIAL_SUFFIX)]
  for scratch in found:
    match = _SCRATCH_NAME.fullmatch(scratch.name)
    if match is None or scratch.is_symlink():
      continue
    with contextlib.suppress(OSError):  # another process deletes it, or it belongs to someone else
      scratch.rmdir()  # killed before it had a lock
    with contextlib.suppress(OSError):
      _delete_if_abandoned(scratch, folder / match["name"])


def _delete_if_abandoned(scratch: Path, path: Path) -> None:
  lock = os.open(scratch / _LOCK, os.O_RDWR)
  try:
    if _try_lock(lock):
      if (scratch / _OLD).exists() and not path.exists():
        os.rename(scratch / _OLD, path)
      _delete(scratch)
  finally:
    os.close(lock)


def _exchange(first: Path, second: Path) -> bool:
  """Makes two folders change places in one step; returns False if the system cannot do that."""
  call = _renameat2()
  return call is not None and call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
  """Returns the function of Linux's C library; None if there is none."""
  try:
    function = ctypes.CDLL(None, use_errno=True).renameat2
  except (AttributeError, OSError, TypeError):
    return None
  function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
  return function
