"""The saved objects of a SavedModel: a graph of modules, variables, functions and resources, by attribute name."""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graftax.graphdef_ir import DType, PartialShape, schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.files.file_budget import FileBudget
from graftax.savedmodel_io.objects.type_specs import partial_shape

__all__ = [
  "AssetObject",
  "BareFunctionObject",
  "CapturedTensorObject",
  "ConstantObject",
  "FunctionObject",
  "ObjectGraph",
  "ObjectNode",
  "ResourceObject",
  "SlotVariable",
  "UserObject",
  "VariableObject",
  "read_object_graph",
]

# Every object has a path, so without a limit a chain of objects would take memory with the square of its length.
_MAX_DEPTH = 1000
# What a name takes in a path beside its letters.
_NAME_BYTES = 8


@dataclass(frozen=True, slots=True)
class UserObject:
  """A module, list, dict or layer. `identifier` is TensorFlow's name for its class, `metadata` what Keras adds."""

  identifier: str
  metadata: str = ""


@dataclass(frozen=True, slots=True)
class VariableObject:
  """A variable; `name` is what TensorFlow calls it, without ":0", and need not be unique."""

  name: str
  dtype: DType
  shape: PartialShape
  trainable: bool


@dataclass(frozen=True, slots=True)
class ConstantObject:
  """A tensor that functions capture: the value of a Const node of the graph."""

  operation: str


@dataclass(frozen=True, slots=True)
class FunctionObject:
  """A `tf.function` with all its concrete functions, by their names in the function library."""

  concrete_functions: tuple[str, ...]
  spec: schema.FunctionSpec = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class BareFunctionObject:
  """A concrete function that was saved by itself, such as a signature."""

  concrete_function: str
  argument_names: tuple[str, ...]
  num_positional: int
  spec: schema.FunctionSpec | None = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ResourceObject:
  """A table or another resource that its `_create_resource` and `_initialize` functions restore."""


@dataclass(frozen=True, slots=True)
class AssetObject:
  """A file that the model refers to: its position among the asset files."""

  index: int


@dataclass(frozen=True, slots=True)
class CapturedTensorObject:
  """A tensor inside one concrete function that another one captures, such as a gradient function.

  It exists only while the first function runs, so files cannot restore it.
  """

  tensor: str
  concrete_function: str


ObjectContent = (
  UserObject
  | VariableObject
  | ConstantObject
  | FunctionObject
  | BareFunctionObject
  | ResourceObject
  | AssetObject
  | CapturedTensorObject
)


@dataclass(frozen=True, slots=True)
class SlotVariable:
  """A variable that an optimizer keeps for another variable, by node ids."""

  original: int
  slot_name: str
  slot: int


@dataclass(frozen=True, slots=True)
class ObjectNode:
  """One saved object.

  Attributes:
    id: its position in the object graph; 0 is the root.
    content: what it is.
    children: attribute name -> id.
    slot_variables: what it keeps for other variables, if it is an optimizer.
    registered_name: the registered class that restores it, or "".
  """

  id: int
  content: ObjectContent
  children: Mapping[str, int]
  slot_variables: tuple[SlotVariable, ...] = ()
  registered_name: str = ""


@dataclass(frozen=True, slots=True)
class ObjectGraph:
  """All saved objects; `nodes[0]` is the root, the object that was saved.

  Attributes:
    nodes: the objects by id.
    parents: id -> (parent's id, attribute name) on a shortest way from the root; the root and what is not reachable by
      attributes are missing.
    concrete_functions: what is known about each function of the library that can be restored.
  """

  nodes: tuple[ObjectNode, ...]
  parents: Mapping[int, tuple[int, str]] = field(repr=False)
  concrete_functions: Mapping[str, schema.SavedConcreteFunction] = field(repr=False, compare=False)

  def path(self, node_id: int) -> tuple[str, ...]:
    """Returns the attribute names on a shortest way from the root; () for the root and for unreachable objects."""
    names: list[str] = []
    while node_id in self.parents:
      node_id, name = self.parents[node_id]
      names.append(name)
    return tuple(reversed(names))

  def find(self, path: str) -> ObjectNode | None:
    """Returns the object at an attribute path such as `"model.layers[0].call"` or `"model.layers.0.call"`, or None."""
    if not self.nodes:
      return None
    node = self.nodes[0]
    parts = [part for part in re.sub(r"\[(['\"]?)(.*?)\1\]", r".\2", path).split(".") if part]
    while parts:
      # Keys of saved dicts may hold dots, so the longest name that fits goes first.
      for length in range(len(parts), 0, -1):
        child = node.children.get(".".join(parts[:length]))
        if child is not None:
          node = self.nodes[child]
          parts = parts[length:]
          break
      else:
        return None
    return node

  def of_kind(self, kind: type) -> Iterator[ObjectNode]:
    """Returns the objects whose content is of one class, by id."""
    return (node for node in self.nodes if isinstance(node.content, kind))


