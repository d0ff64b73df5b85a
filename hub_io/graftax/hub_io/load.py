"""`load`: finds a module by its handle, in a folder, an archive, a cache or on a server, and reads it."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from graftax.hub_io.archives import ArchiveLimits, extract_archive
from graftax.hub_io.download import download_archive, download_from_kaggle
from graftax.hub_io.errors import DamagedArchiveError, DamagedCacheWarning, ModuleNotCachedError
from graftax.hub_io.handles import Handle, KaggleModel, parse_handle
from graftax.hub_io.kaggle_cache import KaggleEntry, kaggle_cache_folder
from graftax.hub_io.module import HubModule, read_module
from graftax.hub_io.tfhub_cache import TfHubEntry, tfhub_cache_folder
from graftax.savedmodel_io import errors, is_graph_file

__all__ = ["load"]

# What reading a module raises if its files are not those that were downloaded.
_DAMAGE = (
  errors.CheckpointNotFoundError,
  errors.DamagedCheckpointError,
  errors.DamagedSavedModelError,
  errors.MissingShardError,
  errors.NotASavedModelError,
  errors.SavedModelNotFoundError,
)

_Read = Callable[[Path], HubModule]


def load(
  handle: str | os.PathLike[str],
  tags: str | Iterable[str] | None = None,
  *,
  verify: bool | None = None,
  dtype: Any = None,
  keep: str | Iterable[str] = (),
  sharding: Any = None,
  progress: Callable[[int, int], None] | bool | None = None,
  offline: bool = False,
  limits: ArchiveLimits | None = None,
) -> HubModule:
  """Loads a hub module without TensorFlow.

  A path that exists is read where it is; an archive is unpacked into TF-Hub's cache. Anything else is looked up in
  TF-Hub's and Kaggle's cache, and downloaded into one of them if it is in neither. Kaggle's models are downloaded by
  kagglehub, which is the extra `graftax-hub-io[kaggle]`. If several processes load the same handle at once, one
  downloads it and the others wait. A copy in a cache that is damaged or half-written is fetched again, with a
  `DamagedCacheWarning`.

  Args:
    handle: a folder or file that `graftax.savedmodel_io.load` reads, such as a folder with `saved_model.pb`; a .tar.gz
      or .tar archive of one; a model on Kaggle, as
      `"google/yamnet/tensorFlow2/yamnet/1"` or by its address, without a version for the newest in the cache, or on
      Kaggle if the cache has none; the address of a module on tfhub.dev or another server of modules; or a `gs://`
      address of an archive or of TF-Hub's bucket.
    tags: which variant of the module to read, such as `{"train", "batch_norm_fused"}`. By default the variant without
      tags of a TF1 module, and for others what `graftax.savedmodel_io.load` chooses. `tag_sets` lists all.
    verify: check the checksum of each variable: in a cache all of them now, so that a damaged copy is fetched again, in
      a folder that is given by its path each when its value is first asked for. By default this is done unless
      `sharding` is given; then `graftax.savedmodel_io.load` says which are checked.
    dtype: the type to read variables of real numbers in.
    keep: patterns of names of variables that keep their own type.
    sharding: the devices to place variables on, as for `graftax.savedmodel_io.load`.
    progress: called while `convert` reads variables, as for `graftax.savedmodel_io.load`.
    offline: raise instead of downloading.
    limits: what archives may unpack to.

  Raises:
    HandleError: `handle` is neither a path that exists nor a handle.
    ModuleNotCachedError: with `offline`, if no cache has a readable copy.
    LibraryNotFoundError: kagglehub is not installed, and the model has to be downloaded from Kaggle.
    DownloadError: the server cannot be reached, refuses, or sends something else.
    ArchiveError: an archive is damaged or unsafe; nothing of it is kept.
    UnknownTagsError: the module has no such variant; the message lists those it has.
    SavedModelError, CheckpointError: the module cannot be read.

  Example:
      >>> folder = os.path.join(os.path.dirname(__file__), "testdata/2026_11_22")
      >>> module = load(f"{folder}/tf1_module", tags={"train"})
      >>> module.signatures["default"]
      <Signature default(default: float32[?, 4]) -> {default: float32[?, 3]}>
      >>> embed, params = module.convert()
  """
  text = os.fspath(handle)
  read: _Read = partial(
    read_module, handle=text, tags=tags, verify=verify, dtype=dtype, keep=keep, sharding=sharding, progress=progress
  )
  verify_now = sharding is None if verify is None else verify
  limits = ArchiveLimits() if limits is None else limits
  if os.path.isdir(text) or is_graph_file(text) or _can_only_be_a_path(handle):
    return read(Path(text))
  if os.path.isfile(text):
    sources: list[_Source] = [_LocalArchive(Path(text), limits)]
  else:
    sources = _sources(parse_handle(text), limits)
  return _load_cached(text, sources, partial(_read_verified, read) if verify_now else read, offline=offline)


def _can_only_be_a_path(handle: str | os.PathLike[str]) -> bool:
  return not os.path.isfile(handle) and (not isinstance(handle, str) or handle.startswith(("/", ".", "~")))


def _read_verified(read: _Read, folder: Path) -> HubModule:
  module = read(folder)
  if module.checkpoint is not None:
    module.checkpoint.verify()
  return module


class _Source(Protocol):
  """A place of a module in a cache, and what puts it there."""

  lock_file: Path

  def find(self) -> Path | None:
    """Returns where the module is, if it is there."""

  def is_half_written(self) -> bool:
    """Whether a download was interrupted."""

  def fetch(self, check: _Read, *, force: bool) -> Path:
    """Puts the module there, in place of a damaged one if `force`, and returns its folder."""


def _load_cached(text: str, sources: list[_Source], read: _Read, *, offline: bool) -> HubModule:
  """Reads the module from the first source that has it undamaged; else the first source fetches it."""
  problems = []
  for source in sources:
    found = source.find()
    try:
      if found is not None:
        return read(found)
    except _DAMAGE as e:
      problems.append(f"the copy in {found} is damaged ({e})")
    if source.is_half_written():
      problems.append(f"the copy beside {source.lock_file} is half-written")
  if offline:
    searched = f"{tfhub_cache_folder()} and {kaggle_cache_folder()}"
    why = "; ".join(problems) or f"it is neither in TF-Hub's nor in Kaggle's cache ({searched})"
    raise ModuleNotCachedError(f"{text}: {why}; load it once without offline=True, or copy it there.")
  if problems:
    warnings.warn(f"{text}: {'; '.join(problems)}; it is fetched again.", DamagedCacheWarning, stacklevel=3)
  return _fetch(sources[0], read)


def _fetch(source: _Source, read: _Read) -> HubModule:
  source.lock_file.parent.mkdir(parents=True, exist_ok=True)
  with FileLock(source.lock_file):
    found = source.find()
    try:
      # Another process may have fetched it while this one waited, or kagglehub has continued an interrupted download.
      return read(source.fetch(read, force=False) if found is None else found)
    except _DAMAGE:
      return read(source.fetch(read, force=True))


class _LocalArchive:
  """An archive on the disk. Its place in the cache is named after its bytes."""

  def __init__(self, path: Path, limits: ArchiveLimits):
    with open(path, "rb") as f:
      digest = hashlib.file_digest(f, "sha256").hexdigest()
    self._path = path
    self._limits = limits
    self._entry = TfHubEntry(f"sha256:{digest}")
    self.lock_file = self._entry.lock_file

  def find(self) -> Path | None:
    return self._entry.find()

  def is_half_written(self) -> bool:
    return False

  def fetch(self, check: _Read, *, force: bool) -> Path:
    def fill(folder: Path) -> None:
      with open(self._path, "rb") as f:
        extract_archive(f, folder, name=str(self._path), limits=self._limits)
      _check_module(folder, check, str(self._path))

    return self._entry.replace(fill)


class _TfHub:
  """A handle in TF-Hub's cache, with the address of its archive if it can be downloaded."""

  def __init__(self, handle: str, url: str, limits: ArchiveLimits):
    self._url = url
    self._limits = limits
    self._entry = TfHubEntry(handle)
    self.lock_file = self._entry.lock_file

  def find(self) -> Path | None:
    return self._entry.find()

  def is_half_written(self) -> bool:
    return False  # an entry gets its name when it is complete

  def fetch(self, check: _Read, *, force: bool) -> Path:
    def fill(folder: Path) -> None:
      download_archive(self._url, folder, self._limits)
      _check_module(folder, check, self._url)

    self._entry.wait_for_tensorflow_hub()
    found = self._entry.find()
    return self._entry.replace(fill) if found is None or force else found


