"""TF-Hub's cache of unpacked modules, as `tensorflow_hub` lays it out.

$TFHUB_CACHE_DIR/
  <sha1 of the handle>/                   the module; it gets this name when it is complete
  <sha1 of the handle>.descriptor.txt     which handle it is of; informative only
  <sha1 of the handle>.lock               while tensorflow_hub downloads it
  <sha1 of the handle>.<id>.tmp/          what it has downloaded so far
  <sha1 of the handle>.graftax-lock       held while this package downloads it
"""

import contextlib
import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from graftax.hub_io.errors import DownloadError
from graftax.savedmodel_io.writing.atomic import new_file, scratch_folder

__all__ = ["TfHubEntry", "tfhub_cache_folder"]

_FOLDER_VARIABLE = "TFHUB_CACHE_DIR"
_DEFAULT_NAME = "tfhub_modules"
# tensorflow_hub treats a lock as abandoned if nothing was downloaded for this long.
_ABANDONED_S = 600.0
_POLL_S = 0.5
_MAX_ATTEMPTS = 5


def tfhub_cache_folder() -> Path:
  """Returns the folder of the cache, which need not exist: `$TFHUB_CACHE_DIR`, or one for temporary files."""
  return Path(os.environ.get(_FOLDER_VARIABLE) or Path(tempfile.gettempdir(), _DEFAULT_NAME))


class TfHubEntry:
  """The place of one handle in the cache.

  Attributes:
    handle: the text that the cache knows it by.
    folder: where the module is if it is there.
  """

  def __init__(self, handle: str, cache: Path | None = None):
    self.handle = handle
    self.folder = (tfhub_cache_folder() if cache is None else cache) / hashlib.sha1(handle.encode()).hexdigest()

  @property
  def lock_file(self) -> Path:
    """The lock that this package holds while it writes the entry."""
    return self._beside(".graftax-lock")

  def find(self) -> Path | None:
    """Returns the folder if the cache has the module, in whatever state."""
    # tensorflow_hub treats an empty folder as missing.
    return self.folder if self.folder.is_dir() and any(self.folder.iterdir()) else None

  def replace(self, fill: Callable[[Path], None]) -> Path:
    """Puts what `fill` writes to an empty folder in place of the entry, unless it raises, and returns the folder.

    Only while `lock_file` is held.

    Raises:
      DownloadError: the folder cannot be renamed, or other processes replace it again and again.
    """
    with scratch_folder(self.folder) as scratch:
      fresh = scratch / "new"
      fresh.mkdir()
      fill(fresh)
      self._put(fresh, scratch)
    self._write_descriptor()
    return self.folder

  def _put(self, fresh: Path, scratch: Path) -> None:
    """Renames a folder to the folder of the entry. One that exists, or appears meanwhile, is moved to `scratch`."""
    for attempt in range(_MAX_ATTEMPTS):
      if self.folder.exists():
        os.rename(self.folder, scratch / f"old-{attempt}")
      with contextlib.suppress(OSError):  # tensorflow_hub, which does not know our lock, has just put the module there
        os.rename(fresh, self.folder)
        return
    raise DownloadError(
      f"{self.handle}: {self.folder} cannot be replaced; {_MAX_ATTEMPTS} times something was put there"
    )

  def wait_for_tensorflow_hub(self, abandoned_s: float = _ABANDONED_S) -> None:
    """Returns when no other process downloads the module with tensorflow_hub, or one has stopped doing so."""
    lock = self._beside(".lock")
    while lock.exists() and time.time() - self._last_progress(lock) < abandoned_s:
      time.sleep(_POLL_S)

  def _last_progress(self, lock: Path) -> float:
    """Returns when the lock, or something that is downloaded under it, was last written."""
    written = [lock, *self.folder.parent.glob(f"{self.folder.name}.*.tmp/**/*")]
    return max((_modified(path) for path in written), default=0.0)

  def _write_descriptor(self) -> None:
    now, process = datetime.now(), f"{socket.gethostname()} (PID:{os.getpid()})"
    with new_file(self._beside(".descriptor.txt")) as path:
      path.write_text(f"Module: {self.handle}\nDownload Time: {now}\nDownloader Hostname: {process}", encoding="utf-8")

  def _beside(self, suffix: str) -> Path:
    return self.folder.with_name(self.folder.name + suffix)


def _modified(path: Path) -> float:
  try:
    return path.stat().st_mtime
  except OSError:  # it was renamed or deleted in between
    return 0.0
