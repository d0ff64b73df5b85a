"""The variables of a TF1 model: nodes of its graph, restored by the ops that its Saver left there."""

from collections.abc import Iterator, Mapping

import numpy as np
from google.protobuf.message import DecodeError

from graftax.graphdef_ir import DType, Tensor, schema, traits_of
from graftax.graphdef_ir.errors import GraftaxError
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice, parse_slice_spec
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.objects.type_specs import partial_shape
from graftax.savedmodel_io.variables.variables import VariableInfo, with_unique_names

__all__ = ["read_graph_variables"]

_COLLECTIONS = ("variables", "trainable_variables", "global_variables", "local_variables", "model_variables")
_TRAINABLE = "trainable_variables"
_MAX_CHAIN = 64

_Nodes = Mapping[str, schema.NodeDef]


def read_graph_variables(meta_graph: schema.MetaGraphDef, reader: CheckpointReader | None) -> list[VariableInfo]:
  """Returns all variables of a TF1 graph, in graph order.

  A variable's value is what the Saver's restore op would assign to it. TF1 hub modules have no Saver; then it is the
  tensor of the variable's name, or the part of a tensor that the variable's record names. If there is none of these, it
  is the constant that its initializer assigns.

  Raises:
    DamagedSavedModelError: a record or node of a variable is damaged.
  """
  nodes = {node.name: node for node in meta_graph.graph_def.node}
  records = _variable_records(meta_graph)
  restored = _restored_tensors(meta_graph.saver_def.restore_op_name, nodes)
  infos = []
  for node in meta_graph.graph_def.node:
    if traits_of(node.op).makes != "variable":
      continue
    record = records.get(node.name)
    key, part = restored.get(node.name, (None, None))
    if key is None and not restored and reader is not None:
      key, part = _tensor_by_name(node.name, record, reader)
    if key is not None and (reader is None or key not in reader):
      raise DamagedSavedModelError(
        f"variable {node.name!r} is restored from the tensor {key!r}, which the checkpoint does not have"
      )
    infos.append(
      VariableInfo(
        name="",
        tf_name=node.name,
        dtype=_dtype(node),
        shape=partial_shape(_attr(node, "shape").shape),
        trainable=record is not None and record.trainable,
        graph_node=node.name,
        checkpoint_key=key,
        part=part,
        initial_value=None if key is not None or record is None else _initial_value(record, nodes),
      )
    )
  return with_unique_names(infos)


def _dtype(node: schema.NodeDef) -> DType:
  try:
    return DType(_attr(node, "dtype").type)
  except ValueError as e:
    raise DamagedSavedModelError(f"variable node {node.name!r} has no dtype that we know: {e}") from e


def _attr(node: schema.NodeDef, name: str) -> schema.AttrValue:
  # Subscripting the map would add what is missing, and the graph is parsed from the same message later.
  return node.attr[name] if name in node.attr else schema.AttrValue()


def _variable_records(meta_graph: schema.MetaGraphDef) -> dict[str, schema.VariableDef]:
  """Returns variable node -> the record of its Python object."""
  records: dict[str, schema.VariableDef] = {}
  trainable: set[str] = set()
  for collection in _COLLECTIONS:
    if collection not in meta_graph.collection_def:
      continue
    for value in meta_graph.collection_def[collection].bytes_list.value:
      try:
        record = schema.VariableDef.FromString(value)
      except DecodeError as e:
        raise DamagedSavedModelError(f"collection {collection!r} holds a record that cannot be parsed: {e}") from e
      name = _node_name(record.variable_name)
      records.setdefault(name, record)
      if collection == _TRAINABLE:
        trainable.add(name)
  for name, record in records.items():
    # Models before 2018 have no such field in the record.
    record.trainable = name in trainable
  return records


def _tensor_by_name(
  name: str, record: schema.VariableDef | None, reader: CheckpointReader
) -> tuple[str | None, TensorSlice | None]:
  """Returns the checkpoint tensor of a variable's name, or the part of one that its record names."""
  if name in reader:
    return name, None
  part = None if record is None else record.save_slice_info_def
  if part is None or part.full_name not in reader:
    return None, None
  return part.full_name, TensorSlice(tuple(zip(part.var_offset, part.var_shape, strict=False)))


