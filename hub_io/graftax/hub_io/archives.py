"""Unpacks archives of modules (.tar.gz, .tar.bz2, .tar) that may be damaged or hostile.

Only regular files and folders are unpacked, with plain relative names. The archive is read once from start to end. The
number and the size of files are limited before anything of that size is read, so memory stays bounded.
"""

import bz2
import gzip
import io
import os
import re
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import BinaryIO

from graftax.graphdef_ir import Budget, LimitExceededError, Limits
from graftax.hub_io.errors import DamagedArchiveError, UnsafeArchiveError

__all__ = ["extract_archive"]

_GZIP = b"\x1f\x8b"
_BZIP2 = b"BZh"
# What tarfile and the decompressors raise for damaged data.
_ERRORS = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError, RecursionError)
_BLOCK_BYTES = tarfile.BLOCKSIZE
# tarfile copies files in small pieces. What it reads at once beyond that are headers, whose size the archive claims.
_MOST_READ_AT_ONCE = 1 << 20
# Seeking forward decompresses in pieces of this size.
_SKIP_BYTES = 1 << 16
# File systems limit names to 255 bytes. Paths of a SavedModel are short; deep folders are hard to delete again.
_MOST_NAME_BYTES = 255
_MOST_DEPTH = 32
# Windows takes these names for devices, drives, streams of other files, or shorter names.
_NOT_FOR_WINDOWS = re.compile(
  r'[<>:"|?*\x00-\x1f]|[. ]$|^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\xb9\xb2\xb3])\s*(?:\.|$)',
  re.IGNORECASE,
)


def extract_archive(stream: BinaryIO, folder: Path, *, name: str, limits: Limits | None = None) -> None:
  """Unpacks a tar archive, compressed with gzip, bzip2 or not, into an existing, empty folder.

  After an error the folder may hold a part of the archive; nothing is written outside of it.

  Args:
    stream: the archive; it is read from start to end, so it may be a socket.
    folder: where to unpack.
    name: what to call the archive in errors.
    limits: what it may unpack to, and how many files it may hold.

  Raises:
    DamagedArchiveError: the archive is cut off, damaged, or not an archive of this kind.
    UnsafeArchiveError: it holds something else than files and folders below its own.
    LimitExceededError: it holds more than the limits allow.
  """
  budget = Budget(limits)
  archive = _Counted(stream)
  first = archive.peek(len(_BZIP2))
  reader = _ForwardReader(_decompressed(archive, first), archive, name, budget)
  try:
    with tarfile.TarFile(fileobj=reader, mode="r") as tar:
      _extract_members(tar, reader, folder, name, budget)
    reader.drain()
  except (*_ERRORS, OSError) as e:
    # bz2 raises a plain OSError without a number for damaged data; others are those of disks and sockets.
    is_of_bz2 = type(e) is OSError and e.errno is None
    is_known = isinstance(e, UnsafeArchiveError | DamagedArchiveError | LimitExceededError)
    if is_known or not (isinstance(e, _ERRORS) or is_of_bz2):
      raise
    raise DamagedArchiveError(
      f"{name}: cannot be unpacked; it is cut off, damaged or not a tar archive ({type(e).__name__}: {e}); it begins "
      f"with {first!r}. Expected a SavedModel in an archive (.tar.gz, .tar.bz2 or .tar). If this should be one, fetch "
      "it again."
    ) from e


def _decompressed(archive: "_Counted", first: bytes) -> io.RawIOBase | io.BufferedIOBase:
  if first.startswith(_GZIP):
    return gzip.GzipFile(fileobj=archive)
  return bz2.BZ2File(archive) if first == _BZIP2 else archive


def _extract_members(tar: tarfile.TarFile, reader: "_ForwardReader", folder: Path, name: str, budget: Budget) -> None:
  kinds: dict[str, bool] = {}  # path within the archive -> whether it is a folder
  num_members = 0
  while (member := tar.next()) is not None:
    num_members += 1
    budget.check_archive_members(num_members, name)
    path = _checked_path(member, name)
    _check_kind(member, name)
    reader.check_size(member.size, member.name)
    if path:
      _add(kinds, path, member.isdir(), name)
      budget.check_archive_members(len(kinds), name)
      _extract(tar, member, folder / path)
  if reader.last_read != bytes(_BLOCK_BYTES):
    raise DamagedArchiveError(
      f"{name}: cut off or damaged after {num_members} files: it does not end with a block of zeros. Fetch it again."
    )


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
  """Writes a file or makes a folder.

  Owners, modes and times are left out, since a hostile archive may set odd ones. `TarFile.extract` can be told so only
  from Python 3.11.4 on.
  """
  try:
    (target if member.isdir() else target.parent).mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    if content is not None:
      with content, open(target, "xb") as f:
        shutil.copyfileobj(content, f)
  except FileExistsError as e:  # equal names were refused before
    raise UnsafeArchiveError(
      f"{member.name!r}: the archive holds another file whose name this file system takes for the same, as if it "
      "differs in case only. Unpack it on another system and rename one."
    ) from e


