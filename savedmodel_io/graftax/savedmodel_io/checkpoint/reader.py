"""Reads checkpoints of both formats: `CheckpointReader`, `read_checkpoint`."""

import glob
import os
import re
from collections.abc import Iterator, Mapping

import numpy as np

from graftax.graphdef_ir import Budget, DType, FolderPaths, Limits, ModelFolder
from graftax.savedmodel_io.checkpoint.bundle_reader import BundleReader, index_path
from graftax.savedmodel_io.checkpoint.partition import Bounds
from graftax.savedmodel_io.checkpoint.read_options import ReadOptions, Report
from graftax.savedmodel_io.checkpoint.state import has_checkpoint_state, newest_checkpoint
from graftax.savedmodel_io.checkpoint.tensor_entry import TensorEntry
from graftax.savedmodel_io.checkpoint.v1_reader import V1Reader, is_v1_checkpoint
from graftax.savedmodel_io.errors import CheckpointKeyError, CheckpointNotFoundError

__all__ = ["CheckpointReader", "read_checkpoint"]

# What a file's name has beyond the path of its checkpoint.
_PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")


class CheckpointReader(Mapping[str, np.ndarray]):
  """The tensors of a checkpoint, by key, read without TensorFlow and, if the format allows, without a copy.

  Opening reads the index, verifies its checksums and checks that all data shards are there and long enough. A tensor
  stored whole is a read-only view of the memory-mapped shard; strings, partitioned tensors and checkpoints in format 1
  are copied out when asked for.

  Args:
    path_prefix: the path without `.index` or `.data-...`, such as `"ckpt-1"` or `"model/variables/variables"`; for a
      checkpoint in format 1 the file itself, or its prefix before `-?????-of-?????`. For a training folder, with a file
      `checkpoint` in it, the newest checkpoint is read.
    verify: check the checksum of each tensor, once, when it is first read. This reads all bytes of the tensor. Without
      it a damaged file gives wrong numbers, but only the bytes that the caller uses are read. The index, and
      checkpoints in format 1, are always checked.
    limits: how much memory the files may ask for beyond what they store; or the `Budget` of the load that this belongs
      to.
    copy: read tensors into memory of their own instead of mapping the file; see `load`.
    allow_files_in: folders besides its own in which files of the checkpoint may lie: to which symbolic links, or the
      file `checkpoint` of a training folder, lead.
    folder: the files that may be read, in place of those in the folder of the checkpoint and in `allow_files_in`.

  Raises:
    LimitExceededError: the files ask for more; `read` raises it as well.
    UnsafeFileError: a file is not a regular file, or lies in another folder.
    CheckpointNotFoundError: there is no checkpoint at that path.
    MissingShardError: a data shard is not there.
    DamagedCheckpointError: the files are cut off, damaged, or not a checkpoint; `read` raises it as well.
    UnsupportedCheckpointError: big-endian, or of a later format.

  Example:
      >>> import tempfile, os
      >>> CheckpointReader(os.path.join(tempfile.mkdtemp(), "ckpt-1"))  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      CheckpointNotFoundError: ...
  """

  def __init__(
    self,
    path_prefix: str | os.PathLike[str],
    *,
    verify: bool = True,
    limits: Limits | Budget | None = None,
    copy: bool = False,
    allow_files_in: FolderPaths = (),
    folder: ModelFolder | None = None,
  ):
    path = os.fspath(path_prefix)
    own = _own_folder(path, allow_files_in) if folder is None else folder
    self._prefix = newest_checkpoint(path, own) if _is_training_folder(path) else path
    self._verify = verify
    self._copy = copy
    self._reader = _open(self._prefix, own, Budget.of(limits))

  @property
  def path_prefix(self) -> str:
    """The path of the checkpoint that is read."""
    return self._prefix

  @property
  def format(self) -> int:
    """1 for the format that `tf.train.Saver` wrote before 2017, otherwise 2."""
    return 2 if isinstance(self._reader, BundleReader) else 1

  def verify(self) -> None:
    """Checks the checksums of all tensors that were not read yet, without keeping their bytes in memory.

    Raises:
      DamagedCheckpointError: one is wrong; the message names the tensor.
    """
    if isinstance(self._reader, BundleReader):  # format 1 is verified when it is opened
      self._reader.verify()

  def map_files(self) -> None:
    """Maps all files now rather than when they are needed, so that they may be replaced: this reader keeps the old."""
    if isinstance(self._reader, BundleReader):
      self._reader.map_shards()

  @property
  def entries(self) -> Mapping[str, TensorEntry]:
    """What the index says about each tensor."""
    return self._reader.entries

  def entry(self, key: str) -> TensorEntry:
    """Returns the record of one tensor in the index.

    Raises:
      CheckpointKeyError: there is no such key; the message lists near ones.
    """
    try:
      return self._reader.entries[key]
    except KeyError:
      raise CheckpointKeyError(_no_such_key(self._prefix, key, self._reader.entries)) from None

  def shape(self, key: str) -> tuple[int, ...]:
    """Returns the shape of the whole tensor."""
    return self.entry(key).shape

  def dtype(self, key: str) -> DType:
    """Returns the element type of the tensor."""
    return self.entry(key).dtype

  def read(
    self, key: str, *, verify: bool | None = None, dtype: np.dtype | None = None, report: Report | None = None
  ) -> np.ndarray:
    """Returns the tensor, read-only; strings as an object array of `bytes`.

    Args:
      key: its key.
      verify: overrides the reader's setting.
      dtype: cast numbers to this type. The file is then read in pieces, so memory holds the result alone.
      report: called with the number of bytes of each piece of a large tensor, when it was read.

    Raises:
      CheckpointKeyError: there is no such key.
      DamagedCheckpointError: a checksum or size is wrong.
      UnsupportedCheckpointError: the element type has no array form (variants).
    """
    options = ReadOptions(self._verify if verify is None else verify, dtype, self._copy, report)
    return self._reader.read(self.entry(key), options)

  def read_region(
    self,
    key: str,
    region: tuple[slice, ...],
    *,
    verify: bool | None = None,
    dtype: np.dtype | None = None,
    copy: bool = False,
    report: Report | None = None,
  ) -> np.ndarray:
    """Returns a box of the tensor; of a partitioned tensor only the stored slices that overlap it are read.

    Args:
      key: its key.
      region: one slice per dimension, of step 1, as in `jax.Sharding.devices_indices_map`.
      verify: overrides the reader's setting. Verifying reads the whole tensor, or the whole of each stored slice that
        overlaps the box.
      dtype: cast numbers to this type.
      copy: return a copy, read in pieces, so that no part of the file stays in memory beside it.
      report: as for `read`.

    Raises:
      ValueError: `region` does not fit the shape.
    """
    options = ReadOptions(self._verify if verify is None else verify, dtype, copy or self._copy, report)
    return self._reader.read_region(self.entry(key), self._bounds(key, region), options)

  def read_ahead(self, key: str, region: tuple[slice, ...]) -> None:
    """Has the system read a box of a tensor in the background, so that the disk reads nothing around it.

    Otherwise the system reads ahead of what is used, and the disk may read all rows for a part of each. Does nothing
    for strings, partitioned tensors and checkpoints in format 1.

    Args:
      key: its key.
      region: as for `read_region`.

    Raises:
      CheckpointKeyError: there is no such key.
      ValueError: `region` does not fit the shape.
    """
    if isinstance(self._reader, BundleReader):
      self._reader.read_ahead(self.entry(key), self._bounds(key, region))

  def _bounds(self, key: str, region: tuple[slice, ...]) -> Bounds:
    shape = self.shape(key)
    if len(region) != len(shape) or any(part.step not in (None, 1) for part in region):
      raise ValueError(
        f"{self._prefix}: region {region!r} does not fit shape {shape} of {key!r}; expected one "
        "slice of step 1 per dimension"
      )
    bounds = (part.indices(dim)[:2] for part, dim in zip(region, shape, strict=True))
    return tuple((start, max(start, stop)) for start, stop in bounds)

  def __getitem__(self, key: str) -> np.ndarray:
    return self.read(key)

  def __contains__(self, key: object) -> bool:
    return key in self._reader.entries

  def __iter__(self) -> Iterator[str]:
    return iter(self._reader.entries)

  def __len__(self) -> int:
    return len(self._reader.entries)

  def __repr__(self) -> str:
    return f"CheckpointReader({self._prefix!r}, {len(self)} tensors)"


