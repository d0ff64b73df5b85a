"""`saved_model.pb`: finding, checking and parsing it, and choosing a MetaGraph by its tags."""

import os
from collections.abc import Iterable

from google.protobuf.message import DecodeError

from graftax.graphdef_ir import Budget, ModelFolder, ParseError, UnsafeFileError, parse_text_form, schema
from graftax.savedmodel_io.chunked.merging import read_chunked_saved_model
from graftax.savedmodel_io.errors import (
  DamagedSavedModelError,
  NotASavedModelError,
  SavedModelNotFoundError,
  UnknownTagsError,
  UnsupportedSavedModelError,
)

__all__ = [
  "all_tags",
  "choose_meta_graph",
  "is_saved_model",
  "is_saved_model_file",
  "model_file",
  "model_file_size",
  "read_saved_model",
]

_BINARY = "saved_model.pb"
_TEXT = "saved_model.pbtxt"
_CHUNKED = "saved_model.cpb"
# Modules that tensorflow_hub exported for TF1 leave the version out, which reads as 0.
_SCHEMA_VERSIONS = (0, 1)
# The message begins with field 1 (schema version, a varint) or field 2 (MetaGraphs), whichever was written first.
_FIRST_BYTES = (b"\x08", b"\x12")
# A GraphDef begins with its first node.
_GRAPH_FIRST_BYTE = b"\n"
_GRAPH_SUFFIXES = (".pb", ".pbtxt", ".meta")
# What a MetaGraph takes in memory at least.
_META_GRAPH_BYTES = 1000
# Folders of a listing in a message.
_NUM_SHOWN = 10
_SERVE = frozenset(["serve"])
_MOST_BYTES = (1 << 31) - 1
# The beginning of errors about the file.
_FILE = "the file of the SavedModel"


def is_saved_model(path: str | os.PathLike[str]) -> bool:
  """Returns whether a folder holds a SavedModel, by its file names alone.

  Example:
    >>> is_saved_model("no/such/folder")
    False
  """
  return any(os.path.isfile(os.path.join(path, name)) for name in (_BINARY, _TEXT, _CHUNKED))


def is_saved_model_file(path: str) -> bool:
  """Returns whether a path is that of the file in the folder of a SavedModel, by its name alone."""
  return os.path.basename(path) in (_BINARY, _TEXT, _CHUNKED) and os.path.isfile(path)


def model_file(path: str | os.PathLike[str]) -> str:
  """Returns the name of the file by which a folder is known to be a SavedModel, and so may be replaced by one."""
  return next((name for name in (_TEXT, _CHUNKED) if os.path.isfile(os.path.join(path, name))), _BINARY)


def read_saved_model(
  directory: str, budget: Budget | None = None, folder: ModelFolder | None = None
) -> schema.SavedModel:
  """Returns the parsed `saved_model.pb` (or `.pbtxt`, or `.cpb`, which is in chunks) of a folder.

  Args:
    directory: the folder.
    budget: limits what chunks decompress to.
    folder: the files that may be read; by default those in `directory`.

  Raises:
    UnsafeFileError: the file is a link to another folder, not a regular file, or too large.
    SavedModelNotFoundError: the folder or the file is not there.
    NotASavedModelError: the file is something else.
    DamagedSavedModelError: the file is cut off or damaged.
    UnsupportedSavedModelError: the file is of a later format version, or in chunks of a kind that TensorFlow does not
      write.
    LimitExceededError: the file asks for more memory than the budget allows.
  """
  own = ModelFolder.of(directory) if folder is None else folder
  paths = [os.path.join(directory, name) for name in (_BINARY, _TEXT, _CHUNKED)]
  path = next(filter(os.path.exists, paths), "")
  if path.endswith(_BINARY):
    model = _parse_binary(path, own)
  elif path.endswith(_TEXT):
    model = _parse_text(path, own)
  elif path:
    model = read_chunked_saved_model(path, budget, own)
  else:
    raise SavedModelNotFoundError(_describe_missing(directory))
  num_meta_graphs = len(model.meta_graphs)
  Budget.of(budget).spend_unpacked_bytes(
    _META_GRAPH_BYTES * num_meta_graphs, os.path.getsize(path), f"{path}: {num_meta_graphs} MetaGraphs"
  )
  if not model.meta_graphs:
    raise NotASavedModelError(f"{path}: parses, but holds no MetaGraph; it is cut off, or not a SavedModel")
  if model.saved_model_schema_version not in _SCHEMA_VERSIONS:
    raise UnsupportedSavedModelError(
      f"{path}: SavedModel schema version {model.saved_model_schema_version}; expected one of {_SCHEMA_VERSIONS}"
    )
  return model


def all_tags(model: schema.SavedModel) -> tuple[frozenset[str], ...]:
  """Returns the tags of each MetaGraph, in the order of the file."""
  return tuple(frozenset(meta_graph.meta_info_def.tags) for meta_graph in model.meta_graphs)


def model_file_size(directory: str) -> int:
  """Returns the size of the file that `read_saved_model` reads."""
  paths = (os.path.join(directory, name) for name in (_BINARY, _TEXT, _CHUNKED))
  return next((os.path.getsize(path) for path in paths if os.path.isfile(path)), 0)


