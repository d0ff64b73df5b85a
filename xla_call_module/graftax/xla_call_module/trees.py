"""Pytrees as data: what a file says of the nesting of arguments and results, without the classes of its author."""

import collections
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
from jax.tree_util import PyTreeDef

from graftax.xla_call_module import errors

__all__ = ["MakeNode", "PyTree", "SavedNode", "Tree", "flatten", "leaf_paths", "of_definition", "unflatten"]

PyTree: TypeAlias = Any
"""Nested containers and their leaves, as `jax.tree` takes them, whose classes are the author's."""

MakeNode = Callable[[bytes, tuple[PyTree, ...]], PyTree]
"""Makes a node of a registered class from its auxiliary data, as the author serialized them, and its children."""

_ORDERED_DICT = "collections.OrderedDict"


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, slots=True)
class SavedNode:
  """A node whose class this process does not know. It is a pytree itself.

  Attributes:
    name: the name under which the author registered the class.
    auxdata: its auxiliary data, as the author serialized them.
    children: what is inside.
  """

  name: str
  auxdata: bytes
  children: tuple[PyTree, ...]

  def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, PyTree]], tuple[str, bytes]]:
    keyed = [(jax.tree_util.FlattenedIndexKey(i), child) for i, child in enumerate(self.children)]
    return keyed, (self.name, self.auxdata)

  @classmethod
  def tree_unflatten(cls, aux: tuple[str, bytes], children: Sequence[PyTree]) -> "SavedNode":
    """Returns a node from what `tree_flatten_with_keys` returned; JAX calls it.

    Args:
      aux: the name of the class, and the auxiliary data as the author serialized them.
      children: any values, as many as the node had.
    """
    return cls(*aux, tuple(children))


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
  """The structure of a pytree.

  Attributes:
    kind: what this node is.
    children: the nodes inside.
    keys: of a dict, the keys of the children in order.
    name: of a custom node, the name under which its class was registered.
    auxdata: of a custom node, its auxiliary data, as the author serialized them. None if this tree is of a live
      `jax.export.Exported`, which holds the class itself.
    definition: of a custom node of a live `Exported`, its definition.
  """

  kind: Literal["leaf", "none", "tuple", "list", "dict", "custom"]
  children: "tuple[Tree, ...]" = ()
  keys: tuple[Any, ...] = ()
  name: str = ""
  auxdata: bytes | None = None
  definition: Any = None

  @property
  def num_leaves(self) -> int:
    return 1 if self.kind == "leaf" else sum(child.num_leaves for child in self.children)

  def __str__(self) -> str:
    inside = list(map(str, self.children))
    match self.kind:
      case "leaf":
        return "*"
      case "none":
        return "None"
      case "tuple":
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"
      case "list":
        return f"[{', '.join(inside)}]"
      case "dict":
        return f"{{{', '.join(f'{key!r}: {child}' for key, child in zip(self.keys, inside, strict=True))}}}"
    return f"{self.name}({', '.join(inside)})"


def of_definition(definition: PyTreeDef) -> Tree:
  """Returns the structure of a `jax.tree_util.PyTreeDef`."""
  data = definition.node_data()
  children = tuple(map(of_definition, definition.children()))
  if data is None:
    return Tree("leaf")
  kind, aux = data
  if kind is type(None):
    return Tree("none")
  if kind is tuple:
    return Tree("tuple", children)
  if kind is list:
    return Tree("list", children)
  if kind is dict:
    return Tree("dict", children, tuple(aux))
  return Tree("custom", children, name=f"{kind.__module__}.{kind.__qualname__}", definition=definition)


def leaf_paths(tree: Tree, path: str = "") -> Iterator[str]:
  """Yields the path of each leaf, such as `['w'][0]`."""
  if tree.kind == "leaf":
    yield path
  for position, child in enumerate(tree.children):
    key = f"[{tree.keys[position]!r}]" if tree.kind == "dict" else f"[{position}]"
    yield from leaf_paths(child, f"{path}.children{key}" if tree.kind == "custom" else path + key)


