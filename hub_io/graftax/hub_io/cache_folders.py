"""The folders of caches: only their owner can write to those that we make, and those of others are not trusted."""

import os
import stat
import tempfile
import warnings
from pathlib import Path

from graftax.hub_io.errors import UnsafeCacheError, UnsafeCacheWarning
from graftax.hub_io.kaggle_cache import kaggle_cache_folder
from graftax.hub_io.tfhub_cache import tfhub_cache_folder

__all__ = ["check_caches", "make_private_folder"]

_PRIVATE = 0o700


def make_private_folder(path: Path) -> None:
  """Makes a folder, and those around it that do not exist, so that only their owner can use them."""
  missing = [folder for folder in (path, *path.parents) if not folder.exists()]
  for folder in reversed(missing):
    folder.mkdir(mode=_PRIVATE, exist_ok=True)


def check_caches() -> None:
  """Checks that nobody else can put modules into the caches.

  Raises:
    UnsafeCacheError: a cache is in the folder for temporary files, where anybody may have made it, and belongs to
      another user.

  Warns:
    UnsafeCacheWarning: other users can write to a cache.
  """
  for folder, variable in ((tfhub_cache_folder(), "TFHUB_CACHE_DIR"), (kaggle_cache_folder(), "KAGGLEHUB_CACHE")):
    if hasattr(os, "getuid") and folder.exists():
      _check(folder, variable)


def _check(folder: Path, variable: str) -> None:
  status = folder.stat()
  is_temporary = folder.absolute().parent == Path(tempfile.gettempdir()).absolute()
  if is_temporary and variable not in os.environ and status.st_uid not in (os.getuid(), 0):
    raise UnsafeCacheError(
      f"{folder}: the folder of the cache belongs to user {status.st_uid}, who could put other modules there. Name a "
      f"folder of your own in the environment variable {variable}; if you trust this one, name it there."
    )
  # Many systems give each user a group of their own, so that only others than the group count.
  if status.st_mode & stat.S_IWOTH:
    warnings.warn(
      f"{folder}: all users of the machine can write to the folder of the cache, and so put other modules there. Run "
      f"`chmod go-w {folder}`, or name another folder in the environment variable {variable}.",
      UnsafeCacheWarning,
      stacklevel=4,
    )
