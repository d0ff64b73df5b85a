"""`read_weights`: parameters by name from any file that holds values."""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from graftax.graphdef_ir import Budget, FolderPaths, Limits, ModelFolder, open_regular_file
from graftax.savedmodel_io.checkpoint.reader import read_checkpoint
from graftax.savedmodel_io.errors import DamagedWeightsError
from graftax.savedmodel_io.files.graph_file import is_graph_file
from graftax.savedmodel_io.files.saved_model_pb import is_saved_model
from graftax.savedmodel_io.keras_files.guard import check_in_helper
from graftax.savedmodel_io.keras_files.h5_file import Group, Walk, open_h5, require_h5py
from graftax.savedmodel_io.keras_files.keras_archive import open_keras_archive
from graftax.savedmodel_io.keras_files.legacy_layout import is_legacy_layout, read_legacy_layout
from graftax.savedmodel_io.keras_files.nested_layout import read_nested_layout
from graftax.savedmodel_io.keras_files.sharded_weights import check_shards, read_weight_map
from graftax.savedmodel_io.saved_model import load

__all__ = ["is_keras_file", "read_weights"]

_H5_SUFFIXES = (".h5", ".hdf5")
_ARCHIVE_SUFFIX = ".keras"
_SHARDED_SUFFIX = ".weights.json"
_ARCHIVE_START = b"PK"
_HDF5_START = b"\x89HDF"


def is_keras_file(path: str | os.PathLike[str]) -> bool:
  """Returns whether a path has the name of a `.keras`, `.h5`, `.hdf5` or `.weights.json` file.

  Example:
    >>> is_keras_file("no/such/model.keras")
    False
  """
  return os.path.isfile(path) and os.fspath(path).endswith((*_H5_SUFFIXES, _ARCHIVE_SUFFIX, _SHARDED_SUFFIX))


def read_weights(
  path: str | os.PathLike[str],
  *,
  guard: bool = True,
  limits: Limits | None = None,
  copy: bool = False,
  allow_files_in: FolderPaths = (),
) -> dict[str, np.ndarray]:
  """Returns the weights in a file, by name: a Keras file, a model, or a checkpoint.

  Names in `.h5` files of Keras 2, and of whole models of Keras 3, are those of the variables, such as
  `"dense/kernel"`. `.keras`, `.weights.h5` and `.weights.json` files have the names of layers, but only number the
  weights. Weights of Keras's own layers get their names, others keep their number, as in `"my_layer/0"`. The state of
  the optimizer is left out. `rename` brings weights under the names of another program and reports what fits.

  Args:
    path: a `.keras`, `.h5` or `.hdf5` file, or the `.weights.json` file of sharded weights, for which h5py must be
      installed (`graftax-savedmodel-io[keras]`); anything that `load` reads, for its variables; or a checkpoint, or a
      folder with checkpoints.
    guard: open Keras files in a helper process first, which takes half a second. The HDF5 library can crash or hang on
      damaged files; pass False only for files that you trust.
    limits: how much memory the file may ask for beyond what it stores.
    copy: read variables of models and checkpoints into memory of their own; see `load`. Weights of Keras files are
      always copies.
    allow_files_in: folders to which files of a model, a checkpoint or sharded weights may link; see `load`.

  Raises:
    UnsafeFileError: a file is a link to another folder, or not a regular file.
    LibraryNotFoundError: h5py is not installed.
    DamagedWeightsError: a Keras file is damaged, or something else; or a file of sharded weights is missing.
    LimitExceededError: the file asks for more memory than the limits allow.
    UnsafeWeightsError: a Keras file refers to other files, or claims to hold more than it does.
    SavedModelError, CheckpointError: what `load` and `read_checkpoint` raise.

  Example:
    >>> import tempfile
    >>> from graftax.savedmodel_io import write_checkpoint
    >>> prefix = os.path.join(tempfile.mkdtemp(), "step-10")
    >>> write_checkpoint(prefix, {"dense/bias": np.zeros(2, np.float32)})
    >>> list(read_weights(prefix))
    ['dense/bias']
  """
  file = os.fspath(path)
  if is_keras_file(file):
    return _read_keras_file(file, Budget(limits), allow_files_in, guard=guard)
  if is_saved_model(file) or is_graph_file(file):
    variables = load(file, limits=limits, copy=copy, allow_files_in=allow_files_in).variables
    return {name: variables.read(name) for name in variables}
  return read_checkpoint(file, limits=limits, copy=copy, allow_files_in=allow_files_in)


def _read_keras_file(path: str, budget: Budget, allow_files_in: FolderPaths, *, guard: bool) -> dict[str, np.ndarray]:
  require_h5py(path)
  if path.endswith(_SHARDED_SUFFIX):
    return _read_sharded(path, budget, allow_files_in, guard=guard)
  if not _begins_as_archive(path):
    if guard:
      check_in_helper(path)
    size = os.path.getsize(path)
    with open_h5([path], path) as files:
      return _read_layout(files, {}, Walk(path, size, size, budget))
  with open_keras_archive(path, budget) as (weights, h5_bytes, config):
    if guard:
      check_in_helper(path)
    with open_h5([weights], path) as files:
      return _read_layout(files, config, Walk(path, os.path.getsize(path), h5_bytes, budget))


def _read_sharded(path: str, budget: Budget, allow_files_in: FolderPaths, *, guard: bool) -> dict[str, np.ndarray]:
  folder = ModelFolder.of(os.path.dirname(path) or ".", allow_files_in, files=[path])
  groups = read_weight_map(path, folder)
  shards = [os.path.join(os.path.dirname(path), name) for name in groups]
  if guard:
    for shard in shards:
      check_in_helper(shard)
  with open_h5(shards, path) as files:
    check_shards(files, groups)
    size = sum(map(os.path.getsize, shards))
    return _read_layout(files, {}, Walk(path, size, size, budget))


def _begins_as_archive(path: str) -> bool:
  # Keras before version 2.12 writes HDF5 whatever the suffix. Other content gets the error of its suffix.
  with open_regular_file(path, "the file of weights") as f:
    start = f.read(len(_HDF5_START))
  return start.startswith(_ARCHIVE_START) or (path.endswith(".keras") and start != _HDF5_START)


def _read_layout(files: Sequence[Group], config: Mapping[str, object], walk: Walk) -> dict[str, np.ndarray]:
  found: Iterable[tuple[str, np.ndarray]]
  if len(files) == 1 and is_legacy_layout(files[0]):
    found = read_legacy_layout(files[0], walk)
  else:
    found = read_nested_layout(files, config, walk)
  weights: dict[str, np.ndarray] = {}
  for name, array in found:
    if name in weights:
      raise DamagedWeightsError(f"two weights are called {name!r}")
    weights[name] = array
  if not weights:
    raise DamagedWeightsError(f"an HDF5 file without weights of Keras; it holds {sorted(files[0])[:10]}")
  return weights
