"""The places in which a module is looked up and to which it is fetched: TF-Hub's cache and Kaggle's cache."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from graftax.graphdef_ir import Limits, open_regular_file
from graftax.hub_io.archives import extract_archive
from graftax.hub_io.download import DownloadOptions, check_digest, download_archive, download_from_kaggle
from graftax.hub_io.errors import DamagedArchiveError, DownloadError, HandleError
from graftax.hub_io.handles import Handle, KaggleModel
from graftax.hub_io.kaggle_cache import KaggleEntry
from graftax.hub_io.module import HubModule
from graftax.hub_io.tfhub_cache import TfHubEntry
from graftax.savedmodel_io import errors

__all__ = ["DAMAGE", "ArchiveSource", "Read", "ModuleSource", "sources_of"]

# What reading a module raises if its files are not those that were downloaded.
DAMAGE = (
  errors.CheckpointNotFoundError,
  errors.DamagedCheckpointError,
  errors.DamagedSavedModelError,
  errors.MissingShardError,
  errors.NotASavedModelError,
  errors.SavedModelNotFoundError,
)

Read = Callable[[Path], HubModule]
"""Reads the module in a folder."""


class ModuleSource(Protocol):
  """A place of a module in a cache, and what puts it there.

  Attributes:
    lock_file: held while the module is put there.
    is_local: whether nothing is downloaded for that.
    hint: what else to write if the module is not found; "" if there is nothing to say.
  """

  lock_file: Path
  is_local: bool
  hint: str

  def find(self) -> Path | None:
    """Returns where the module is, if it is there."""

  def is_half_written(self) -> bool:
    """Returns whether a download was interrupted."""

  def fetch(self, check: Read, *, force: bool) -> Path:
    """Puts the module there, in place of a damaged one if `force`, and returns its folder."""


def sources_of(handle: Handle, limits: Limits, options: DownloadOptions) -> list[ModuleSource]:
  """Returns where to look for a module; the first source can fetch it."""
  tfhub = [TfHubSource(text, handle.download_url or text, limits, handle.hint, options) for text in handle.urls]
  if options.sha256 is not None:
    if handle.download_url is None:
      raise HandleError(f"{handle.text!r}: sha256 is the digest of an archive, and Kaggle has this model in files.")
    return list(tfhub[:1])  # a copy that is named by the handle is of an archive with an unknown digest
  kaggle = [] if handle.kaggle is None else [KaggleSource(handle.kaggle)]
  return [*tfhub, *kaggle] if handle.download_url is not None else [*kaggle, *tfhub]


class ArchiveSource:
  """An archive on the disk. Its place in the cache is named after its bytes."""

  is_local = True
  hint = ""

  def __init__(self, path: Path, limits: Limits, sha256: str | None = None):
    with open_regular_file(path, "the archive of a module") as f:
      digest = hashlib.file_digest(f, "sha256").hexdigest()
    check_digest(digest, sha256, str(path))
    self._path = path
    self._limits = limits
    self._entry = TfHubEntry(f"sha256:{digest}")
    self.lock_file = self._entry.lock_file

  def find(self) -> Path | None:
    return self._entry.find()

  def is_half_written(self) -> bool:
    return False

  def fetch(self, check: Read, *, force: bool) -> Path:
    def fill(folder: Path) -> None:
      with open_regular_file(self._path, "the archive of a module") as f:
        extract_archive(f, folder, name=str(self._path), limits=self._limits)
      _check_module(folder, check, str(self._path))

    return self._entry.replace(fill)


class TfHubSource:
  """A handle in TF-Hub's cache, with the address of its archive if it can be downloaded."""

  is_local = False

  def __init__(self, handle: str, url: str, limits: Limits, hint: str, options: DownloadOptions):
    self._url = url
    self._limits = limits
    self._options = options
    # An archive with a known digest has its place in the cache by that, as archives on the disk.
    self._entry = TfHubEntry(handle if options.sha256 is None else f"sha256:{options.sha256}")
    self.lock_file = self._entry.lock_file
    self.hint = hint

  def find(self) -> Path | None:
    return self._entry.find()

  def is_half_written(self) -> bool:
    return False  # an entry gets its name when it is complete

  def fetch(self, check: Read, *, force: bool) -> Path:
    def fill(folder: Path) -> None:
      try:
        download_archive(self._url, folder, self._limits, self._options)
      except DownloadError as e:
        raise DownloadError(f"{e} {self.hint}".rstrip()) from e
      _check_module(folder, check, self._url)

    self._entry.wait_for_tensorflow_hub()
    found = self._entry.find()
    return self._entry.replace(fill) if found is None or force else found


class KaggleSource:
  """A model in Kaggle's cache."""

  is_local = False
  hint = ""

  def __init__(self, model: KaggleModel):
    self._entry = KaggleEntry(model)
    self.lock_file = self._entry.lock_file

  def find(self) -> Path | None:
    return self._entry.find()

  def is_half_written(self) -> bool:
    return self._entry.is_half_written()

  def fetch(self, check: Read, *, force: bool) -> Path:
    return download_from_kaggle(self._entry.model, force=force)


def _check_module(folder: Path, check: Read, origin: str) -> None:
  """Raises if what was unpacked cannot be read, so that it does not get into the cache."""
  try:
    check(folder)
  except errors.UnknownTagsError:
    pass  # the module has other variants
  except DAMAGE as e:
    reason = str(e).replace(str(folder), "FOLDER")
    raise DamagedArchiveError(f"{origin}: not an archive of a readable module: {reason}") from e