def read_checkpoint(
  path_prefix: str | os.PathLike[str],
  *,
  verify: bool = True,
  limits: Limits | Budget | None = None,
  copy: bool = False,
  allow_files_in: FolderPaths = (),
) -> dict[str, np.ndarray]:
  """Returns all tensors of a checkpoint, by key.

  Args:
    path_prefix: as for `CheckpointReader`.
    verify: check the checksum of every tensor, which reads all of the checkpoint. Without it, tensors are only mapped.
    limits: as for `CheckpointReader`.
    copy: as for `CheckpointReader`.
    allow_files_in: as for `CheckpointReader`.

  Raises:
    as `CheckpointReader` and its `read`.

  Example:
    >>> import tempfile
    >>> from graftax.savedmodel_io import read_checkpoint, write_checkpoint
    >>> prefix = os.path.join(tempfile.mkdtemp(), "step-10")
    >>> write_checkpoint(prefix, {"dense/bias": np.zeros(2, np.float32)})
    >>> read_checkpoint(prefix)["dense/bias"].tolist()
    [0.0, 0.0]
  """
  reader = CheckpointReader(path_prefix, verify=verify, limits=limits, copy=copy, allow_files_in=allow_files_in)
  return dict(reader)


def _is_training_folder(path: str) -> bool:
  return os.path.isdir(path) and has_checkpoint_state(path)


