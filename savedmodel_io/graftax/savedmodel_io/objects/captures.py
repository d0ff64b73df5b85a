"""What a saved concrete function closes over: one capture per trailing parameter of its graph function."""

from dataclasses import dataclass
from pathlib import Path

from graftax.graphdef_ir import Tensor
from graftax.savedmodel_io.objects.object_graph import CapturedTensorObject

__all__ = [
  "AssetCapture",
  "Capture",
  "ConstantCapture",
  "ResourceCapture",
  "VariableCapture",
]


@dataclass(frozen=True, slots=True)
class VariableCapture:
  """The handle of a variable, by its key in `SavedModel.variables`."""

  name: str


@dataclass(frozen=True, slots=True)
class ConstantCapture:
  """A constant; `node` is the Const node of the graph that holds it."""

  node: str
  value: Tensor


@dataclass(frozen=True, slots=True)
class AssetCapture:
  """The path of an asset file, a string scalar."""

  path: Path


@dataclass(frozen=True, slots=True)
class ResourceCapture:
  """The handle of a table or another resource, by its key in `SavedModel.resources`."""

  name: str


Capture = VariableCapture | ConstantCapture | AssetCapture | ResourceCapture | CapturedTensorObject
