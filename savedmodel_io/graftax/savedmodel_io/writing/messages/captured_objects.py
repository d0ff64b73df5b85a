"""The objects and graph nodes of what functions capture: variables, constants, assets, tables, forward tensors."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graftax.convert import CapturedTensor, LookupTable, ResourceHandle, StringTable
from graftax.graphdef_ir import DType, Function, PartialShape, TensorRef, TensorSpec, schema, shape_to_proto
from graftax.savedmodel_io.errors import UnsupportedSavedModelError
from graftax.savedmodel_io.objects.trackable_graph import TABLE_CONTENTS
from graftax.savedmodel_io.writing.bundles.stored_tensor import StoredTensor, stored_tensor
from graftax.savedmodel_io.writing.messages.function_records import bare_function, function_spec, plain_record
from graftax.savedmodel_io.writing.messages.graph_nodes import GraphBuilder, table_keys
from graftax.savedmodel_io.writing.messages.object_builder import ObjectBuilder
from graftax.savedmodel_io.writing.messages.table_functions import TableFunctions, table_functions, table_key
from graftax.savedmodel_io.writing.model_content import SavedVariable

__all__ = ["CapturedObjects", "ChangingTable"]


@dataclass(frozen=True, slots=True)
class ChangingTable:
  """A table that can change.

  Attributes:
    handle: its handle in the graph.
    keys: `[n]`.
    values: `[n, ...]`.
  """

  handle: TensorRef
  keys: StoredTensor
  values: StoredTensor


@dataclass
class CapturedObjects:
  """Objects and nodes, each made when it is first asked for or added.

  Attributes:
    objects: where objects are added.
    graph: where nodes are added.
    variables: name -> object.
    handles: name of a variable -> its handle in the graph.
    asset_records: the records of assets.
    tables: objects of tables.
    changing: object of a table that can change -> what checkpoints hold of it.
    functions: the functions of tables, by name.
    records: their records.
  """

  objects: ObjectBuilder
  graph: GraphBuilder
  variables: dict[str, int] = field(default_factory=dict)
  handles: dict[str, TensorRef] = field(default_factory=dict)
  asset_records: list[schema.AssetFileDef] = field(default_factory=list)
  tables: list[int] = field(default_factory=list)
  changing: dict[int, ChangingTable] = field(default_factory=dict)
  functions: dict[str, Function] = field(default_factory=dict)
  records: dict[str, schema.SavedConcreteFunction] = field(default_factory=dict)
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
    key = capture
    if isinstance(capture, np.ndarray):
      key = id(capture)
    elif isinstance(capture, LookupTable | StringTable):
      key = table_key(capture)
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
    if isinstance(capture, LookupTable | StringTable):
      return self._make_table(capture)
    if isinstance(capture, ResourceHandle) and capture.name in self.variables:
      return self.variables[capture.name], self.handles[capture.name]
    raise UnsupportedSavedModelError(f"{capture}: only variables, constants, assets and tables can be saved")

  def _make_table(self, table: LookupTable | StringTable) -> tuple[int, TensorRef]:
    made = table_functions(table, len(self.tables))
    handle = self.graph.add_node_like(made.maker)
    if made.save is None or made.restore is None:
      resource, bound = self._make_constant_table(table, made, handle)
    else:
      resource, bound = self._make_changing_table(table, made.save, made.restore, handle), []
    self.tables.append(resource)
    status = TensorSpec(PartialShape(()), DType.INT32)
    for attribute, function, result, captured in (
      ("_create_resource", made.create, TensorSpec(PartialShape(()), DType.RESOURCE), []),
      ("_initialize", made.initialize, status, bound),
      ("_destroy_resource", made.destroy, status, []),
    ):
      self.functions[function.name] = function
      self.records[function.name] = plain_record(result, captured)
      message = schema.SavedFunction(
        concrete_functions=[function.name], function_spec=function_spec(inspect.Signature(), "a table")
      )
      self.objects.attach(resource, attribute, self.objects.add(schema.SavedObject(function=message)))
    return resource, handle

  def _make_constant_table(
    self, table: LookupTable | StringTable, made: TableFunctions, handle: TensorRef
  ) -> tuple[int, list[int]]:
    """Returns the object of a table that is filled once, and what the function captures that fills it."""
    contents = [np.asarray(table.keys), np.asarray(table.values)]
    keys, values = self.object_ids(contents)
    fill = self.graph.add_table_import("hash_table/fill", [handle, *self.tensors(contents)], made.dtypes)
    self.graph.initializers.append(fill.node)
    resource = self.objects.add_table()
    return resource, [resource, keys, values]

  def _make_changing_table(
    self, table: LookupTable | StringTable, save: Function, restore: Function, handle: TensorRef
  ) -> int:
    """Returns the object of a table whose contents are in the checkpoint."""
    what = f"table {table.name!r}"
    keys, values = stored_tensor(np.asarray(table.keys), what), stored_tensor(np.asarray(table.values), what)
    resource = self.objects.add_table(bare_function(save.name, ()), bare_function(restore.name, ("contents",)))
    tensors = zip(table_keys(TABLE_CONTENTS), (keys, values), strict=True)
    specs = {key: TensorSpec(PartialShape(None), tensor.dtype) for key, tensor in tensors}
    for function, args, result in ((save, (), specs), (restore, (specs,), None)):
      self.functions[function.name] = function
      self.records[function.name] = plain_record(result, [resource], args)
    self.changing[resource] = ChangingTable(handle, keys, values)
    return resource

  def _make_constant(self, value: np.ndarray) -> tuple[int, TensorRef]:
    text = value.ravel()[0] if value.dtype == object and value.shape == () else None
    if text in self._assets:
      return self._assets[text]
    ref = self.graph.add_constant("Const", value)
    return self.objects.add(schema.SavedObject(constant=schema.SavedConstant(operation=ref.node))), ref
