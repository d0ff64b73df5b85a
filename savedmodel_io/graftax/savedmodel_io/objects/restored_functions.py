"""Reads the functions and resources of an object graph, each when it is first asked for."""

from collections.abc import Callable, Iterator, Mapping

from graftax.graphdef_ir import Tensor
from graftax.savedmodel_io.errors import DamagedSavedModelError, UnknownFunctionError, UnknownNameError
from graftax.savedmodel_io.files.assets import Assets
from graftax.savedmodel_io.objects.captures import (
  AssetCapture,
  Capture,
  ConstantCapture,
  ResourceCapture,
  VariableCapture,
)
from graftax.savedmodel_io.objects.function_spec import decode_function_spec
from graftax.savedmodel_io.objects.functions import ConcreteFunction, Resource, RestoredFunction
from graftax.savedmodel_io.objects.object_graph import (
  AssetObject,
  BareFunctionObject,
  CapturedTensorObject,
  ConstantObject,
  FunctionObject,
  ObjectGraph,
  ObjectNode,
  ResourceObject,
  VariableObject,
)
from graftax.savedmodel_io.objects.spec_text import listed
from graftax.savedmodel_io.objects.structured_value import decode_structure

__all__ = ["FunctionReader", "Resources", "RestoredFunctions"]

_SIGNATURES = "signatures"


class FunctionReader:
  """Reads concrete functions and resources; what it has read it keeps.

  Args:
    objects: the object graph.
    variable_names: object id -> name of the variable.
    assets: the asset files.
    constant: the value of a Const node of the graph, by name.
    checkpoint_keys: object id -> attribute name -> checkpoint key.
  """

  def __init__(
    self,
    objects: ObjectGraph,
    variable_names: Mapping[int, str],
    assets: Assets,
    constant: Callable[[str], Tensor],
    checkpoint_keys: Mapping[int, Mapping[str, str]],
  ):
    self.objects = objects
    self._variable_names = variable_names
    self._assets = assets
    self._constant = constant
    self._checkpoint_keys = checkpoint_keys
    self._concrete: dict[str, ConcreteFunction] = {}
    self._restored: dict[int, RestoredFunction] = {}

  def concrete_function(self, name: str) -> ConcreteFunction:
    """Returns one concrete function, by its name in the function library.

    Raises:
      DamagedSavedModelError: it is not there, or its record is damaged.
    """
    known = self._concrete.get(name)
    if known is None:
      known = self._concrete[name] = self._read_concrete_function(name)
    return known

  def restored_function(self, node: ObjectNode) -> RestoredFunction:
    """Returns the function of a FunctionObject or BareFunctionObject."""
    known = self._restored.get(node.id)
    if known is None:
      known = self._restored[node.id] = self._read_restored_function(node)
    return known

  def resource(self, node: ObjectNode) -> Resource:
    """Returns the resource of a ResourceObject."""
    return Resource(
      name=_resource_name(self.objects, node),
      create=self._only_trace(node, "_create_resource"),
      initialize=self._only_trace(node, "_initialize"),
      checkpoint_keys=self._checkpoint_keys.get(node.id, {}),
    )

  def _read_concrete_function(self, name: str) -> ConcreteFunction:
    if name not in self.objects.concrete_functions:
      raise DamagedSavedModelError(f"concrete function {name!r}: the object graph has no record of it")
    proto = self.objects.concrete_functions[name]
    try:
      inputs = decode_structure(proto.canonicalized_input_signature)
      outputs = decode_structure(proto.output_signature)
      captures = tuple(self._capture(node_id) for node_id in proto.bound_inputs)
    except DamagedSavedModelError as e:
      raise DamagedSavedModelError(f"concrete function {name!r}: {e}") from e
    match inputs:
      case (tuple() as args, dict() as kwargs):
        return ConcreteFunction(name, args, kwargs, outputs, captures)
    raise DamagedSavedModelError(f"concrete function {name!r}: inputs are {inputs!r}; expected (args, kwargs)")

  def _read_restored_function(self, node: ObjectNode) -> RestoredFunction:
    content = node.content
    if isinstance(content, FunctionObject):
      names: tuple[str, ...] = content.concrete_functions
    elif isinstance(content, BareFunctionObject):
      names = (content.concrete_function,)
    else:
      raise AssertionError(f"internal: object {node.id} is not a function")
    spec = None if content.spec is None else decode_function_spec(content.spec)
    path = ".".join(self.objects.path(node.id))
    return RestoredFunction(path, spec, tuple(self.concrete_function(name) for name in names))

  def _capture(self, node_id: int) -> Capture:
    if not 0 <= node_id < len(self.objects.nodes):
      raise DamagedSavedModelError(f"captures object {node_id} of {len(self.objects.nodes)}")
    node = self.objects.nodes[node_id]
    match node.content:
      case VariableObject():
        return VariableCapture(self._variable_names[node_id])
      case ConstantObject() as constant:
        return ConstantCapture(constant.operation, self._constant(constant.operation))
      case ResourceObject():
        return ResourceCapture(_resource_name(self.objects, node))
      case AssetObject() as asset:
        if not 0 <= asset.index < len(self._assets.entries):
          raise DamagedSavedModelError(f"captures asset {asset.index} of {len(self._assets.entries)}")
        return AssetCapture(self._assets.entries[asset.index].path)
      case CapturedTensorObject() as captured:
        return captured
    # Objects of registered classes are restored as resources: they have a handle and functions that make it.
    return ResourceCapture(_resource_name(self.objects, node))

  def _only_trace(self, node: ObjectNode, attribute: str) -> ConcreteFunction | None:
    child = node.children.get(attribute)
    if child is None:
      return None
    match self.objects.nodes[child].content:
      case FunctionObject(concrete_functions=(name, *_)) | BareFunctionObject(concrete_function=name):
        return self.concrete_function(name)
    return None


