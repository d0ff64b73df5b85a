"""Builds the graph of a SavedModel for loaders without objects: variables, constants, signatures, saving, restoring."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from graftax.graphdef_ir import DType, Node, PartialShape, Tensor, TensorRef, TensorSpec, schema, shape_to_proto
from graftax.savedmodel_io.signatures import INIT_SIGNATURE
from graftax.savedmodel_io.writing.messages.signature_functions import SignatureFunction, call_node

__all__ = ["GraphBuilder", "collections", "init_signature", "table_keys"]

_INVALID = re.compile(r"[^A-Za-z0-9_./-]")
_SCALAR = PartialShape(())
_METHOD = "tensorflow/serving/predict"
_MAIN_OP = "saved_model_main_op"


@dataclass
class GraphBuilder:
  """Nodes of the graph, by the names that they got.

  Attributes:
    nodes: all nodes.
    initializers: names of the nodes that must run before the first signature does.
  """

  nodes: list[Node] = field(default_factory=list)
  initializers: list[str] = field(default_factory=list)
  _numbers: dict[str, int] = field(default_factory=dict)

  def add(
    self, wanted: str, op: str, inputs: Sequence[TensorRef] = (), controls: Sequence[str] = (), **attrs: object
  ) -> TensorRef:
    """Adds a node, under the name that is wanted or one like it, and returns its first output."""
    name = self._free(wanted)
    self.nodes.append(Node(name, op, tuple(inputs), tuple(controls), attrs))  # type: ignore[arg-type]  # object
    return TensorRef(name)

  def add_node_like(self, node: Node) -> TensorRef:
    """Adds a node without inputs, under its name or one like it, and returns its first output."""
    self.nodes.append(replace(node, name=self._free(node.name)))
    return TensorRef(self.nodes[-1].name)

  def add_variable(self, name: str, spec: TensorSpec) -> TensorRef:
    """Adds a variable and returns its handle."""
    return self.add(name, "VarHandleOp", shared_name=name.encode(), dtype=spec.dtype, shape=spec.shape)

  def add_constant(self, wanted: str, value: np.ndarray) -> TensorRef:
    tensor = Tensor.from_numpy(value)
    return self.add(wanted, "Const", dtype=tensor.dtype, value=tensor)

  def add_asset(self, wanted: str) -> tuple[TensorRef, TensorRef]:
    """Adds the path of an asset. Returns the tensor that loaders feed it to, and the one that signatures read."""
    fed = self.add(f"{wanted}_initializer", "Placeholder", dtype=DType.STRING, shape=_SCALAR)
    handle = self.add_variable(wanted, TensorSpec(_SCALAR, DType.STRING))
    assign = self.add(f"{wanted}/Assign", "AssignVariableOp", [handle, fed], dtype=DType.STRING)
    self.initializers.append(assign.node)
    return fed, self.add(f"{wanted}/Read", "ReadVariableOp", [handle], dtype=DType.STRING)

  def add_signature(self, signature: SignatureFunction, captures: Sequence[TensorRef]) -> schema.SignatureDef:
    """Adds placeholders and a call, and returns the record of the signature."""
    message = schema.SignatureDef(method_name=_METHOD)
    fed: list[TensorRef] = []
    for key, spec in signature.inputs.items():
      ref = self._add_input(f"{signature.name}_{key}", spec, signature.defaults.get(key))
      message.inputs[key].CopyFrom(_tensor_info(ref, spec))
      fed.append(ref)
    call = call_node(self._free("StatefulPartitionedCall"), signature.function, [*fed, *captures])
    self.nodes.append(call)
    for index, (key, spec) in enumerate(signature.outputs.items()):
      message.outputs[key].CopyFrom(_tensor_info(TensorRef(call.name, index), spec))
    for key, value in signature.defaults.items():
      message.defaults[key].CopyFrom(value.to_proto())
    return message

  def add_table_import(self, wanted: str, inputs: Sequence[TensorRef], dtypes: Sequence[DType]) -> TensorRef:
    """Adds a node that replaces the contents of a table; the inputs are the handle, the keys and the values."""
    return self.add(wanted, "LookupTableImportV2", inputs, Tin=dtypes[0], Tout=dtypes[1])

  def add_saver(
    self,
    variables: Mapping[str, tuple[TensorRef, DType]],
    tables: Mapping[str, tuple[TensorRef, tuple[DType, DType]]],
    texts: Mapping[str, bytes],
  ) -> schema.SaverDef:
    """Adds the nodes that save and restore variables and tables, and returns their record.

    Args:
      variables: checkpoint key -> handle and element type.
      tables: checkpoint key -> handle, and element types of keys and values.
      texts: checkpoint key -> string that is saved along.
    """
    prefix = self.add("saver_filename", "Placeholder", dtype=DType.STRING, shape=_SCALAR)
    saved = self._add_saving(prefix, variables, tables, texts)
    restored = self._add_restoring(prefix, variables, tables)
    return schema.SaverDef(
      filename_tensor_name=f"{prefix.node}:0",
      save_tensor_name=f"{saved.node}:0",
      restore_op_name=restored,
      version=schema.SaverDef.V2,
    )

  def add_init_op(self) -> str:
    """Adds the node that runs all initializers, and returns its name."""
    return self.add("init", "NoOp", (), self.initializers).node

  def _add_input(self, wanted: str, spec: TensorSpec, default: Tensor | None) -> TensorRef:
    """Adds the tensor that an input is fed to. Sessions that do not feed it use the default."""
    if default is None:
      return self.add(wanted, "Placeholder", dtype=spec.dtype, shape=spec.shape)
    value = self.add(f"{wanted}/default", "Const", dtype=default.dtype, value=default)
    return self.add(wanted, "PlaceholderWithDefault", [value], dtype=spec.dtype, shape=spec.shape)

  def _add_saving(
    self,
    prefix: TensorRef,
    variables: Mapping[str, tuple[TensorRef, DType]],
    tables: Mapping[str, tuple[TensorRef, tuple[DType, DType]]],
    texts: Mapping[str, bytes],
  ) -> TensorRef:
    values = {
      key: (self.add("save/Read", "ReadVariableOp", [handle], dtype=dtype), dtype)
      for key, (handle, dtype) in variables.items()
    }
    for key, (handle, of_table) in tables.items():
      export = self.add("save/Export", "LookupTableExportV2", [handle], Tkeys=of_table[0], Tvalues=of_table[1])
      contents = (export, TensorRef(export.node, 1))
      values.update(zip(table_keys(key), zip(contents, of_table, strict=True), strict=True))
    for key, text in texts.items():
      values[key] = self.add_constant("save/Const", np.array(text, object)), DType.STRING
    keys, slices = self._add_keys("save", list(values))
    dtypes = tuple(dtype for _, dtype in values.values())
    save = self.add(
      "save/SaveV2", "SaveV2", [prefix, keys, slices, *(ref for ref, _ in values.values())], dtypes=dtypes
    )
    return self.add("save/path", "Identity", [prefix], [save.node], T=DType.STRING)

  def _add_restoring(
    self,
    prefix: TensorRef,
    variables: Mapping[str, tuple[TensorRef, DType]],
    tables: Mapping[str, tuple[TensorRef, tuple[DType, DType]]],
  ) -> str:
    dtypes = {key: dtype for key, (_, dtype) in variables.items()}
    for key, (_, of_table) in tables.items():
      dtypes.update(zip(table_keys(key), of_table, strict=True))
    if not dtypes:
      return self.add("restore/all", "NoOp").node
    keys, slices = self._add_keys("restore", list(dtypes))
    restored = self.add("restore/RestoreV2", "RestoreV2", [prefix, keys, slices], dtypes=tuple(dtypes.values()))
    values = {key: TensorRef(restored.node, index) for index, key in enumerate(dtypes)}
    done = [
      self.add("restore/Assign", "AssignVariableOp", [handle, values[key]], dtype=dtype)
      for key, (handle, dtype) in variables.items()
    ]
    done += [
      self.add_table_import("restore/Import", [handle, *(values[k] for k in table_keys(key))], of_table)
      for key, (handle, of_table) in tables.items()
    ]
    return self.add("restore/all", "NoOp", (), [ref.node for ref in done]).node

  def _add_keys(self, scope: str, keys: Sequence[str]) -> tuple[TensorRef, TensorRef]:
    names = np.array([key.encode() for key in keys], object)
    slices = np.array([b""] * len(keys), object)
    return self.add_constant(f"{scope}/keys", names), self.add_constant(f"{scope}/slices", slices)

  def _free(self, wanted: str) -> str:
    base = _INVALID.sub("_", wanted).lstrip("_/-") or "node"
    name = base
    while name in self._numbers:
      self._numbers[base] += 1
      name = f"{base}_{self._numbers[base]}"
    self._numbers[name] = 0
    return name


def table_keys(key: str) -> tuple[str, str]:
  """Returns the checkpoint keys of the keys and the values of a table."""
  return f"{key}-keys", f"{key}-values"


def collections(init_op: str) -> dict[str, schema.CollectionDef]:
  """Returns the collection that names the node that loaders run first."""
  return {_MAIN_OP: schema.CollectionDef(node_list=schema.CollectionDef.NodeList(value=[init_op]))}


def init_signature(init_op: str) -> tuple[str, schema.SignatureDef]:
  """Returns the name and record of the signature that names the node that loaders run first."""
  message = schema.SignatureDef()
  message.outputs[INIT_SIGNATURE].name = init_op
  message.outputs[INIT_SIGNATURE].tensor_shape.unknown_rank = True
  return INIT_SIGNATURE, message


def _tensor_info(ref: TensorRef, spec: TensorSpec) -> schema.TensorInfo:
  name = f"{ref.node}:{ref.index}"
  return schema.TensorInfo(name=name, dtype=int(spec.dtype), tensor_shape=shape_to_proto(spec.shape))