def choose_meta_graph(model: schema.SavedModel, tags: str | Iterable[str] | None, path: str) -> schema.MetaGraphDef:
  """Returns the MetaGraph with exactly these tags.

  Args:
    model: the SavedModel.
    tags: one tag or several; by default the only MetaGraph, or the one tagged "serve" if there are several.
    path: the model's folder, for messages.

  Raises:
    UnknownTagsError: none or several have these tags; the message lists all tags.
  """
  tag_sets = all_tags(model)
  if tags is None:
    if len(tag_sets) == 1:
      return model.meta_graphs[0]
    wanted = _SERVE
  else:
    wanted = frozenset([tags] if isinstance(tags, str) else tags)
  found = [meta_graph for meta_graph, have in zip(model.meta_graphs, tag_sets, strict=True) if have == wanted]
  if len(found) != 1:
    asked = "no tags given" if tags is None else f"tags {sorted(wanted)}"
    raise UnknownTagsError(
      f"{path}: {asked}: {len(found)} of {len(tag_sets)} MetaGraphs match exactly; there are "
      f"{[sorted(have) for have in tag_sets[:_NUM_SHOWN]]}. "
      "Pass tags= with one of these sets."
    )
  return found[0]


def _parse_binary(path: str, folder: ModelFolder) -> schema.SavedModel:
  with folder.open(path, _FILE) as f:
    # A wrong file may be gigabytes long: one byte tells most of them apart.
    first = f.read(1)
    if first not in _FIRST_BYTES:
      hint = _frozen_graph_hint(path) if first == _GRAPH_FIRST_BYTE else ""
      raise NotASavedModelError(
        f"{path}: not a SavedModel: it begins with {first!r}, expected one of {_FIRST_BYTES}.{hint}"
      )
    size = os.fstat(f.fileno()).st_size
    if size > _MOST_BYTES:
      raise UnsafeFileError(f"{path}: has {size} bytes; protobuf reads at most {_MOST_BYTES}.")
    data = first + f.read(_MOST_BYTES)
  try:
    return schema.SavedModel.FromString(data)
  except DecodeError as e:
    raise DamagedSavedModelError(f"{path}: {len(data)} bytes cannot be parsed as a SavedModel: {e}") from e


def _parse_text(path: str, folder: ModelFolder) -> schema.SavedModel:
  data = folder.read(path, _FILE)
  try:
    return parse_text_form(schema.SavedModel, data)
  except ParseError as e:
    raise DamagedSavedModelError(f"{path}: {e}") from e


def _describe_missing(directory: str) -> str:
  if not os.path.exists(directory):
    return f"{directory}: no such folder; expected the folder that holds {_BINARY}"
  if os.path.isfile(directory):
    return f"{directory}: a file; expected the folder that holds {_BINARY}.{_file_hint(directory)}"
  if not os.path.isdir(directory):
    return f"{directory}: a pipe or a device; expected the folder that holds {_BINARY}"
  inside = sorted(os.listdir(directory))
  hint = _folder_hint(directory, inside)
  return f"{directory}: holds neither {_BINARY} nor {_TEXT}; it holds {inside[:_NUM_SHOWN]}.{hint}"


def _file_hint(path: str) -> str:
  """Returns what reads a file that was given in place of a folder."""
  if path.endswith((".keras", ".h5", ".hdf5", ".weights.json")):
    return (
      f" The weights of a Keras file are read with graftax.savedmodel_io.read_weights({path!r}). Its program is "
      "written as a SavedModel with keras.models.load_model(path).export(folder)."
    )
  if path.endswith(".safetensors"):
    return f" Weights without a program are read with graftax.savedmodel_io.read_safetensors({path!r})."
  if path.endswith((".tar.gz", ".tgz", ".tar")):
    return f" An archive of one is read with graftax.hub_io.load({path!r})."
  if path.endswith(".index"):
    return _checkpoint_hint(path.removesuffix(".index"))
  return ""


def _folder_hint(directory: str, names: Iterable[str]) -> str:
  """Returns what can be read in a folder that is not a SavedModel."""
  within = [os.path.join(directory, name) for name in names]
  models = [path for path in within if is_saved_model(path)]
  if models:
    return f" There are SavedModels in {models[:_NUM_SHOWN]}."
  prefixes = [path.removesuffix(".index") for path in within if path.endswith(".index")]
  if prefixes:
    return _checkpoint_hint(prefixes[-1])
  graphs = [path for path in within if path.endswith(_GRAPH_SUFFIXES)]
  return f" There are graphs in {graphs[:_NUM_SHOWN]}; pass the path of one." if graphs else " Pass a folder that does."


def _frozen_graph_hint(path: str) -> str:
  # By its path it would be taken for a SavedModel again.
  return (
    f" A frozen graph is converted with graftax.convert.convert(pathlib.Path({path!r}).read_bytes(), inputs=[...], "
    "outputs=[...])."
  )


def _checkpoint_hint(prefix: str) -> str:
  return (
    f" A checkpoint is read with graftax.savedmodel_io.CheckpointReader({prefix!r}); it holds values, but no program."
  )
