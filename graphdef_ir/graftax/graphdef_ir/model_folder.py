"""The files that a model may read: `ModelFolder`, through which every file is opened that a model names.

A model names files in many places: constants that are paths, records of assets, the `checkpoint` file, symbolic links.
All of them are opened here: a regular file in the model's own folder, or in a folder that the caller named.

    >>> folder = ModelFolder.of(os.path.dirname(__file__))
    >>> folder.read(__file__, "this module").startswith(b'\"\"\"The files')
    True
    >>> folder.read("/etc/passwd", "ReadFile node 'x'")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    graftax.graphdef_ir.errors.UnsafeFileError: ReadFile node 'x': '/etc/passwd' is outside of the folder of the model
"""

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader
from typing import TypeAlias

from graftax.graphdef_ir.errors import UnreadableFileError, UnsafeFileError

__all__ = ["ALLOW_FILES_VARIABLE", "FolderPaths", "ModelFolder", "open_regular_file", "read_regular_file"]

FolderPaths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One folder or several."""

ALLOW_FILES_VARIABLE = "GRAFTAX_ALLOW_FILES_IN"
"""The environment variable with further folders for all models, separated as `PATH` is."""

# What protobuf parses at most. Tables and other files that are read whole are far smaller.
_MOST_BYTES = (1 << 31) - 1
# O_NONBLOCK: opening a FIFO would wait for a writer. Neither flag exists on every system.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# The path has no links any more when it is opened.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_KINDS = (
  (stat.S_ISDIR, "a folder"),
  (stat.S_ISFIFO, "a named pipe"),
  (stat.S_ISCHR, "a device"),
  (stat.S_ISBLK, "a device"),
  (stat.S_ISSOCK, "a socket"),
)


@dataclass(frozen=True, slots=True)
class ModelFolder:
  """The files that one model may read.

  Example:
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (path / "labels.txt").write_text("cat")
    >>> folder = ModelFolder.of(path)
    >>> folder.read(path / "labels.txt", "labels")
    b'cat'
    >>> folder.read(path.parent / "others.txt", "labels")
    Traceback (most recent call last):
    graftax.graphdef_ir.errors.UnsafeFileError: labels...

  Attributes:
    path: the folder of the model as the caller named it; None if the model has none, such as a graph in memory.
    folders: the folders whose files may be read, without links: that of the model and those that the caller allows.
    files: single files that the caller named, without links. They may lie elsewhere.
  """

  path: str | None = None
  folders: tuple[str, ...] = ()
  files: tuple[str, ...] = ()

  @classmethod
  def of(
    cls,
    path: str | os.PathLike[str] | None,
    allow_files_in: FolderPaths = (),
    *,
    files: Iterable[str | os.PathLike[str]] = (),
  ) -> "ModelFolder":
    """Returns the files in a folder, and in others that the caller allows.

    Args:
      path: the folder of the model, which may be a symbolic link; None for a model without one.
      allow_files_in: further folders. Those in the environment variable `GRAFTAX_ALLOW_FILES_IN` are added.
      files: single files that the caller named, which may be symbolic links to anywhere.
    """
    named = [allow_files_in] if isinstance(allow_files_in, str | os.PathLike) else list(allow_files_in)
    named += filter(None, os.environ.get(ALLOW_FILES_VARIABLE, "").split(os.pathsep))
    own = [] if path is None else [os.fspath(path)]
    folders = dict.fromkeys(os.path.realpath(folder) for folder in (*own, *named))
    return cls(own[0] if own else None, tuple(folders), tuple(map(os.path.realpath, files)))

  def resolved(self, path: str | os.PathLike[str], what: str) -> str:
    """Returns a path without symbolic links, if the model may read what is there. There need not be a file.

    Args:
      path: the path, absolute or from the working directory.
      what: the beginning of the error message: what names the file.

    Raises:
      UnsafeFileError: the path, or a link on it, leads out of the folders.
    """
    name = os.fspath(path)
    if self.path is not None and (real := _without_links(name, self.path, self.folders[0])) is not None:
      return real
    try:
      real = os.path.realpath(name)
    except ValueError as e:  # a null character
      raise UnsafeFileError(f"{what}: {name!r} is not the path of a file: {e}.") from e
    if real in self.files or any(_is_within(real, folder) for folder in self.folders):
      return real
    raise UnsafeFileError(self._outside(name, real, what))

  def open(self, path: str | os.PathLike[str], what: str) -> BufferedReader:
    """Opens a file for reading.

    Args:
      path: the file, absolute or relative to the working folder; links are followed as long as they stay inside.
      what: the beginning of the error message.

    Raises:
      FileNotFoundError: it does not exist.
      UnsafeFileError: it lies outside of the folders, or is not a regular file.
      UnreadableFileError: the system cannot open it.
    """
    return _opened(self.resolved(path, what), what, _FLAGS | _NO_LINKS)

  def read(self, path: str | os.PathLike[str], what: str, *, max_bytes: int = _MOST_BYTES) -> bytes:
    """Returns the content of a file.

    Args:
      path: the file, as for `open`.
      what: the beginning of the error message.
      max_bytes: the largest size that is read.

    Raises:
      FileNotFoundError: it does not exist.
      UnsafeFileError: it lies outside of the folders, is not a regular file, or has more than `max_bytes`.
      UnreadableFileError: the system cannot read it.
    """
    return _content(self.open(path, what), what, max_bytes)

  def size_bytes(self, path: str | os.PathLike[str], what: str) -> int:
    """Returns the size of a file.

    Args:
      path: the file, as for `open`.
      what: the beginning of the error message.

    Raises:
      FileNotFoundError: it does not exist.
      UnsafeFileError: it lies outside of the folders, or is not a regular file.
      UnreadableFileError: the system cannot look at it.
    """
    real = self.resolved(path, what)
    try:
      status = os.stat(real)
    except OSError as e:
      raise _unreadable(e, real, what) from e
    _check_regular(status, real, what)
    return status.st_size

  def check_all(self, path: str | os.PathLike[str], what: str) -> None:
    """Raises if a folder that another library reads holds something besides folders and files that may be read.

    Args:
      path: the folder, absolute or relative to the working folder; it must lie in one of the folders of the load.
      what: the beginning of the error message.

    Raises:
      UnsafeFileError: a link leads out of the folders, or something is not a regular file.
      UnreadableFileError: the system cannot look into it.
    """
    folders = [self.resolved(path, what)]
    seen = set(folders)
    for folder in folders:  # grows while it is walked
      try:
        entries = list(os.scandir(folder))
      except OSError as e:
        raise _unreadable(e, folder, what) from e
      for entry in entries:
        real = self.resolved(entry.path, what) if entry.is_symlink() else entry.path
        if os.path.isdir(real):
          folders += [] if real in seen else [real]
          seen.add(real)
        elif not os.path.isfile(real) and os.path.exists(real):  # neither raises for a link to itself
          _check_regular(os.stat(real), real, what)

  def _outside(self, name: str, real: str, what: str) -> str:
    leads = f"{name!r}" if real == os.path.abspath(name) else f"{name!r} leads to {real!r}, which"
    folder = os.path.dirname(real)
    if self.path is None:
      return (
        f"{what}: {leads} is a file, and a graph without a folder of its own may read none. If you trust it to read "
        f"that file, pass allow_files_in=[{folder!r}]."
      )
    return (
      f"{what}: {leads} is outside of the folder of the model, {self.path!r}. If you trust the model to read that "
      f"file, pass allow_files_in=[{folder!r}] when it is loaded."
    )


def open_regular_file(path: str | os.PathLike[str], what: str) -> BufferedReader:
  """Opens a file that the caller named, wherever its links lead.

  Args:
    path: the path.
    what: the beginning of the error message.

  Raises:
    FileNotFoundError: it does not exist.
    UnsafeFileError: it is not a regular file; opening a named pipe would wait, and a device may have no end.
    UnreadableFileError: the system cannot open it.
  """
  return _opened(os.fspath(path), what, _FLAGS)


def read_regular_file(path: str | os.PathLike[str], what: str, *, max_bytes: int = _MOST_BYTES) -> bytes:
  """Returns the content of a file that the caller named.

  Args:
    path: the file. Links are followed wherever they lead, because the caller chose the path, not a model.
    what: the beginning of the error message.
    max_bytes: the largest size that is read.

  Raises:
    FileNotFoundError: it does not exist.
    UnsafeFileError: it is not a regular file, or has more than `max_bytes`.
    UnreadableFileError: the system cannot read it.

  Example:
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels.txt")
    >>> _ = path.write_text("cat")
    >>> read_regular_file(path, "labels of the model", max_bytes=100)
    b'cat'
  """
  return _content(open_regular_file(path, what), what, max_bytes)


def _without_links(name: str, folder: str, real_folder: str) -> str | None:
  """Returns a path in the resolved folder, if it is spelled below the folder and nothing below it is a link; else None.

  Almost all files of models are so, and the folders around that of the model need not be looked at again.
  """
  # Windows has a second separator, folders that are links by another name, and names that are not compared by case.
  if os.altsep or not name.startswith(folder + os.sep) or "\0" in name:
    return None
  parts = name[len(folder) + 1 :].split(os.sep)
  if any(part in ("", os.curdir, os.pardir) for part in parts):
    return None
  inside = real_folder
  for part in parts:
    inside = f"{inside}{os.sep}{part}"
    try:
      if stat.S_ISLNK(os.lstat(inside).st_mode):
        return None
    except OSError:
      return None
  return inside


def _is_within(real: str, folder: str) -> bool:
  return real == folder or real.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _opened(path: str, what: str, flags: int) -> BufferedReader:
  try:
    # Opening a device can have effects, so it is looked at first.
    _check_regular(os.stat(path), path, what)
    descriptor = os.open(path, flags)
  except (OSError, ValueError) as e:
    if isinstance(e, UnsafeFileError):
      raise
    raise _unreadable(e, path, what) from e
  file = os.fdopen(descriptor, "rb")
  try:
    _check_regular(os.fstat(descriptor), path, what)
  except BaseException:
    file.close()
    raise
  return file


def _content(file: BufferedReader, what: str, max_bytes: int) -> bytes:
  with file:
    try:
      size = os.fstat(file.fileno()).st_size
      data = file.read(max_bytes + 1) if size <= max_bytes else b""
    except OSError as e:
      raise _unreadable(e, "the file", what) from e
  if size > max_bytes or len(data) > max_bytes:
    raise UnsafeFileError(f"{what}: the file has {max(size, len(data))} bytes; expected at most {max_bytes}.")
  return data


def _check_regular(status: os.stat_result, path: str, what: str) -> None:
  if stat.S_ISREG(status.st_mode):
    return
  kind = next((kind for test, kind in _KINDS if test(status.st_mode)), "of another kind")
  raise UnsafeFileError(f"{what}: {path!r} is {kind}; expected a regular file.")


def _unreadable(error: OSError | ValueError, path: str, what: str) -> Exception:
  if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR):
    return FileNotFoundError(error.errno, f"{what}: no such file", path)
  if isinstance(error, ValueError):
    return UnsafeFileError(f"{what}: {path!r} is not the path of a file: {error}.")
  found = UnreadableFileError(f"{what}: {path!r} cannot be read: {error.strerror or error}.")
  found.errno = error.errno
  return found