def _checked_path(member: tarfile.TarInfo, name: str) -> str:
  """Returns the path below the folder, "" for the folder itself."""
  parts = [part for part in member.name.split("/") if part not in ("", ".")]
  is_outside = member.name.startswith("/") or ".." in parts
  if is_outside or any(c in member.name for c in "\\\0"):
    raise UnsafeArchiveError(f"{name}: {member.name!r} is not a plain path within the archive's folder.")
  if os.name == "nt" and (part := next(filter(_NOT_FOR_WINDOWS.search, parts), None)) is not None:
    raise UnsafeArchiveError(f"{name}: {member.name!r} holds {part!r}, which is not the name of a file on Windows.")
  if len(parts) > _MOST_DEPTH or any(len(os.fsencode(part)) > _MOST_NAME_BYTES for part in parts):
    raise UnsafeArchiveError(
      f"{name}: the path {member.name[:_MOST_NAME_BYTES]!r} has {len(parts)} parts; expected at most {_MOST_DEPTH} of "
      f"{_MOST_NAME_BYTES} bytes."
    )
  return "/".join(parts)


def _check_kind(member: tarfile.TarInfo, name: str) -> None:
  if member.issym() or member.islnk():
    raise UnsafeArchiveError(f"{name}: {member.name!r} is a link to {member.linkname!r}; expected files and folders.")
  if not (member.isreg() or member.isdir()) or member.issparse():
    kind = "a sparse file" if member.issparse() else "neither a file nor a folder"
    raise UnsafeArchiveError(f"{name}: {member.name!r} is {kind} (type {member.type!r}); expected files and folders.")


def _add(kinds: dict[str, bool], path: str, is_folder: bool, name: str) -> None:
  """Notes a path, and refuses names that are there twice or as file and folder."""
  parents = path.split("/")[:-1]
  for depth in range(1, len(parents) + 1):
    if not kinds.setdefault("/".join(parents[:depth]), True):
      raise UnsafeArchiveError(f"{name}: {path!r} lies in a folder that is a file of the archive.")
  if path in kinds and not (is_folder and kinds[path]):
    raise UnsafeArchiveError(f"{name}: holds {path!r} twice.")
  kinds[path] = is_folder


class _Counted(io.RawIOBase):
  """A stream that counts the bytes that were read from it, and shows the first ones."""

  def __init__(self, stream: BinaryIO):
    self._stream = stream
    self._first = b""
    self.num_read = 0

  def peek(self, size: int) -> bytes:
    self._first += self._stream.read(size - len(self._first))
    return self._first

  def read(self, size: int = -1) -> bytes:
    data, self._first = self._first[:size], self._first[size:] if size >= 0 else b""
    data += self._stream.read(size - len(data)) if len(data) < size else b""
    self.num_read += len(data)
    return data

  def readable(self) -> bool:
    return True


class _ForwardReader(io.RawIOBase):
  """The unpacked bytes, for tarfile: they can be read in bounded pieces and skipped, but not read twice."""

  def __init__(self, stream: io.RawIOBase | io.BufferedIOBase, archive: _Counted, name: str, budget: Budget):
    self._stream = stream
    self._archive = archive
    self._name = name
    self._budget = budget
    self._position = 0
    self.last_read = b""

  def tell(self) -> int:
    return self._position

  def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
    if position < self._position:
      raise UnsafeArchiveError(f"{self._name}: a size in it is negative, at byte {self._position}.")
    while self._position < position:
      if not self.read(min(position - self._position, _SKIP_BYTES)):
        raise EOFError(f"unexpected end at byte {self._position}")
    return position

  def read(self, size: int = -1) -> bytes:
    if not 0 <= size <= _MOST_READ_AT_ONCE:
      raise UnsafeArchiveError(f"{self._name}: a header at byte {self._position} claims to be {size} bytes long.")
    self._budget.spend_unpacked_bytes(size, self._archive.num_read, f"{self._name}: byte {self._position}")
    pieces: list[bytes] = []
    missing = size
    while missing and (piece := self._stream.read(missing)):
      pieces.append(piece)
      missing -= len(piece)
    self.last_read = b"".join(pieces)
    self._position += size - missing
    return self.last_read

  def drain(self) -> None:
    """Reads the rest, so that the checksum at the end is verified."""
    while self.read(_SKIP_BYTES):
      pass

  def check_size(self, size: int, what: str) -> None:
    """Raises if another `size` bytes go beyond the limits."""
    if size < 0:
      raise UnsafeArchiveError(f"{self._name}: {what!r} has the size {size}.")
    # Not spent: what is read is counted, and the archive may hold less. The ratio is that of what was read.
    Budget(self._budget.limits).spend_unpacked_bytes(
      self._position + size, self._position + size, f"{self._name}: {what!r}"
    )
