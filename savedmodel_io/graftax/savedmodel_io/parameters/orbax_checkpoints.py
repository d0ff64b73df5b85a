"""Parameters in checkpoints of Orbax: `write_orbax` and `read_orbax`."""

import glob
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from graftax.graphdef_ir import Budget, FolderPaths, Limits, ModelFolder, optional_library
from graftax.savedmodel_io.errors import (
  CheckpointNotFoundError,
  CheckpointWriteError,
  ParameterFileError,
  ParameterNameError,
  TensorValueError,
)
from graftax.savedmodel_io.parameters.placement import Placement, placements
from graftax.savedmodel_io.parameters.values import array_of_numbers
from graftax.savedmodel_io.pytrees import Leaf
from graftax.savedmodel_io.variables.nesting import flat, nest
from graftax.savedmodel_io.variables.sharding import Shardings, check_fit
from graftax.savedmodel_io.writing.atomic import check_new_folder

__all__ = ["read_orbax", "write_orbax"]

_EXTRA = "graftax-savedmodel-io[orbax]"
_MARKER = "_CHECKPOINT_METADATA"
# What Orbax adds to the name of a checkpoint until it is complete.
_PARTIAL = ".orbax-checkpoint-tmp"


def write_orbax(path: str | os.PathLike[str], params: Mapping[str, Leaf], *, overwrite: bool = False) -> None:
  """Writes parameters as a checkpoint of Orbax, nested by the slashes in their names, as `StandardCheckpointer` does.

  Orbax writes the folder under another name and renames it when it is complete. Sharded arrays are not gathered. If
  they are spread over several processes, all of these call this function with the same path.

  Args:
    path: the folder to write; the folder around it must exist.
    params: name -> array, or nested dicts as `nest` returns them.
    overwrite: replace a checkpoint of that name. It is deleted before the new one is complete.

  Raises:
    LibraryNotFoundError: orbax-checkpoint is not installed.
    TensorValueError: a value is not an array of numbers, or has no elements, which Orbax does not write.
    ParameterNameError: names cannot be nested, or two of them have the same name in Orbax.
    OutputExistsError: there is something of that name that may not be replaced.
    CheckpointWriteError: the disk is full, or Orbax cannot write for another reason.
    MissingFolderError: a part of the path in front of the name is a file.

  Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "step-10")
    >>> write_orbax(path, {"dense": {"bias": np.zeros(2, np.float32)}})
    >>> list(read_orbax(path))
    ['dense/bias']
  """
  with optional_library("write_orbax", _EXTRA):
    import orbax.checkpoint as ocp
  target = Path(path).absolute()
  check_new_folder(target, replaces=_MARKER if overwrite else None)
  values = {name: _value(name, value) for name, value in flat(params).items()}
  _check_names(values)
  try:
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
      checkpointer.save(target, args=ocp.args.StandardSave(nest(values)), force=target.exists())
  except Exception as e:  # Orbax passes on what its storage library raises
    for partial in target.parent.glob(f"{glob.escape(target.name)}{_PARTIAL}*"):
      shutil.rmtree(partial, ignore_errors=True)
    raise CheckpointWriteError(
      f"{target}: Orbax could not write the checkpoint: {type(e).__name__}: {e}. Free some space, or choose another "
      "folder."
    ) from e


def _value(name: str, value: object) -> np.ndarray | jax.Array:
  array = array_of_numbers(name, value)
  if not array.size:
    raise TensorValueError(
      f"parameter {name!r} of shape {array.shape} has no elements; Orbax does not write such arrays."
    )
  return array


def _check_names(names: Iterable[str]) -> None:
  # Orbax joins the keys of nested dicts by dots.
  stored: dict[str, str] = {}
  for name in names:
    other = stored.setdefault(name.replace("/", "."), name)
    if other != name:
      raise ParameterNameError(f"parameters {other!r} and {name!r} have the same name in a checkpoint of Orbax.")