def flatten(tree: Tree, value: object, path: str = "") -> list[Any]:
  """Returns the leaves of a pytree of this structure.

  Raises:
    ArgumentError: the pytree has another structure.
  """
  match tree.kind:
    case "leaf":
      return [value]
    case "none" if value is None:
      return []
    case "tuple" if type(value) is tuple and len(value) == len(tree.children):
      children: Sequence[PyTree] = value
    case "list" if type(value) is list and len(value) == len(tree.children):
      children = value
    case "dict" if type(value) is dict and value.keys() == set(tree.keys):
      children = [value[key] for key in tree.keys]
    case "custom":
      children = _children(tree, value, path)
    case _:
      raise _mismatch(tree, value, path)
  keys = tree.keys if tree.kind == "dict" else range(len(children))
  pairs = zip(keys, tree.children, children, strict=True)
  return [leaf for key, child, part in pairs for leaf in flatten(child, part, f"{path}[{key!r}]")]


def _children(tree: Tree, value: object, path: str) -> list[PyTree]:
  """Returns the children of a node of a registered class, which is compared with what the file says of it."""
  definition: Any  # jaxlib ships no types for it
  children, definition = jax.tree_util.tree_flatten(value, is_leaf=lambda part: part is not value)
  if tree.definition is not None:
    agrees = definition.node_data() == tree.definition.node_data()
  elif isinstance(value, SavedNode):
    agrees = (value.name, value.auxdata) == (tree.name, tree.auxdata)
  elif tree.name == _ORDERED_DICT:
    agrees = type(value) is collections.OrderedDict and list(value) == _ordered_keys(tree)
  else:  # A file has no more of the class than its name, which is the author's.
    data = definition.node_data()
    agrees = data is not None and data[0] not in (tuple, list, dict, type(None))
  if not agrees or len(children) != len(tree.children):
    raise _mismatch(tree, value, path)
  return children


def _ordered_keys(tree: Tree) -> list[Any]:
  try:
    keys = json.loads(tree.auxdata or b"")
  except ValueError:
    keys = None
  if not isinstance(keys, list) or len(keys) != len(tree.children) or not all(isinstance(key, str) for key in keys):
    raise errors.DecodeError(f"the keys of an OrderedDict are {tree.auxdata!r}; expected {len(tree.children)} strings.")
  return keys


def _mismatch(tree: Tree, value: object, path: str) -> errors.ArgumentError:
  return errors.ArgumentError(
    f"argument{path}: got {_described(value)}; the module takes {str(tree)[:200]}, where * is an array."
  )


def _described(value: Any) -> str:
  if type(value) in (tuple, list):
    return f"a {type(value).__name__} of {len(value)}"
  if type(value) is dict:
    return f"a dict with the keys {sorted(map(repr, value))}"
  return "None" if value is None else f"a {type(value).__name__}"


def unflatten(tree: Tree, leaves: Iterator[Any], nodes: Mapping[str, MakeNode]) -> PyTree:
  """Returns a pytree of this structure.

  Args:
    tree: the structure.
    leaves: its leaves; as many are taken as the tree has.
    nodes: what makes nodes of registered classes, by name. Other nodes become `SavedNode`s.
  """
  if tree.kind == "leaf":
    return next(leaves)
  if tree.definition is not None:
    return tree.definition.unflatten([next(leaves) for _ in range(tree.num_leaves)])
  children = [unflatten(child, leaves, nodes) for child in tree.children]
  match tree.kind:
    case "none":
      return None
    case "tuple":
      return tuple(children)
    case "list":
      return children
    case "dict":
      return dict(zip(tree.keys, children, strict=True))
  if tree.name in nodes:
    return nodes[tree.name](tree.auxdata or b"", tuple(children))
  if tree.name == _ORDERED_DICT:
    return collections.OrderedDict(zip(_ordered_keys(tree), children, strict=True))
  return SavedNode(tree.name, tree.auxdata or b"", tuple(children))
