"""What a hub module is beside a SavedModel: `HubModule`, and the file that marks modules of TF1."""

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import empty_pb2, unknown_fields
from google.protobuf.message import DecodeError

from graftax.graphdef_ir import FolderPaths, ModelFolder
from graftax.hub_io.errors import AmbiguousArchiveError, UnsupportedHubModuleError
from graftax.savedmodel_io import SavedModel
from graftax.savedmodel_io import load as load_saved_model
from graftax.savedmodel_io.errors import CheckpointNotFoundError, DamagedSavedModelError

__all__ = ["HubModule", "model_folder_inside", "read_module"]

_TF1_FILE = "tfhub_module.pb"
_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
# Archives of the object detection API have one folder, and in it `saved_model` beside frozen graph and checkpoint.
_MOST_DEPTH = 4
_MOST_BYTES = 1 << 16
# The fields of the message in that file, and the format that is a SavedModel.
_FORMAT_FIELD = 1
_FEATURES_FIELD = 2
_SAVED_MODEL_FORMAT = 3
_ADVICE = "Export the module again with tensorflow_hub, or use another version of it."


@dataclass(frozen=True, eq=False)
class HubModule(SavedModel):
  """A hub module: a SavedModel, and how it was named.

  Attributes:
    handle: the handle or path that it was loaded by.
    is_tf1_hub: whether it is a module of TF1, for `tensorflow_hub.Module`. Its signatures are then parts of a graph,
      `tag_sets` lists its variants, such as set() and {"train"}, and it is called by its signature "default".
  """

  handle: str
  is_tf1_hub: bool


def read_module(
  folder: str | os.PathLike[str], handle: str, tags: str | Iterable[str] | None, **options: Any
) -> HubModule:
  """Returns the module in a folder.

  Args:
    folder: the folder that holds `saved_model.pb`.
    handle: what the user called it.
    tags: the tags of the MetaGraph; by default those of `graftax.savedmodel_io.load`, or none for a module of TF1.
    **options: for `graftax.savedmodel_io.load`.

  Raises:
    SavedModelError, CheckpointError: what `graftax.savedmodel_io.load` raises.
    UnsupportedHubModuleError: a TF1 module of another format.
  """
  is_tf1_hub = _is_tf1_hub(folder, options.get("allow_files_in", ()))
  model = load_saved_model(folder, () if tags is None and is_tf1_hub else tags, **options)
  if is_tf1_hub and model.checkpoint is None and model.variables.infos:
    # Otherwise variables with constant initializers would silently have these values.
    raise CheckpointNotFoundError(
      f"{model.path}: the folder 'variables' is missing or incomplete, but the module has {len(model.variables.infos)} "
      "variables; copy the whole folder again."
    )
  parts = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
  return HubModule(**parts, handle=handle, is_tf1_hub=is_tf1_hub)


def model_folder_inside(folder: Path) -> Path:
  """Returns the folder with the SavedModel among those that were unpacked or downloaded: itself, or one inside of it.

  Raises:
    AmbiguousArchiveError: the nearest folders with a SavedModel are several.
  """
  level = [folder]
  for _ in range(_MOST_DEPTH):
    found = sorted(inside for inside in level if any((inside / name).is_file() for name in _MODEL_FILES))
    if len(found) > 1:
      names = ", ".join(str(inside.relative_to(folder)) for inside in found)
      raise AmbiguousArchiveError(
        f"there are {len(found)} SavedModels in it, in the folders {names}; unpack it, and pass the path of one."
      )
    if found:
      return found[0]
    try:
      level = [inside for outer in level for inside in outer.iterdir() if inside.is_dir() and not inside.is_symlink()]
    except OSError:  # the folder is gone, or is a file: reading it says so
      return folder
  return folder


def _is_tf1_hub(folder: str | os.PathLike[str], allow_files_in: FolderPaths) -> bool:
  path = os.path.join(folder, _TF1_FILE)
  try:
    with ModelFolder.of(folder, allow_files_in).open(path, "the description of a TF1 hub module") as f:
      data = f.read(_MOST_BYTES)
  except (FileNotFoundError, NotADirectoryError):
    return False
  try:
    fields = unknown_fields.UnknownFieldSet(empty_pb2.Empty.FromString(data))
  except DecodeError as e:
    raise DamagedSavedModelError(f"{path}: cannot be parsed: {e}") from e
  values = [(field.field_number, field.data) for field in map(fields.__getitem__, range(len(fields)))]
  if values != [(_FORMAT_FIELD, _SAVED_MODEL_FORMAT)]:
    _raise_unreadable(path, values)
  return True


def _raise_unreadable(path: str, values: list[tuple[int, Any]]) -> None:
  formats = [value for number, value in values if number == _FORMAT_FIELD]
  features = [value for number, value in values if number == _FEATURES_FIELD]
  if formats == [_SAVED_MODEL_FORMAT] and features:
    raise UnsupportedHubModuleError(f"{path}: the module requires the features {features!r}; expected none. {_ADVICE}")
  if formats and isinstance(formats[0], int):
    raise UnsupportedHubModuleError(
      f"{path}: the module has format {formats[0]}; expected {_SAVED_MODEL_FORMAT}, which is a SavedModel. {_ADVICE}"
    )
  raise DamagedSavedModelError(f"{path}: not the description of a TF1 hub module; it holds the fields {values!r}.")
