"""What a path names: the folder of a SavedModel, a file with one graph, or a training folder of TF1."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graftax.graphdef_ir import schema
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
  """

  path: str
  kind: ModelKind
  meta_graph: schema.MetaGraphDef
  tag_sets: tuple[frozenset[str], ...]
  checkpoint: str | None


def read_model_files(path: str, tags: str | Iterable[str] | None) -> ModelFiles:
  """Returns the files of a model.

  Raises:
    SavedModelNotFoundError: nothing is there.
    NotASavedModelError: it is something else.
    UnknownTagsError: no MetaGraph has these tags.
  """
  graph_file = path if is_graph_file(path) and not is_saved_model_file(path) else None
  if graph_file is None and os.path.isdir(path) and not is_saved_model(path):
    graph_file = meta_graph_of_folder(path)
  if graph_file is not None:
    return _read_graph_file(graph_file, tags)
  folder = (os.path.dirname(path) or ".") if is_saved_model_file(path) else path
  proto = read_saved_model(folder)
  return ModelFiles(
    folder, "SavedModel", choose_meta_graph(proto, tags, folder), all_tags(proto), os.path.join(folder, *_CHECKPOINT)
  )


def _read_graph_file(path: str, tags: str | Iterable[str] | None) -> ModelFiles:
  kind, meta_graph = read_graph_file(path)
  own_tags = frozenset(meta_graph.meta_info_def.tags)
  wanted = None if tags is None else frozenset([tags] if isinstance(tags, str) else tags)
  if wanted not in (None, own_tags):
    raise UnknownTagsError(f"{path}: a {kind} with the tags {sorted(own_tags)}; expected {sorted(wanted or ())}.")
  checkpoint = checkpoint_of_meta_graph(path) if kind == "MetaGraph" else None
  return ModelFiles(path, kind, meta_graph, (own_tags,), checkpoint)