def read_orbax(
  path: str | os.PathLike[str],
  *,
  dtype: DTypeLike | None = None,
  keep: str | Iterable[str] = (),
  sharding: Shardings = None,
  allow_files_in: FolderPaths = (),
  limits: Limits | None = None,
) -> dict[str, Leaf]:
  """Returns the arrays of a checkpoint of Orbax by name: its keys joined by slashes. `nest` returns nested dicts.

  Args:
    path: the folder of one checkpoint, with the arrays as its only item, as `StandardCheckpointer` writes it.
    dtype: the type to read real numbers in, as for `load`.
    keep: patterns of names that keep their own type.
    sharding: the devices to place parameters on, as for `load`. They may differ from those that wrote the checkpoint.
      By default parameters are NumPy arrays.
    allow_files_in: folders to which symbolic links in the checkpoint may lead.
    limits: how much larger than their files the arrays may be.

  Raises:
    LimitExceededError: the arrays are larger than the limits allow.
    UnsafeFileError: a symbolic link leads to another folder, or something is not a regular file.
    LibraryNotFoundError: orbax-checkpoint is not installed.
    CheckpointNotFoundError: there is no such folder.
    ParameterFileError: the folder is damaged or something else.
    ParameterNameError: two arrays get the same name.
    CastError, ShardingError: the arguments contradict themselves or the checkpoint.

  Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "step-10")
    >>> write_orbax(path, {"dense/bias": np.zeros(2, np.float32)})
    >>> read_orbax(path)["dense/bias"].shape
    (2,)
  """
  with optional_library("read_orbax", _EXTRA):
    import orbax.checkpoint as ocp
  source = Path(path).absolute()
  if not source.is_dir():
    raise CheckpointNotFoundError(f"{source}: no such folder; expected a checkpoint of Orbax")
  ModelFolder.of(source, allow_files_in).check_all(source, "read_orbax")
  with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
    leaves, tree = _metadata(checkpointer, source)
    stored = {name: (tuple(leaf.shape), np.dtype(leaf.dtype)) for name, leaf in leaves.items()}
    _check_size(stored, source, Budget(limits))
    wanted = placements(stored, dtype, keep, sharding, str(source))
    arguments = [_restore_args(ocp, name, placement) for name, placement in wanted.items()]
    restore = ocp.args.PyTreeRestore(restore_args=jax.tree.unflatten(tree, arguments))
    try:
      restored = checkpointer.restore(source, args=restore)
    except Exception as e:  # Orbax passes on what its storage library raises
      raise ParameterFileError(f"{source}: Orbax could not read the checkpoint: {type(e).__name__}: {e}") from e
  return dict(zip(wanted, jax.tree.leaves(restored), strict=True))


def _check_size(stored: Mapping[str, tuple[tuple[int, ...], np.dtype]], source: Path, budget: Budget) -> None:
  """Asks for the memory of all arrays, since parts of an array that are not stored are filled with one value."""
  file_bytes = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
  num_bytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in stored.values())
  budget.spend_unpacked_bytes(max(num_bytes - file_bytes, 0), file_bytes, f"{source}: {len(stored)} arrays")


def _metadata(checkpointer: Any, source: Path) -> tuple[dict[str, Leaf], Any]:
  """Returns name -> shape and dtype of each array, in the order of the leaves, and the structure of the checkpoint."""
  try:
    found = checkpointer.metadata(source).item_metadata.tree
  except Exception as e:  # Orbax raises many types for folders that are something else
    raise ParameterFileError(f"{source}: not a checkpoint of Orbax with arrays as its only item: {e}") from e
  pairs, tree = jax.tree_util.tree_flatten_with_path(found)
  leaves: dict[str, Leaf] = {}
  for keys, leaf in pairs:
    name = "/".join(part for key in keys if (part := jax.tree_util.keystr((key,), simple=True)))
    if getattr(leaf, "shape", None) is None or getattr(leaf, "dtype", None) is None:
      raise ParameterFileError(f"{source}: {name!r} is not an array, but {type(leaf).__name__}; only arrays are read")
    if name in leaves or not name:
      raise ParameterNameError(f"{source}: two arrays, or the root, have the name {name!r}.")
    leaves[name] = leaf
  return leaves, tree


def _restore_args(ocp: Any, name: str, placement: Placement) -> Any:
  if placement.sharding is None:
    return ocp.RestoreArgs(restore_type=np.ndarray, dtype=placement.dtype)
  check_fit(name, placement.shape, placement.sharding)
  return ocp.ArrayRestoreArgs(sharding=placement.sharding, global_shape=placement.shape, dtype=placement.dtype)
