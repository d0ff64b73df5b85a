"""The `.weights.json` file of Keras 3, which says in which of several HDF5 files each weight is."""

import json
import os
from collections.abc import Mapping, Sequence

from graftax.graphdef_ir import ModelFolder
from graftax.savedmodel_io.errors import DamagedWeightsError, UnsafeWeightsError
from graftax.savedmodel_io.keras_files.h5_file import Group, child
from graftax.savedmodel_io.pytrees import Json

__all__ = ["check_shards", "read_weight_map"]

_MOST_MAP_BYTES = 1 << 26
# All of them are open at once.
_MOST_SHARDS = 512


def read_weight_map(path: str, folder: ModelFolder) -> dict[str, tuple[str, ...]]:
  """Returns file name -> the groups that it holds weights of, as paths within the file.

  Args:
    path: a `.weights.json` file. The files that it names lie beside it.
    folder: the files that may be read.

  Raises:
    UnsafeFileError: one of the files is a link to another folder, or not a regular file.
    DamagedWeightsError: it is damaged, or something else, or one of the files is missing.
    UnsafeWeightsError: it names files in other folders, or too many.
  """
  groups = _groups_by_file(_read_json(path, folder), path)
  if len(groups) > _MOST_SHARDS:
    raise UnsafeWeightsError(f"{path}: names {len(groups)} files; expected at most {_MOST_SHARDS}")
  for name in groups:
    if os.path.basename(name) != name or name in ("", ".", ".."):
      raise UnsafeWeightsError(f"{path}: names the file {name!r}; expected files beside it")
    try:
      folder.size_bytes(os.path.join(os.path.dirname(path), name), f"{path} names {name!r}")
    except FileNotFoundError as e:
      raise DamagedWeightsError(f"{path}: the file {name!r} is missing; copy it to the same folder") from e
  return {name: tuple(held) for name, held in groups.items()}


def check_shards(files: Sequence[Group], groups: Mapping[str, Sequence[str]]) -> None:
  """Raises DamagedWeightsError if a file does not have the groups that the weight map names for it."""
  for file, (name, held) in zip(files, groups.items(), strict=True):
    for group in held:
      try:
        child(file, group)
      except DamagedWeightsError as e:
        raise DamagedWeightsError(f"{name}: {e}, which the weight map names; the file is of other weights") from e


def _read_json(path: str, folder: ModelFolder) -> Json:
  size = folder.size_bytes(path, path)
  if size > _MOST_MAP_BYTES:
    raise UnsafeWeightsError(f"{path}: has {size} bytes; expected at most {_MOST_MAP_BYTES}")
  data = folder.read(path, path)
  try:
    return json.loads(data.decode())
  except (ValueError, RecursionError) as e:  # a UnicodeDecodeError is a ValueError
    raise DamagedWeightsError(f"{path}: damaged, or not JSON ({type(e).__name__}: {e})") from e


def _groups_by_file(content: Json, path: str) -> dict[str, list[str]]:
  weight_map = content.get("weight_map") if isinstance(content, dict) else None
  if not isinstance(weight_map, dict) or not weight_map:
    raise DamagedWeightsError(f"{path}: not a file of Keras that lists weights; it has no 'weight_map'")
  groups: dict[str, list[str]] = {}
  for group, names in weight_map.items():
    names = names if isinstance(names, list) else [names]  # a layer may be split
    if not names or not all(isinstance(name, str) for name in names):
      raise DamagedWeightsError(f"{path}: {group!r} is in {names!r}; expected names of files")
    for name in names:
      groups.setdefault(name, []).append(group.strip("/"))
  return groups
