"""Builds the two object graphs of a SavedModel: the saved objects, and the checkpoint's objects that hold values."""

from collections import deque
from collections.abc import Mapping

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.objects.trackable_graph import VARIABLE_VALUE

__all__ = ["ROOT", "ObjectBuilder", "checkpoint_key"]

ROOT = 0
_MODULE = "_generic_user_object"
_DICT = "trackable_dict_wrapper"
_LIST = "trackable_list_wrapper"
_SIGNATURES = "signature_map"
_KEY_SUFFIX = f"/.ATTRIBUTES/{VARIABLE_VALUE}"


class ObjectBuilder:
  """Saved objects by id; object `ROOT`, a module, is there from the beginning."""

  def __init__(self) -> None:
    self._objects: list[schema.SavedObject] = []
    self._children: list[dict[str, int]] = []
    self._variables: dict[int, str] = {}
    self.add_module()

  def add(self, saved: schema.SavedObject) -> int:
    """Adds an object without attributes and returns its id."""
    self._objects.append(saved)
    self._children.append({})
    return len(self._objects) - 1

  def add_module(self) -> int:
    return self._add_user_object(_MODULE)

  def add_dict(self) -> int:
    return self._add_user_object(_DICT)

  def add_list(self, items: list[int]) -> int:
    """Adds a list of objects, which are its attributes "0", "1", ..."""
    made = self._add_user_object(_LIST)
    for position, item in enumerate(items):
      self.attach(made, str(position), item)
    return made

  def add_signature_map(self) -> int:
    return self._add_user_object(_SIGNATURES)

  def add_variable(self, message: schema.SavedVariable) -> int:
    made = self.add(schema.SavedObject(variable=message))
    self._variables[made] = message.name
    return made

  def attach(self, parent: int, name: str, child: int) -> None:
    """Makes an object an attribute of another one."""
    self._children[parent][name] = child

  def child(self, parent: int, name: str) -> int | None:
    """Returns the attribute of an object, or None if it does not have it."""
    return self._children[parent].get(name)

  def is_module(self, object_id: int) -> bool:
    return self._objects[object_id].user_object.identifier == _MODULE

  def saved_objects(self) -> list[schema.SavedObject]:
    """Returns the objects as `saved_model.pb` stores them."""
    for saved, children in zip(self._objects, self._children, strict=True):
      del saved.children[:]
      for name, child in children.items():
        saved.children.add(node_id=child, local_name=name)
    return self._objects

  def checkpoint_keys(self) -> dict[int, str]:
    """Returns object id -> checkpoint key of each variable; the keys follow the shortest paths, as TensorFlow's do."""
    paths: dict[int, tuple[str, ...]] = {ROOT: ()}
    queue = deque([ROOT])
    while queue:
      parent = queue.popleft()
      for name, child in self._children[parent].items():
        if child not in paths:
          paths[child] = (*paths[parent], name)
          queue.append(child)
    return {variable: checkpoint_key(paths[variable]) for variable in self._variables}

  def checkpoint_objects(self, keys: Mapping[int, str]) -> schema.TrackableObjectGraph:
    """Returns the objects as the checkpoint stores them."""
    graph = schema.TrackableObjectGraph()
    for object_id, children in enumerate(self._children):
      node = graph.nodes.add()
      for name, child in children.items():
        node.children.add(node_id=child, local_name=name)
      if object_id in keys:
        node.attributes.add(name=VARIABLE_VALUE, full_name=self._variables[object_id], checkpoint_key=keys[object_id])
    return graph

  def _add_user_object(self, identifier: str) -> int:
    message = schema.SavedUserObject(identifier=identifier)
    message.version.producer = message.version.min_consumer = 1
    return self.add(schema.SavedObject(user_object=message))


def checkpoint_key(path: tuple[str, ...]) -> str:
  """Returns the key of the variable at an attribute path.

  Example:
    >>> checkpoint_key(("params", "a/b", "w.0"))
    'params/a.Sb/w..0/.ATTRIBUTES/VARIABLE_VALUE'
  """
  return "/".join(name.replace(".", "..").replace("/", ".S") for name in path) + _KEY_SUFFIX
