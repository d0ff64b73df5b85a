"""The objects and graph nodes of what functions capture: variables, constants, assets, tensors of a forward pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graftax.convert import CapturedTensor, ResourceHandle
from graftax.graphdef_ir import TensorRef, schema, shape_to_proto
from graftax.savedmodel_io.errors import UnsupportedSavedModelError
from graftax.savedmodel_io.writing.graph_nodes import GraphBuilder
from graftax.savedmodel_io.writing.model_content import SavedVariable
from graftax.savedmodel_io.writing.object_builder import ObjectBuilder

__all__ = ["CapturedObjects"]


@dataclass
class CapturedObjects:
  """Objects and nodes, each made when it is first asked for or added.

  Attributes:
    objects: where objects are added.
    graph: where nodes are added.
    variables: name -> object.
    handles: name of a variable -> its handle in the graph.
    asset_records: the records of assets.
  """

  objects: ObjectBuilder
  graph: GraphBuilder
  variables: dict[str, int] = field(default_factory=dict)
  handles: dict[str, TensorRef] = field(default_factory=dict)
  asset_records: list[schema.AssetFileDef] = field(default_factory=list)
  _assets: dict[bytes, tuple[int, TensorRef]] = field(default_factory=dict)
  _known: dict[Any, tuple[int, TensorRef | None]] = field(default_factory=dict)
  _kept: list[Any] = field(default_factory=list)

  def add_variables(self, variables: Mapping[str, SavedVariable]) -> None:
    for name, variable in variables.items():
      spec = variable.spec
      message = schema.SavedVariable(
        name=name, dtype=int(spec.dtype), shape=shape_to_proto(spec.shape), trainable=variable.trainable
      )
      self.variables[name] = self.objects.add_variable(message)
      self.handles[name] = self.graph.add_variable(name, spec)

  def add_assets(self, assets: Mapping[str, Path]) -> dict[str, int]:
    """Adds assets, and returns file name -> object. A constant that is the path of one is that asset from now on."""
    made: dict[str, int] = {}
    for filename, path in assets.items():
      fed, read = self.graph.add_asset("asset_path")
      self.asset_records.append(
        schema.AssetFileDef(filename=filename, tensor_info=schema.TensorInfo(name=f"{fed.node}:0"))
      )
      asset = schema.SavedAsset(asset_file_def_index=len(self.asset_records) - 1)
      made[filename] = self.objects.add(schema.SavedObject(asset=asset))
      self._assets[str(path).encode()] = made[filename], read
    return made

  def object_ids(self, captures: Sequence[Any]) -> list[int]:
    """Returns the object of each capture."""
    return [self._object(capture)[0] for capture in captures]

  def tensors(self, captures: Sequence[Any]) -> list[TensorRef]:
    """Returns the tensor of the graph that each capture of a program is."""
    refs: list[TensorRef] = []
    for capture in captures:
      _, ref = self._object(capture)
      if ref is None:
        raise AssertionError(f"internal: {capture} is not in the graph")
      refs.append(ref)
    return refs

  def _object(self, capture: Any) -> tuple[int, TensorRef | None]:
    key = id(capture) if isinstance(capture, np.ndarray) else capture
    if key not in self._known:
      self._known[key] = self._make(capture)
      self._kept.append(capture)  # an id is unique as long as its object lives
    return self._known[key]

  def _make(self, capture: Any) -> tuple[int, TensorRef | None]:
    if isinstance(capture, CapturedTensor):
      name = f"{capture.ref.node}:{capture.ref.index}"
      message = schema.CapturedTensor(name=name, concrete_function=capture.function)
      return self.objects.add(schema.SavedObject(captured_tensor=message)), None
    if isinstance(capture, np.ndarray):
      return self._make_constant(capture)
    if isinstance(capture, ResourceHandle) and capture.name in self.variables:
      return self.variables[capture.name], self.handles[capture.name]
    raise UnsupportedSavedModelError(
      f"{capture}: only variables, constants and assets that functions capture can be saved"
    )

  def _make_constant(self, value: np.ndarray) -> tuple[int, TensorRef]:
    text = value.ravel()[0] if value.dtype == object and value.shape == () else None
    if text in self._assets:
      return self._assets[text]
    ref = self.graph.add_constant("Const", value)
    return self.objects.add(schema.SavedObject(constant=schema.SavedConstant(operation=ref.node))), ref
