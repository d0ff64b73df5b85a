"""Files with one graph: a GraphDef (`.pb`, `.pbtxt`), such as a frozen graph, or a checkpoint's MetaGraph (`.meta`).

Which of them a file is follows from its name, or if that is `.pb`, from what it holds.
"""

import os
from collections.abc import Iterator
from typing import Literal, TypeVar

from graftax.graphdef_ir import ModelFolder, ParseError, parse_message, schema
from graftax.savedmodel_io.checkpoint.bundle_reader import index_path
from graftax.savedmodel_io.checkpoint.state import newest_checkpoint
from graftax.savedmodel_io.checkpoint.v1_reader import is_v1_checkpoint
from graftax.savedmodel_io.errors import CheckpointNotFoundError, NotASavedModelError

__all__ = ["checkpoint_of_meta_graph", "is_graph_file", "meta_graph_of_folder", "read_graph_file"]

_Message = TypeVar("_Message", bound=schema.Message)

_GRAPH_SUFFIXES = (".pb", ".pbtxt", ".graphdef")
_META_SUFFIX = ".meta"
_META_SUFFIXES = (_META_SUFFIX, ".meta.pbtxt", ".meta.txt")
# What protobuf serializes at most.
_MOST_BYTES = (1 << 31) - 1
_NUM_FIRST_BYTES = 16
# First bytes of files that are often mistaken for graphs -> what they are.
_OTHER_FILES = {
  b"PK\x03\x04": "a zip archive, as .keras files are; graftax.savedmodel_io.read_weights reads the weights of those",
  b"\x89HDF\r\n": "an HDF5 file, as Keras writes; graftax.savedmodel_io.read_weights reads its weights",
  b"\x1f\x8b": "compressed with gzip; unpack it first",
}


def is_graph_file(path: str | os.PathLike[str]) -> bool:
  """Returns whether a path has the name of a file that `load` reads: `.pb`, `.pbtxt` or `.meta`.

  Example:
    >>> is_graph_file("no/such/file.pb")
    False
  """
  name = os.path.basename(path)
  return os.path.isfile(path) and name.endswith((*_GRAPH_SUFFIXES, *_META_SUFFIXES))


def meta_graph_of_folder(folder: str, allowed: ModelFolder | None = None) -> str | None:
  """Returns the `.meta` file of the newest checkpoint of a TF1 training folder, or None if it is not such a folder."""
  try:
    path = newest_checkpoint(folder, allowed) + _META_SUFFIX
  except CheckpointNotFoundError:
    return None
  return path if os.path.isfile(path) else None


def read_graph_file(path: str, folder: ModelFolder) -> tuple[Literal["GraphDef", "MetaGraph"], schema.MetaGraphDef]:
  """Returns `"GraphDef"` or `"MetaGraph"`, and the MetaGraph; for a GraphDef it holds the graph alone.

  Args:
    path: the file.
    folder: the files that may be read.

  Raises:
    UnsafeFileError: the file is a link to another folder, or not a regular file.
    NotASavedModelError: the file is something else, or damaged.
  """
  data = _read(path, folder)
  if path.endswith(_META_SUFFIXES):
    return "MetaGraph", _parse(schema.MetaGraphDef, data, path)
  graph = _parse(schema.GraphDef, data, path)
  if graph.node and not any(node.op for node in graph.node):
    # Both messages begin alike; of a MetaGraph, the first record reads as a node without an op.
    meta_graph = _parse(schema.MetaGraphDef, data, path)
    if meta_graph.graph_def.node:
      return "MetaGraph", meta_graph
  if not any(node.op for node in graph.node):
    raise NotASavedModelError(f"{path}: {len(data)} bytes parse as a GraphDef, but hold no graph.")
  return "GraphDef", schema.MetaGraphDef(graph_def=graph)


def _read(path: str, folder: ModelFolder) -> bytes:
  with folder.open(path, "the file of the graph") as f:
    # A wrong file may be gigabytes long.
    data = f.read(_NUM_FIRST_BYTES)
    size = os.fstat(f.fileno()).st_size
    if _hint(data) or size > _MOST_BYTES:
      raise NotASavedModelError(
        f"{path}: not a graph: {size} bytes that begin with {data!r}; expected a GraphDef or MetaGraphDef of at most "
        f"{_MOST_BYTES} bytes.{_hint(data)}"
      )
    return data + f.read()


def checkpoint_of_meta_graph(path: str, folder: ModelFolder) -> str | None:
  """Returns the path of the checkpoint of a MetaGraph: the one of the same name, or the newest in its folder."""
  suffix = next((suffix for suffix in _META_SUFFIXES if path.endswith(suffix)), os.path.splitext(path)[1])
  own = path.removesuffix(suffix)
  return next((prefix for prefix in _candidates(own, folder) if _is_checkpoint(prefix)), None)


def _candidates(own: str, folder: ModelFolder) -> Iterator[str]:
  yield own
  try:
    yield newest_checkpoint(os.path.dirname(own) or ".", folder)
  except CheckpointNotFoundError:
    return


def _is_checkpoint(prefix: str) -> bool:
  return os.path.isfile(index_path(prefix)) or is_v1_checkpoint(prefix)


def _parse(message_type: type[_Message], data: bytes, path: str) -> _Message:
  try:
    return parse_message(message_type, data)
  except ParseError as e:
    raise NotASavedModelError(f"{path}: {e}") from e


def _hint(data: bytes) -> str:
  what = next((what for start, what in _OTHER_FILES.items() if data.startswith(start)), None)
  return "" if what is None else f" It is {what}."
