"""Builds the two object graphs of a SavedModel: the saved objects, and the checkpoint's objects that hold values."""

from collections import deque
from collections.abc import Mapping

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.objects.trackable_graph import TABLE_CONTENTS, VARIABLE_VALUE

__all__ = ["ROOT", "ObjectBuilder", "checkpoint_key"]

ROOT = 0
_MODULE = "_generic_user_object"
_DICT = "trackable_dict_wrapper"
_LIST = "trackable_list_wrapper"
_SIGNATURES = "signature_map"
# Objects with this attribute have functions that return what a checkpoint stores, and restore it.
_SERIALIZE = ".TENSORS"


class ObjectBuilder:
  """Saved objects by id; object `ROOT`, a module, is there from the beginning."""

  def __init__(self) -> None:
    self._objects: list[schema.SavedObject] = []
    self._children: list[dict[str, int]] = []
    self._attributes: dict[int, tuple[str, str]] = {}  # object -> what the checkpoint stores of it, and its name there
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
    self._attributes[made] = VARIABLE_VALUE, message.name
    return made

  def add_table(self, save: schema.SavedObject | None = None, restore: schema.SavedObject | None = None) -> int:
    """Adds a table. If it can change, `save` and `restore` are the functions for its contents in checkpoints."""
    made = self.add(schema.SavedObject(resource=schema.SavedResource()))
    if save is not None and restore is not None:
      functions = self._objects[made].saveable_objects[_SERIALIZE]
      functions.save_function, functions.restore_function = self.add(save), self.add(restore)
      self._attributes[made] = TABLE_CONTENTS, ""
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
    """Returns object id -> checkpoint key of each object that has values; the keys follow the shortest paths."""
    paths: dict[int, tuple[str, ...]] = {ROOT: ()}
    queue = deque([ROOT])
    while queue:
      parent = queue.popleft()
      for name, child in self._children[parent].items():
        if child not in paths:
          paths[child] = (*paths[parent], name)
          queue.append(child)
    return {made: checkpoint_key(paths[made], attribute) for made, (attribute, _) in self._attributes.items()}

  def checkpoint_objects(self, keys: Mapping[int, str]) -> schema.TrackableObjectGraph:
    """Returns the objects as the checkpoint stores them."""
    graph = schema.TrackableObjectGraph()
    for object_id, children in enumerate(self._children):
      node = graph.nodes.add()
      for name, child in children.items():
        node.children.add(node_id=child, local_name=name)
      if object_id in keys:
        attribute, name = self._attributes[object_id]
        node.attributes.add(name=attribute, full_name=name, checkpoint_key=keys[object_id])
    return graph

  def _add_user_object(self, identifier: str) -> int:
    message = schema.SavedUserObject(identifier=identifier)
    message.version.producer = message.version.min_consumer = 1
    return self.add(schema.SavedObject(user_object=message))


def checkpoint_key(path: tuple[str, ...], attribute: str = VARIABLE_VALUE) -> str:
  """Returns the key of what a checkpoint stores of the object at an attribute path, by default a variable.

  Example:
    >>> checkpoint_key(("params", "a/b", "w.0"))
    'params/a.Sb/w..0/.ATTRIBUTES/VARIABLE_VALUE'
  """
  return "/".join([*(name.replace(".", "..").replace("/", ".S") for name in path), ".ATTRIBUTES", attribute])
