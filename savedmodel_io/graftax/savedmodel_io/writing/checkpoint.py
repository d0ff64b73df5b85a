"""Writing checkpoints: `write_checkpoint`."""

import contextlib
import glob
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graftax.savedmodel_io.checkpoint.bundle_reader import index_path, shard_path
from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing.atomic import check_new_file, scratch_folder
from graftax.savedmodel_io.writing.bundles.bundle_writer import (
  MAX_SHARD_BYTES,
  Progress,
  plan_bundle,
  write_bundle,
  write_errors,
)
from graftax.savedmodel_io.writing.bundles.stored_tensor import stored_tensor

__all__ = ["write_checkpoint"]

_DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def write_checkpoint(
  path_prefix: str | os.PathLike[str],
  tensors: Mapping[str, Any],
  *,
  max_shard_bytes: int = MAX_SHARD_BYTES,
  overwrite: bool = False,
  progress: Progress | None = None,
) -> None:
  """Writes a checkpoint that TensorFlow and `CheckpointReader` read.

  Values are streamed: beside them, a few MiB of memory are needed. A sharded `jax.Array` is written shard by shard and
  not gathered; readers see one tensor. The files are written under another name, and the index, without which there is
  no checkpoint, is put in place last. So there is never half a checkpoint, and one that is replaced is there until the
  new one is. A process that is killed may leave a folder `.NAME.*.graftax-partial` behind.

  Args:
    path_prefix: the path without `.index`; its folder must exist.
    tensors: key -> numpy array, `jax.Array`, or string (`bytes` or `str`); arrays of strings have one of numpy's string
      types or `object`. Any dtype that TensorFlow has, including bfloat16, float8 and int4.
    max_shard_bytes: a new data file begins where a tensor would make the last one larger than that. A tensor, or a
      shard of a sharded one, is never split.
    overwrite: replace a checkpoint of that name. The number of data files may then be larger than needed, by an empty
      one, so that old and new files differ in name.
    progress: called with the number of bytes written so far and the total, about once per MiB.

  Raises:
    TensorValueError: a key or value cannot be stored; nothing is written.
    OutputExistsError: there is a checkpoint of that name, or a part of one.
    MissingFolderError: a part of the path in front of the name is a file.
    CheckpointWriteError: the disk is full, or a file cannot be written for another reason.

  Example:
    >>> import tempfile
    >>> import numpy as np
    >>> from graftax.savedmodel_io import read_checkpoint
    >>> prefix = os.path.join(tempfile.mkdtemp(), "ckpt-1")
    >>> write_checkpoint(prefix, {"step": np.int64(3), "vocabulary": np.array([b"a", b"b"])})
    >>> read_checkpoint(prefix)["vocabulary"]
    array([b'a', b'b'], dtype=object)
  """
  prefix = Path(path_prefix)
  _check_free(prefix, overwrite=overwrite)
  plan = plan_bundle(
    {name: stored_tensor(value, f"tensor {name!r}") for name, value in tensors.items()}, max_shard_bytes
  )
  old = _data_files(prefix)
  num_shards = _free_count(plan.num_shards, old)
  with scratch_folder(prefix) as scratch:
    fresh = scratch / prefix.name
    write_bundle(plan, str(fresh), num_shards=num_shards, progress=progress)
    _put_in_place(fresh, prefix, num_shards)
  _delete(old)


def _check_free(prefix: Path, *, overwrite: bool) -> None:
  if not prefix.name:
    raise OutputExistsError(f"{str(prefix)!r} is a folder; expected a folder and the name of a checkpoint in it.")
  check_new_file(Path(index_path(str(prefix))))
  found = [index_path(str(prefix))] if os.path.exists(index_path(str(prefix))) else _data_files(prefix)
  if found and not overwrite:
    raise OutputExistsError(
      f"{found[0]} exists already; pass overwrite=True to replace the checkpoint, or choose another name."
    )


def _data_files(prefix: Path) -> list[str]:
  return sorted(path for path in glob.glob(glob.escape(str(prefix)) + ".data-*") if _DATA_SUFFIX.search(path))


def _free_count(num_shards: int, files: Iterable[str]) -> int:
  """Returns the smallest number of data files, at least `num_shards`, for which no file has one of their names."""
  taken = {int(match[1]) for path in files if (match := _DATA_SUFFIX.search(path))}
  while num_shards in taken:
    num_shards += 1
  return num_shards


def _put_in_place(fresh: Path, prefix: Path, num_shards: int) -> None:
  """Renames the data files, whose names are new, and then the index: that one rename replaces a checkpoint."""
  moved: list[str] = []
  try:
    with write_errors(str(prefix)):
      for shard in range(num_shards):
        target = shard_path(str(prefix), shard, num_shards)
        os.rename(shard_path(str(fresh), shard, num_shards), target)
        moved.append(target)
      os.replace(index_path(str(fresh)), index_path(str(prefix)))
  except BaseException:
    _delete(moved)
    raise


def _delete(paths: Iterable[str]) -> None:
  for path in paths:
    with contextlib.suppress(OSError):  # the checkpoint is what it should be with or without these
      os.unlink(path)
