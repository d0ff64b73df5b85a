"""The asset files of a SavedModel, such as vocabularies."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from graftax.graphdef_ir import ModelFolder, schema
from graftax.savedmodel_io.errors import DamagedSavedModelError

__all__ = ["Asset", "Assets", "read_assets"]

_FOLDER = "assets"
_NO_FOLDER = ModelFolder()
_COLLECTION = "saved_model_assets"


@dataclass(frozen=True, slots=True)
class Asset:
  """One asset file.

  Attributes:
    filename: its name within the model's `assets` folder.
    path: the file.
    tensor: the graph tensor that holds its path when the model runs, such as `"Const:0"`, or "".
  """

  filename: str
  path: Path
  tensor: str


class Assets(Mapping[str, Path]):
  """File name -> path of the asset files, in the order in which the object graph counts them.

  Looking a name up raises UnsafeFileError if its file is a link that leads out of the model's folder.
  """

  def __init__(self, assets: tuple[Asset, ...], folder: ModelFolder = _NO_FOLDER):
    self.entries = assets
    self._paths = {asset.filename: asset.path for asset in assets}
    self._folder = folder

  def __getitem__(self, filename: str) -> Path:
    path = self._paths[filename]
    self._folder.resolved(path, f"asset {filename!r}")
    return path

  def __iter__(self) -> Iterator[str]:
    return iter(self._paths)

  def __len__(self) -> int:
    return len(self._paths)

  def __repr__(self) -> str:
    return f"Assets({self._paths!r})"


def read_assets(meta_graph: schema.MetaGraphDef, directory: str, folder: ModelFolder | None = None) -> Assets:
  """Returns the asset files that a MetaGraph refers to. Whether they exist is not checked.

  Args:
    meta_graph: the MetaGraph.
    directory: the folder of the model.
    folder: the files that may be read; by default those in `directory`.

  Raises:
    DamagedSavedModelError: a record is damaged, or its file name leads out of the `assets` folder.
  """
  records = list(meta_graph.asset_file_def) or _collection_records(meta_graph)
  own = ModelFolder.of(directory) if folder is None else folder
  return Assets(tuple(_read_asset(record, directory) for record in records), own)


def _collection_records(meta_graph: schema.MetaGraphDef) -> list[schema.AssetFileDef]:
  """Returns the records of models before 2018, which kept them in a collection."""
  if _COLLECTION not in meta_graph.collection_def:
    return []
  records = meta_graph.collection_def[_COLLECTION].any_list.value
  try:
    return [schema.AssetFileDef.FromString(record.value) for record in records]
  except DecodeError as e:
    raise DamagedSavedModelError(f"collection {_COLLECTION!r} holds a record that cannot be parsed: {e}") from e


def _read_asset(record: schema.AssetFileDef, directory: str) -> Asset:
  name = os.path.normpath(record.filename) if record.filename and "\0" not in record.filename else ".."
  # A record could name /etc/passwd or ../../key; only files below the folder are the model's.
  if os.path.isabs(name) or name.split(os.sep)[0] in (os.pardir, os.curdir):
    raise DamagedSavedModelError(
      f"{directory}: asset file name {record.filename!r} is not one of a file in the folder {_FOLDER!r}"
    )
  return Asset(record.filename, Path(directory, _FOLDER, name), record.tensor_info.name)
