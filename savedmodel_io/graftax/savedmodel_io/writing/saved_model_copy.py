"""Writing a SavedModel that was read, with new values for its variables: what `SavedModel.save` does."""

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from google.protobuf.message import DecodeError

from graftax.graphdef_ir import Budget, ModelFolder, schema
from graftax.savedmodel_io.checkpoint.bundle_reader import index_path
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import (
  CheckpointNotFoundError,
  DamagedSavedModelError,
  OutputExistsError,
  UnsupportedSavedModelError,
)
from graftax.savedmodel_io.files.saved_model_pb import model_file
from graftax.savedmodel_io.model_parts import ModelParts
from graftax.savedmodel_io.pytrees import Leaf
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.savedmodel_io.writing.bundles.bundle_writer import Progress, plan_bundle, write_bundle, write_errors
from graftax.savedmodel_io.writing.new_values import tensors_with_new_values

__all__ = ["check_apart", "check_checkpoint", "copy_files", "copy_saved_model"]

_FINGERPRINT = "fingerprint.pb"
_CHECKPOINT = Path("variables", "variables")


def copy_saved_model(
  model: ModelParts,
  path: str | os.PathLike[str],
  params: Mapping[str, Leaf],
  *,
  cast: bool,
  overwrite: bool,
  progress: Progress | None,
) -> None:
  """Writes a SavedModel with new values for its variables; see `SavedModel.save`."""
  if model.kind != "SavedModel":
    raise UnsupportedSavedModelError(
      f"{model.path}: a {model.kind} cannot be copied as a SavedModel; write one with "
      "graftax.savedmodel_io.write_saved_model(path, {'__call__': model.program()})."
    )
  source, target = Path(model.path), Path(path)
  replaces = model_file(target) if overwrite else None
  check_new_folder(target, replaces=replaces)
  check_apart(source, target)
  plan = plan_bundle(tensors_with_new_values(model.variables, model.checkpoint, params, cast=cast))
  if model.checkpoint is not None:
    # If the model is replaced by its copy, `model` keeps the values that it was loaded with.
    model.checkpoint.map_files()
  with new_folder(target, replaces=replaces) as fresh:
    with write_errors(str(target)):
      copy_files(model.folder, source, fresh, without=_is_part_of_checkpoint)
    if model.checkpoint is not None:
      (fresh / _CHECKPOINT).parent.mkdir(exist_ok=True)
      write_bundle(plan, str(fresh / _CHECKPOINT), progress=progress)
      _renew_fingerprint(fresh)


def check_apart(source: Path, target: Path) -> None:
  """Raises OutputExistsError if one of two folders lies within the other."""
  inner, outer = source.resolve(), target.resolve()
  if inner != outer and (inner.is_relative_to(outer) or outer.is_relative_to(inner)):
    raise OutputExistsError(
      f"{target}: one of this folder and that of the model, {source}, lies within the other; choose a folder elsewhere."
    )


def check_checkpoint(folder: ModelFolder, source: Path, budget: Budget) -> None:
  """Raises if files of the model's checkpoint are missing or cut off. Values are not read."""
  try:
    CheckpointReader(str(source / _CHECKPOINT), limits=budget, folder=folder)
  except CheckpointNotFoundError:
    return  # a model without variables


def copy_files(folder: ModelFolder, source: Path, target: Path, *, without: Callable[[Path], bool]) -> None:
  """Copies the files of a model. Only contents: a model in a cache may be read-only, or links.

  Args:
    folder: the files that may be read.
    source: the folder of the model.
    target: a new folder.
    without: whether a file, by its path in the folder, is left out.
  """
  for path in _files(folder, source):
    relative = path.relative_to(source)
    if without(relative):
      continue
    (target / relative).parent.mkdir(parents=True, exist_ok=True)
    what = f"copying {str(relative)!r}"
    folder.size_bytes(path, what)  # a link elsewhere, a pipe or a device is an error
    shutil.copyfile(folder.resolved(path, what), target / relative)


def _is_part_of_checkpoint(path: Path) -> bool:
  return path.parent == _CHECKPOINT.parent and path.name.startswith(f"{_CHECKPOINT.name}.")


def _files(folder: ModelFolder, source: Path) -> Iterator[Path]:
  seen: set[str] = set()
  for inside, folders, names in os.walk(source, followlinks=True):
    real = folder.resolved(inside, f"copying the folder {inside!r}")
    if real in seen:  # links may lead in a circle
      folders.clear()
      continue
    seen.add(real)
    yield from (Path(inside, name) for name in names)


def _renew_fingerprint(folder: Path) -> None:
  """Gives the copy an identity of its own; the hashes of graph, signatures and objects stay, as those do.

  TensorFlow hashes the index by another function, but compares the result with nothing.
  """
  path = folder / _FINGERPRINT
  if not path.exists():
    return
  index = Path(index_path(str(folder / _CHECKPOINT))).read_bytes()
  try:
    proto = schema.FingerprintDef.FromString(path.read_bytes())
  except DecodeError as e:
    raise DamagedSavedModelError(
      f"{_FINGERPRINT} of the model cannot be parsed: {e}; delete it, or copy it again"
    ) from e
  with write_errors(str(path)):
    proto.checkpoint_hash = int.from_bytes(hashlib.blake2b(index, digest_size=8).digest(), "little")
    if proto.uuid:
      proto.uuid = str(uuid.uuid4().int)
    path.write_bytes(proto.SerializeToString())