class _Kaggle:
  """A model in Kaggle's cache."""

  def __init__(self, model: KaggleModel):
    self._entry = KaggleEntry(model)
    self.lock_file = self._entry.lock_file

  def find(self) -> Path | None:
    return self._entry.find()

  def is_half_written(self) -> bool:
    return self._entry.is_half_written()

  def fetch(self, check: _Read, *, force: bool) -> Path:
    return download_from_kaggle(self._entry.model, force=force)


def _sources(handle: Handle, limits: ArchiveLimits) -> list[_Source]:
  """Returns where to look for a module; the first source can fetch it."""
  tfhub = [_TfHub(text, handle.download_url or text, limits) for text in handle.urls]
  kaggle = [] if handle.kaggle is None else [_Kaggle(handle.kaggle)]
  return [*tfhub, *kaggle] if handle.download_url is not None else [*kaggle, *tfhub]


def _check_module(folder: Path, check: _Read, origin: str) -> None:
  """Raises if what was unpacked cannot be read, so that it does not get into the cache."""
  try:
    check(folder)
  except errors.UnknownTagsError:
    pass  # the module has other variants
  except _DAMAGE as e:
    reason = str(e).replace(str(folder), "FOLDER")
    raise DamagedArchiveError(f"{origin}: not an archive of a readable module: {reason}") from e
