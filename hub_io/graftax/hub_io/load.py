"""`load`: finds a module by its handle, in a folder, an archive, a cache or on a server, and reads it."""

import os
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from graftax.graphdef_ir import FolderPaths, Limits
from graftax.hub_io.cache_folders import check_caches, make_private_folder
from graftax.hub_io.download import DownloadOptions, checked_digest
from graftax.hub_io.errors import AmbiguousArchiveError, DamagedCacheWarning, HandleError, ModuleNotCachedError
from graftax.hub_io.handles import parse_handle
from graftax.hub_io.kaggle_cache import kaggle_cache_folder
from graftax.hub_io.module import HubModule, model_folder_inside, read_module
from graftax.hub_io.sources import DAMAGE, ArchiveSource, ModuleSource, Read, sources_of
from graftax.hub_io.tfhub_cache import tfhub_cache_folder
from graftax.savedmodel_io import is_graph_file

__all__ = ["load"]

# Not archives: savedmodel_io's error says how such files are read.
_KERAS_SUFFIXES = (".keras", ".h5", ".hdf5", ".weights.json")


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
  limits: Limits | None = None,
  copy: bool = False,
  allow_files_in: FolderPaths = (),
  sha256: str | None = None,
  allow_http: bool = False,
  allow_hosts: Iterable[str] = (),
  download_timeout_s: float = 3600.0,
) -> HubModule:
  """Loads a hub module without TensorFlow.

  A path that exists is read where it is; an archive is unpacked into TF-Hub's cache. Anything else is looked up in
  TF-Hub's and Kaggle's cache, and downloaded into one of them if it is in neither. Kaggle's models are downloaded by
  kagglehub, which is the extra `graftax-hub-io[kaggle]`. If several processes load the same handle at once, one
  downloads it and the others wait. A copy in a cache that is damaged or half-written is fetched again, with a
  `DamagedCacheWarning`. The SavedModel of an archive or of a model on Kaggle may be in folders of its own, such as
  `ssd_mobilenet/saved_model`.

  Args:
    handle: a folder or file that `graftax.savedmodel_io.load` reads, such as a folder with `saved_model.pb`; a .tar.gz,
      .tgz, .tar.bz2 or .tar archive of one; a model on Kaggle, as `"google/yamnet/tensorFlow2/yamnet/1"` or by its
      address; the address of a module on tfhub.dev or another server of modules; or a `gs://` address of an archive or
      of TF-Hub's bucket. A name on Kaggle without a version means the newest in the cache, or on Kaggle if the cache
      has none.
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
    limits: what an archive may unpack to, and how much memory the module's files may ask for, as for
      `graftax.savedmodel_io.load`.
    copy: read variables into memory of their own, as for `graftax.savedmodel_io.load`.
    allow_files_in: folders whose files the module may read besides its own, as for `graftax.savedmodel_io.load`.
    sha256: the SHA-256 digest of the archive, as 64 hexadecimal digits. It is checked before anything is unpacked, and
      only a copy in the cache that was unpacked from that archive is used.
    allow_http: download over plain http, on which others can read and change what is sent. By default only over https.
    allow_hosts: names of hosts to which the server may redirect. By default the handle's own, and for tfhub.dev those
      that it redirects to. With `sha256` it may redirect to any, over https.
    download_timeout_s: the time limit for a download as a whole, in seconds; each piece must come within 60. kagglehub
      has limits of its own.

  Raises:
    HandleError: `handle` is neither a path that exists nor a handle.
    ModuleNotCachedError: with `offline`, if no cache has a readable copy.
    LibraryNotFoundError: kagglehub is not installed, and the model has to be downloaded from Kaggle.
    DownloadError: the server cannot be reached, refuses, takes too long, or sends something else; or it would be asked
      over plain http, or redirects to another host, and that was not allowed.
    DigestError: the archive does not have the digest `sha256`.
    UnsafeCacheError: the cache is in the folder for temporary files and belongs to another user.
    ArchiveError: an archive is damaged or unsafe; nothing of it is kept.
    LimitExceededError: an archive or the module asks for more than `limits` allow; nothing of the archive is kept.
    AmbiguousArchiveError: an archive holds several SavedModels; the message lists their folders.
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
  read: Read = partial(
    read_module,
    handle=text,
    tags=tags,
    verify=verify,
    dtype=dtype,
    keep=keep,
    sharding=sharding,
    progress=progress,
    limits=limits,
    copy=copy,
    allow_files_in=allow_files_in,
  )
  digest = checked_digest(sha256)
  verify_now = sharding is None if verify is None else verify
  limits = Limits() if limits is None else limits
  if os.path.isdir(text) or is_graph_file(text) or _can_only_be_a_path(handle):
    if digest is not None:
      raise HandleError(f"{text!r}: sha256 is the digest of an archive, and this is none.")
    return read(Path(text))
  if os.path.isfile(text):
    sources: list[ModuleSource] = [ArchiveSource(Path(text), limits, digest)]
  else:
    download = DownloadOptions(
      sha256=digest, allow_http=allow_http, allow_hosts=tuple(allow_hosts), timeout_s=download_timeout_s
    )
    sources = sources_of(parse_handle(text), limits, download)
  check_caches()
  read = partial(_read_inside, partial(_read_verified, read) if verify_now else read, text)
  return _load_cached(text, sources, read, offline=offline)


def _can_only_be_a_path(handle: str | os.PathLike[str]) -> bool:
  if os.path.isfile(handle):
    return os.fspath(handle).endswith(_KERAS_SUFFIXES)
  return not isinstance(handle, str) or handle.startswith(("/", ".", "~"))


def _read_inside(read: Read, text: str, folder: Path) -> HubModule:
  try:
    return read(model_folder_inside(folder))
  except AmbiguousArchiveError as e:
    raise AmbiguousArchiveError(f"{text}: {e}") from None


def _read_verified(read: Read, folder: Path) -> HubModule:
  module = read(folder)
  if module.checkpoint is not None:
    module.checkpoint.verify()
  return module


def _load_cached(text: str, sources: list[ModuleSource], read: Read, *, offline: bool) -> HubModule:
  """Reads the module from the first source that has it undamaged; else the first source fetches it."""
  problems = []
  for source in sources:
    found = source.find()
    try:
      if found is not None:
        return read(found)
    except DAMAGE as e:
      problems.append(f"the copy in {found} is damaged ({e})")
    if source.is_half_written():
      problems.append(f"the copy beside {source.lock_file} is half-written")
  if offline and not sources[0].is_local:
    searched = f"{tfhub_cache_folder()} and {kaggle_cache_folder()}"
    why = "; ".join(problems) or f"it is neither in TF-Hub's nor in Kaggle's cache ({searched})"
    advice = f"load it once without offline=True, or copy it there. {sources[0].hint}".rstrip()
    raise ModuleNotCachedError(f"{text}: {why}; {advice}")
  if problems:
    warnings.warn(f"{text}: {'; '.join(problems)}; it is fetched again.", DamagedCacheWarning, stacklevel=3)
  return _fetch(sources[0], read)


def _fetch(source: ModuleSource, read: Read) -> HubModule:
  make_private_folder(source.lock_file.parent)
  # The file of the lock stays: deleting it while others wait for it would let two of them in.
  with FileLock(source.lock_file):
    found = source.find()
    try:
      # Another process may have fetched it while this one waited, or kagglehub has continued an interrupted download.
      return read(source.fetch(read, force=False) if found is None else found)
    except DAMAGE:
      return read(source.fetch(read, force=True))