class RestoredFunctions(Mapping[str, RestoredFunction]):
  """Attribute path -> restored function.

  Iterating gives the shortest path of each function. Every other path to it is a key as well, also when spelled with
  brackets: `functions["model.layers[0].call"]`. Signatures, and the functions that restore resources, are left out.
  """

  def __init__(self, reader: FunctionReader):
    self._reader = reader
    self._nodes = {".".join(reader.objects.path(node.id)): node for node in _own_functions(reader.objects)}

  def __getitem__(self, path: str) -> RestoredFunction:
    node = self._find(path)
    if node is None:
      raise UnknownFunctionError(f"no restored function at {path!r}; {listed(path, self)}")
    return self._reader.restored_function(node)

  def __contains__(self, path: object) -> bool:
    return isinstance(path, str) and self._find(path) is not None

  def __iter__(self) -> Iterator[str]:
    return iter(self._nodes)

  def __len__(self) -> int:
    return len(self._nodes)

  def __repr__(self) -> str:
    return f"RestoredFunctions({list(self)})"

  def _find(self, path: str) -> ObjectNode | None:
    node = self._nodes.get(path) or self._reader.objects.find(path)
    return node if node is not None and isinstance(node.content, FunctionObject | BareFunctionObject) else None


class Resources(Mapping[str, Resource]):
  """Attribute path -> table or other resource."""

  def __init__(self, reader: FunctionReader):
    self._reader = reader
    self._nodes = {_resource_name(reader.objects, node): node for node in reader.objects.of_kind(ResourceObject)}

  def __getitem__(self, name: str) -> Resource:
    if name not in self._nodes:
      raise UnknownNameError(f"no resource {name!r}; {listed(name, self._nodes)}")
    return self._reader.resource(self._nodes[name])

  def __iter__(self) -> Iterator[str]:
    return iter(self._nodes)

  def __len__(self) -> int:
    return len(self._nodes)

  def __repr__(self) -> str:
    return f"Resources({list(self)})"


def _resource_name(objects: ObjectGraph, node: ObjectNode) -> str:
  """Returns the attribute path of a resource, or its id if it is only captured."""
  return ".".join(objects.path(node.id)) or f"object {node.id}"


def _own_functions(objects: ObjectGraph) -> Iterator[ObjectNode]:
  """Returns the functions that the saved object itself has, by id."""
  signatures = objects.nodes[0].children.get(_SIGNATURES) if objects.nodes else None
  for node in objects.nodes:
    parent, _ = objects.parents.get(node.id, (None, ""))
    if parent is None or isinstance(objects.nodes[parent].content, ResourceObject):
      continue
    is_own_bare = isinstance(node.content, BareFunctionObject) and (
      parent != signatures and not isinstance(objects.nodes[parent].content, FunctionObject)
    )
    if isinstance(node.content, FunctionObject) or is_own_bare:
      yield node
