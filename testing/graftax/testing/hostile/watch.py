"""What a process opens while it reads a file: every file that Python opens, and files that nothing may open at all."""

import ctypes
import os
import socket
import stat
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["Canaries", "Watch", "plant"]

_OPENS = "open os.listdir os.scandir os.mkdir os.rename os.remove os.link os.truncate".split()
_PROCESSES = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "subprocess.Popen", "os.startfile")
_CONNECTIONS = ("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request")
_HARMLESS = tuple("/proc/ /sys/ /dev/null /dev/urandom /dev/shm/ /usr/lib/ /usr/share/ /lib/ /etc/ld.so".split())
_SPECIAL_FILES = (stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK)
_IN_ACCESS, _IN_OPEN = 0x1, 0x20


class Watch:
  """Records what this process opens while it is on. Python cannot remove an audit hook, so there is one for a process.

  Attributes:
    seen: what was opened although it may not be, as text.
  """

  def __init__(self) -> None:
    self.seen: list[str] = []
    self._allowed: tuple[str, ...] = ()
    self._is_on = False
    roots = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values(), *filter(None, sys.path)}
    caches = [os.environ.get("JAX_COMPILATION_CACHE_DIR", "")]
    # As they are named, too: under Bazel, the modules in them are links to elsewhere.
    named = {resolve(root) for root in [*roots, *caches] if root for resolve in (os.path.realpath, os.path.abspath)}
    self._usual = tuple(root + os.sep for root in named) + _HARMLESS
    sys.addaudithook(self._hear)

  def start(self, allowed: Iterable[Path]) -> None:
    """Begins to record; files in `allowed` folders, and those of the interpreter, are not recorded."""
    self.seen = []
    self._allowed = tuple(os.path.realpath(folder) for folder in allowed)
    self._is_on = True

  def stop(self) -> list[str]:
    """Ends it and returns what was recorded."""
    self._is_on = False
    return self.seen

  def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
    if not self._is_on:
      return
    if event in _OPENS:
      self._hear_path(event, arguments[0] if arguments else None)
    elif event in _PROCESSES:
      # Helper processes of graftax are this interpreter.
      if event not in ("subprocess.Popen", "os.posix_spawn", "os.exec") or str(arguments[0]) != sys.executable:
        self.seen.append(f"{event} {arguments[0] if arguments else ''}")
    elif event in _CONNECTIONS and not _is_local(arguments):
      self.seen.append(f"{event} {arguments[1:]}")

  def _hear_path(self, event: str, path: Any) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
      return  # a descriptor, which was opened by a path before
    self._is_on = False
    try:
      text = os.fsdecode(path)
      full = os.path.realpath(text)
      # Only opening a pipe or a device can block or never end.
      is_special = event == "open" and os.path.exists(full) and stat.S_IFMT(os.stat(full).st_mode) in _SPECIAL_FILES
      is_allowed = self._is_allowed(full) or os.path.abspath(text).startswith(self._usual)
      if full.startswith(_HARMLESS) or (is_allowed and not is_special):
        return
      # The model's path may be the beginning of names beside it, as that of a checkpoint is.
      if event in ("os.listdir", "os.scandir") and full == os.path.dirname(self._allowed[0]):
        return
      self.seen.append(f"{event} {text}")
      if is_special:
        raise PermissionError(f"{text}: a device or pipe")
    except ValueError:
      return  # zeros in a path, which the system refuses
    finally:
      self._is_on = True

  def _is_allowed(self, path: str) -> bool:
    if any(path == folder or path.startswith(folder + os.sep) for folder in self._allowed):
      return True
    return path.startswith(self._usual) or path + os.sep in self._usual


def _is_local(arguments: tuple[Any, ...]) -> bool:
  return bool(arguments) and isinstance(arguments[0], socket.socket) and arguments[0].family == socket.AF_UNIX


def plant(outside: Path, secret: bytes) -> None:
  """Writes files that no reader may open: a text, a file of each format, and a FIFO, which would block for ever."""
  outside.mkdir()
  (outside / "secret.txt").write_bytes(secret + b"\n" + secret + b"\n")
  names = "saved_model.pb x.safetensors x.h5 x.index x.data-00000-of-00001 checkpoint array.bin"
  for name in names.split():
    (outside / name).write_bytes(secret * 4)
  os.mkfifo(outside / "fifo")


class Canaries:
  """Notices when any process opens a file in a folder, also without Python; only on Linux."""

  def __init__(self, folder: Path) -> None:
    self._descriptor = -1
    if not sys.platform.startswith("linux"):
      return
    libc = ctypes.CDLL(None, use_errno=True)
    self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
    # A watch of the folder tells of its files, too; those of the folder itself are told without a name.
    libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _IN_ACCESS | _IN_OPEN)

  def touched(self) -> list[str]:
    """Returns the names of the files that were opened since the last call."""
    if self._descriptor < 0:
      return []
    try:
      data = os.read(self._descriptor, 1 << 16)
    except BlockingIOError:
      return []
    names, position = [], 0
    while position < len(data):
      size = int.from_bytes(data[position + 12 : position + 16], sys.byteorder)
      name = data[position + 16 : position + 16 + size].rstrip(b"\0")
      if name:
        names.append(os.fsdecode(name))
      position += 16 + size
    return sorted(set(names))

  def close(self) -> None:
    """Stops watching."""
    if self._descriptor >= 0:
      os.close(self._descriptor)
