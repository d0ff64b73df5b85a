"""What a path names: the folder of a SavedModel, a file with one graph, or a training folder of TF1."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graftax.graphdef_ir import Budget, FolderPaths, ModelFolder, schema
from graftax.savedmodel_io.errors import UnknownTagsError
from graftax.savedmodel_io.files.graph_file import (
  checkpoint_of_meta_graph,
  is_graph_file,
  meta_graph_of_folder,
  read_graph_file,
)
from graftax.savedmodel_io.files.saved_model_pb import (
  all_tags,
  choose_meta_graph,
  is_saved_model,
  is_saved_model_file,
  model_file_size,
  read_saved_model,
)

__all__ = ["ModelFiles", "ModelKind", "read_model_files"]

ModelKind = Literal["SavedModel", "GraphDef", "MetaGraph"]

_CHECKPOINT = ("variables", "variables")


@dataclass(frozen=True, slots=True)
class ModelFiles:
  """The files of a model.

  Attributes:
    path: the folder of a SavedModel, or the file with the graph.
    kind: which of these it is.
    meta_graph: the MetaGraph with the tags that were asked for.
    tag_sets: the tags of all MetaGraphs.
    checkpoint: the path of the model's checkpoint, which need not exist; None if there can be none.
    folder: the files that the model may read. A graph by itself has none but its own.
    size_bytes: the size of the file with the graph.
  """

  path: str
  kind: ModelKind
  meta_graph: schema.MetaGraphDef
  tag_sets: tuple[frozenset[str], ...]
  checkpoint: str | None
  folder: ModelFolder
  size_bytes: int


def read_model_files(
  path: str, tags: str | Iterable[str] | None, budget: Budget, allow_files_in: FolderPaths = ()
) -> ModelFiles:
  """Returns the files of a model.

  Args:
    path: what the caller named.
    tags: the tags of the MetaGraph.
    budget: limits what the files may ask for.
    allow_files_in: folders whose files the model may read besides those of its own.

  Raises:
    UnsafeFileError: a file is a link to another folder, or not a regular file.
    SavedModelNotFoundError: nothing is there.
    NotASavedModelError: it is something else.
    UnknownTagsError: no MetaGraph has these tags.
    LimitExceededError: the file asks for more memory than the budget allows.
  """
  graph_file = path if is_graph_file(path) and not is_saved_model_file(path) else None
  if graph_file is None and os.path.isdir(path) and not is_saved_model(path):
    graph_file = meta_graph_of_folder(path, ModelFolder.of(path, allow_files_in))
  if graph_file is not None:
    return _read_graph_file(graph_file, tags, allow_files_in, named=graph_file == path)
  directory, named = path, []
  if is_saved_model_file(path):
    directory, named = os.path.dirname(path) or ".", [path]
  folder = ModelFolder.of(directory, allow_files_in, files=named)
  proto = read_saved_model(directory, budget, folder)
  meta_graph, checkpoint = choose_meta_graph(proto, tags, directory), os.path.join(directory, *_CHECKPOINT)
  size = model_file_size(directory)
  return ModelFiles(directory, "SavedModel", meta_graph, all_tags(proto), checkpoint, folder, size)


def _read_graph_file(
  path: str, tags: str | Iterable[str] | None, allow_files_in: FolderPaths, *, named: bool
) -> ModelFiles:
  folder = ModelFolder.of(os.path.dirname(path) or ".", allow_files_in, files=[path] if named else [])
  kind, meta_graph = read_graph_file(path, folder)
  own_tags = frozenset(meta_graph.meta_info_def.tags)
  wanted = None if tags is None else frozenset([tags] if isinstance(tags, str) else tags)
  if wanted not in (None, own_tags):
    raise UnknownTagsError(f"{path}: a {kind} with the tags {sorted(own_tags)}; expected {sorted(wanted or ())}.")
  size = os.path.getsize(path)
  if kind == "GraphDef":  # what else is in the folder, such as that of downloads, is not the graph's
    return ModelFiles(path, kind, meta_graph, (own_tags,), None, ModelFolder.of(None, allow_files_in), size)
  return ModelFiles(path, kind, meta_graph, (own_tags,), checkpoint_of_meta_graph(path, folder), folder, size)