def read_object_graph(proto: schema.SavedObjectGraph, budget: FileBudget | None = None) -> ObjectGraph:
  """Returns the object graph of a SavedModel.

  Raises:
    DamagedSavedModelError: an object refers to one that is not there, or is of no kind.
    LimitExceededError: the paths of all objects are longer than the budget allows.
  """
  num_nodes = len(proto.nodes)
  nodes = tuple(_read_node(node_id, node, num_nodes) for node_id, node in enumerate(proto.nodes))
  parents, path_bytes = _breadth_first_parents(nodes)
  if budget is not None:
    budget.spend(path_bytes, f"{len(nodes)} saved objects, whose paths have {path_bytes} bytes,")
  return ObjectGraph(nodes, parents, proto.concrete_functions)


def _breadth_first_parents(nodes: tuple[ObjectNode, ...]) -> tuple[dict[int, tuple[int, str]], int]:
  """Returns the parents, and what the paths of all objects take together."""
  parents: dict[int, tuple[int, str]] = {}
  queue = deque([(0, 0, 0)] if nodes else [])
  total_bytes = 0
  while queue:
    node_id, depth, path_bytes = queue.popleft()
    total_bytes += path_bytes
    if depth > _MAX_DEPTH:
      raise DamagedSavedModelError(f"saved object {node_id} is more than {_MAX_DEPTH} attributes below the root")
    for name, child in nodes[node_id].children.items():
      if child != 0 and child not in parents:
        parents[child] = (node_id, name)
        queue.append((child, depth + 1, path_bytes + len(name) + _NAME_BYTES))
  return parents, total_bytes


def _read_node(node_id: int, proto: schema.SavedObject, num_nodes: int) -> ObjectNode:
  children = {child.local_name: child.node_id for child in proto.children}
  slots = tuple(
    SlotVariable(slot.original_variable_node_id, slot.slot_name, slot.slot_variable_node_id)
    for slot in proto.slot_variables
  )
  referred = [*children.values(), *(slot.original for slot in slots), *(slot.slot for slot in slots)]
  if any(not 0 <= target < num_nodes for target in referred):
    raise DamagedSavedModelError(f"saved object {node_id} refers to an object beyond the {num_nodes} there are")
  return ObjectNode(node_id, _read_content(node_id, proto), children, slots, proto.registered_name)


def _read_content(node_id: int, proto: schema.SavedObject) -> ObjectContent:
  match proto.WhichOneof("kind"):
    case "user_object":
      return UserObject(proto.user_object.identifier, proto.user_object.metadata)
    case "variable":
      return _read_variable(node_id, proto.variable)
    case "constant":
      return ConstantObject(proto.constant.operation)
    case "function":
      return FunctionObject(tuple(proto.function.concrete_functions), proto.function.function_spec)
    case "bare_concrete_function":
      bare = proto.bare_concrete_function
      return BareFunctionObject(
        bare.concrete_function_name,
        tuple(bare.argument_keywords),
        bare.allowed_positional_arguments,
        bare.function_spec if bare.HasField("function_spec") else None,
      )
    case "resource":
      return ResourceObject()
    case "asset":
      return AssetObject(proto.asset.asset_file_def_index)
    case "captured_tensor":
      return CapturedTensorObject(proto.captured_tensor.name, proto.captured_tensor.concrete_function)
  # An object that a registered class restores from its own record needs no kind.
  return UserObject(proto.registered_name)


def _read_variable(node_id: int, proto: schema.SavedVariable) -> VariableObject:
  try:
    dtype = DType(proto.dtype)
  except ValueError as e:
    raise DamagedSavedModelError(f"saved object {node_id}: variable {proto.name!r} has dtype {proto.dtype}") from e
  return VariableObject(proto.name.removesuffix(":0"), dtype, partial_shape(proto.shape), proto.trainable)