def _restored_tensors(restore_op: str, nodes: _Nodes) -> dict[str, tuple[str, TensorSlice | None]]:
  """Returns variable node -> the checkpoint tensor, and the part of it, that restoring assigns to it."""
  restored = {}
  for assign in _assignments(_node_name(restore_op), nodes):
    source = _source(assign.input[1], nodes)
    if source is None:
      continue
    node, output = source
    tensor = _restored_tensor(node, output, nodes)
    if tensor is not None:
      restored[_node_name(assign.input[0])] = tensor
  return restored


def _assignments(restore_op: str, nodes: _Nodes) -> Iterator[schema.NodeDef]:
  """Yields the Assign nodes that the restore op waits for."""
  queue = [restore_op]
  seen = {restore_op}
  for name in queue:  # grows while it is walked
    node = nodes.get(name)
    if node is None:
      continue
    if traits_of(node.op).assigns and len(node.input) >= 2:
      yield node
      continue
    for ref in node.input:
      if ref.startswith("^") and ref[1:] not in seen:
        seen.add(ref[1:])
        queue.append(ref[1:])


def _restored_tensor(node: schema.NodeDef, output: int, nodes: _Nodes) -> tuple[str, TensorSlice | None] | None:
  if node.op in ("RestoreV2", "RestoreSlice"):
    names, specs = _strings(node, 1, nodes), _strings(node, 2, nodes)
  elif node.op == "Restore":
    names, specs = _strings(node, 1, nodes), [""]
  else:
    return None
  if output >= len(names) or len(names) != len(specs):
    raise DamagedSavedModelError(f"{node.op} node {node.name!r} has {len(names)} tensor names for output {output}")
  try:
    parsed = parse_slice_spec(specs[output])
  except ValueError as e:
    raise DamagedSavedModelError(f"{node.op} node {node.name!r}: {e}") from e
  return names[output], None if parsed is None or parsed[1].is_full else parsed[1]


def _strings(node: schema.NodeDef, index: int, nodes: _Nodes) -> list[str]:
  constant = _constant(node.input[index], nodes) if index < len(node.input) else None
  if constant is None or constant.dtype != DType.STRING:
    raise DamagedSavedModelError(f"{node.op} node {node.name!r}: input {index} is not a constant of strings")
  try:
    return [value.decode() for value in _decode(constant, node).ravel()]
  except UnicodeDecodeError as e:
    raise DamagedSavedModelError(f"{node.op} node {node.name!r}: input {index} is not text: {e}") from e


def _decode(tensor: Tensor, node: schema.NodeDef) -> np.ndarray:
  try:
    return tensor.numpy()
  except GraftaxError as e:
    raise DamagedSavedModelError(f"{node.op} node {node.name!r}: {e}") from e


def _initial_value(record: schema.VariableDef, nodes: _Nodes) -> Tensor | None:
  assign = nodes.get(_node_name(record.initializer_name))
  if assign is None or not traits_of(assign.op).assigns or len(assign.input) < 2:
    return None
  return _constant(assign.input[1], nodes)


def _constant(ref: str, nodes: _Nodes) -> Tensor | None:
  source = _source(ref, nodes)
  if source is None or source[0].op != "Const":
    return None
  try:
    return Tensor.from_proto(_attr(source[0], "value").tensor)
  except GraftaxError as e:
    raise DamagedSavedModelError(f"Const node {source[0].name!r}: {e}") from e


def _source(ref: str, nodes: _Nodes) -> tuple[schema.NodeDef, int] | None:
  """Returns the node and output that a tensor comes from, looking through ops that keep its value."""
  for _ in range(_MAX_CHAIN):  # longer than any Saver's; a damaged graph may go in circles
    name, _, output = ref.partition(":")
    node = nodes.get(name)
    if node is None:
      return None
    if not traits_of(node.op).same_elements or not node.input:
      return node, int(output) if output.isdigit() else 0
    ref = node.input[0]
  return None


def _node_name(ref: str) -> str:
  return ref.removeprefix("^").partition(":")[0]