def _own_folder(path: str, allow_files_in: FolderPaths) -> ModelFolder:
  if _is_training_folder(path):
    return ModelFolder.of(path, allow_files_in)
  # The caller named the checkpoint, so what it is called may be a link; the shards are named by its index.
  return ModelFolder.of(os.path.dirname(path) or ".", allow_files_in, files=[path, index_path(path)])


def _open(prefix: str, own: ModelFolder, budget: Budget) -> BundleReader | V1Reader:
  if os.path.exists(index_path(prefix)):
    return BundleReader(prefix, own, budget)
  stem = _PART.sub("", prefix)
  if stem != prefix and os.path.exists(index_path(stem)) and glob.glob(glob.escape(stem) + ".data-*"):
    # The index alone has the form of a checkpoint in format 1 that holds no tensors.
    raise CheckpointNotFoundError(
      f"{prefix}: one file of a checkpoint; expected the path that its files share, {stem!r}"
    )
  if is_v1_checkpoint(prefix):
    return V1Reader(prefix, own, budget)
  is_folder = os.path.isdir(prefix)
  folder = prefix if is_folder else os.path.dirname(prefix) or "."
  places = ("*", "variables/variables") if is_folder else ("*",)
  found = sorted(path for place in places for path in glob.glob(os.path.join(glob.escape(folder), f"{place}.index")))
  listing = ", ".join(path.removesuffix(".index") for path in found[:10])
  hint = f"checkpoints in that folder: {listing}" if found else "that folder holds no checkpoint"
  what = "a folder; expected the path of a checkpoint in it" if is_folder else "no checkpoint there"
  raise CheckpointNotFoundError(f"{prefix}: {what} (neither {prefix}.index nor {prefix} is a file); {hint}")


def _no_such_key(prefix: str, key: str, keys: Mapping[str, TensorEntry]) -> str:
  import difflib  # only needed to word an error

  near = difflib.get_close_matches(key, list(keys)[:10_000], n=5, cutoff=0.5) or list(keys)[:5]
  return f"{prefix}: no tensor {key!r} among {len(keys)}; near ones: {', '.join(map(repr, near))}"
