"""Lookup tables of a SavedModel, as constants."""

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from graftax.convert import Capture, ResourceHandle, UnavailableCapture
from graftax.convert.tables import filled_table, graph_filled_tables, table_capture
from graftax.savedmodel_io.captures import AssetCapture, ConstantCapture, ResourceCapture
from graftax.savedmodel_io.functions import Resource

if TYPE_CHECKING:
  from graftax.savedmodel_io.saved_model import SavedModel

__all__ = ["graph_tables", "restored_table"]


def restored_table(model: "SavedModel", name: str) -> Capture:
  """A table that functions capture, with the contents it has after loading; or what is wrong with it.

  Args:
    model: a loaded model.
    name: the resource's name in `model.resources`.
  """
  resource = model.resources.get(name)
  if resource is None:
    return UnavailableCapture(f"object {name!r}, which is no table,")
  checkpointed = _checkpointed(model, resource)
  if checkpointed is not None:
    return table_capture(name, *checkpointed)
  if resource.initialize is None:
    return UnavailableCapture(f"resource {name!r}, which nothing in the model fills,")
  captures: list[Capture] = []
  for capture in resource.initialize.captures:
    match capture:
      case ConstantCapture():
        captures.append(capture.value.numpy())
      case AssetCapture():
        captures.append(np.asarray(str(capture.path).encode(), object))
      case ResourceCapture():
        captures.append(ResourceHandle(capture.name, "table"))
      case _:
        return UnavailableCapture(f"table {name!r}, which is filled from {capture},")
  library = model.graph.library
  return filled_table(name, library[resource.initialize.name], captures, library, model.graph.signatures)


def _checkpointed(model: "SavedModel", resource: Resource) -> tuple[np.ndarray, np.ndarray] | None:
  """Keys and values of a table that changes, which the checkpoint holds."""
  for key in resource.checkpoint_keys.values():
    if model.checkpoint is not None and f"{key}-keys" in model.checkpoint:
      return np.asarray(model.checkpoint[f"{key}-keys"]), np.asarray(model.checkpoint[f"{key}-values"])
  return None


def graph_tables(model: "SavedModel", used: Collection[str]) -> dict[str, Capture]:
  """Table node -> the table that the graph of a TF1 model fills it with, for those among the nodes `used`."""
  return {name: table for name, table in graph_filled_tables(model.graph).items() if name in used}
