"""Lookup tables and other resources of a SavedModel, as constants."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from graftax.convert import (
  Capture,
  ResourceHandle,
  SentencePieceModel,
  UnavailableCapture,
  filled_table,
  graph_filled_tables,
  known_values,
  table_capture,
  table_dtypes,
)
from graftax.graphdef_ir import DType, Function, Graph, Node, PartialShape, Tensor, inline_calls, traits_of
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.model_parts import ModelParts
from graftax.savedmodel_io.objects.captures import AssetCapture, ConstantCapture, ResourceCapture
from graftax.savedmodel_io.objects.functions import ConcreteFunction, Resource

__all__ = ["graph_tables", "restored_resource"]

# What ops that make tables make, by their traits.
_TABLES = ("table", "anonymous_table")
# The first inputs of the op that makes a dense table: the keys of free and of deleted buckets.
_NUM_MARKERS = 2


def restored_resource(model: ModelParts, name: str) -> Capture:
  """Returns a table or model that functions capture, with its contents after loading, or what is wrong with it.

  Args:
    model: a loaded model.
    name: the resource's name in `model.resources`.
  """
  resource = model.resources.get(name)
  if resource is None:
    return UnavailableCapture(f"object {name!r}, which is not a table,")
  creator = resource.create
  nodes = () if creator is None else _body(model, creator).nodes
  for node in nodes:
    data = node.attrs.get("model")
    if node.op == "SentencepieceOp" and isinstance(data, bytes):
      return SentencePieceModel(f"resource {name!r} is a SentencePiece model", data)
  maker = next((node for node in nodes if traits_of(node.op).makes in _TABLES), None)
  op = "" if maker is None else maker.op
  checkpointed = _checkpointed(model, resource)
  if checkpointed is not None:
    if creator is not None and maker is not None and traits_of(op).marks_buckets:
      checkpointed = _without_free_buckets(model, name, creator, maker, *checkpointed)
    return table_capture(name, *checkpointed, maker=op)
  if resource.initialize is None:
    return UnavailableCapture(f"resource {name!r}, which nothing in the model fills,")
  captures = _captures(resource.initialize, name)
  if isinstance(captures, UnavailableCapture):
    return captures
  initializer = _body(model, resource.initialize)
  dtypes = (DType.STRING, DType.INT64) if maker is None else table_dtypes(maker)
  return filled_table(
    name, initializer, captures, model.graph.library, model.graph.signatures, op, dtypes, model.folder
  )


def _body(model: ModelParts, function: ConcreteFunction) -> Function:
  """Returns a function with its calls inlined: if TensorFlow saves a loaded table, it wraps the table's functions."""
  graph = model.graph
  return inline_calls(graph.library[function.name], graph.library, signatures=graph.signatures)


def _captures(function: ConcreteFunction, table: str) -> list[Capture] | UnavailableCapture:
  """Returns the captures of a function that makes or fills a table."""
  captures: list[Capture] = []
  for capture in function.captures:
    match capture:
      case ConstantCapture():
        captures.append(capture.value.numpy())
      case AssetCapture():
        captures.append(np.asarray(str(capture.path).encode(), object))
      case ResourceCapture():
        captures.append(ResourceHandle(capture.name, "table"))
      case _:
        return UnavailableCapture(f"table {table!r}, which is filled from {capture},")
  return captures


def _checkpointed(model: ModelParts, resource: Resource) -> tuple[np.ndarray, np.ndarray] | None:
  """Returns the keys and values of a table that the checkpoint holds, since it can change; None for any other."""
  for key in resource.checkpoint_keys.values():
    # TensorFlow records one key for both tensors, or if it saves a table that it loaded, the key of each.
    base = key.removesuffix("-keys")
    if model.checkpoint is not None and f"{base}-keys" in model.checkpoint:
      return np.asarray(model.checkpoint[f"{base}-keys"]), np.asarray(model.checkpoint[f"{base}-values"])
  return None


def graph_tables(model: ModelParts, used: Collection[str]) -> dict[str, Capture]:
  """Returns table node -> the table that a TF1 graph fills it with, for the nodes in `used`."""
  return {
    name: table for name, table in graph_filled_tables(_with_asset_paths(model), model.folder).items() if name in used
  }


def _with_asset_paths(model: ModelParts) -> Graph:
  """Returns the graph with the paths of the asset files in place of those that they had when the model was saved."""
  paths = {asset.tensor.partition(":")[0]: asset.path for asset in model.assets.entries if asset.tensor}
  if not paths:
    return model.graph
  nodes = [
    replace(node, attrs={**node.attrs, "value": Tensor.from_numpy(np.array(str(paths[node.name]).encode(), object))})
    if node.op == "Const" and node.name in paths
    else node
    for node in model.graph.nodes
  ]
  return replace(model.graph, nodes=tuple(nodes))


def _without_free_buckets(
  model: ModelParts, name: str, creator: ConcreteFunction, maker: Node, keys: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the keys and values in the table. A DenseHashTable is saved with all its buckets, scalars in it as `[1]`.

  The function that makes the table says which keys mark free and deleted buckets, and which shape keys and values have.
  """
  captures = _captures(creator, name)
  value_shape = maker.attrs.get("value_shape", PartialShape(()))
  if isinstance(captures, UnavailableCapture) or not isinstance(value_shape, PartialShape):
    raise DamagedSavedModelError(f"table {name!r}: what function {creator.name!r} makes cannot be read")
  body, graph = _body(model, creator), model.graph
  markers = known_values(body, maker.inputs[:_NUM_MARKERS], captures, graph.library, graph.signatures)
  keys = keys.reshape(len(keys), *np.shape(markers[0]))
  values = values.reshape(len(values), *value_shape.as_tuple())
  is_marker = [(keys == marker).reshape(len(keys), -1).all(axis=1) for marker in markers]
  taken = ~np.any(is_marker, axis=0)
  return keys[taken], values[taken]
