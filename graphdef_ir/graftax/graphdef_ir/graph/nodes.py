"""Nodes, and functions of nodes: immutable.

>>> y = Node("y", "Neg", inputs=(TensorRef("x"),))
>>> [str(ref) for ref in y.inputs]
['x']
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from graftax.graphdef_ir.attributes import AttrValue
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import NoSuchNodeError, ParseError
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec

__all__ = ["UNRESOLVED_OUTPUT", "Function", "Node", "Parameter", "Result", "NodeOrigin", "TensorRef", "find_node"]

UNRESOLVED_OUTPUT = 2**31 - 1
"""`TensorRef.index` of an output of an op whose signature is unknown. `validate` raises for it."""

_MAX_INDEX_DIGITS = 9


class TensorRef(NamedTuple):
  """Output `index` of a node, counted flat over all its output arguments; or parameter `node` of a function (index 0).

  A named tuple rather than a dataclass: programs create and hash millions of them, and this is four times faster.
  """

  node: str
  index: int = 0  # type: ignore[assignment]  # hides tuple.index, which nothing here needs

  @classmethod
  def parse(cls, text: str) -> "TensorRef":
    """Returns the ref written `"node"` or `"node:1"`, as in GraphDefs and SignatureDefs.

    Raises:
      ParseError: `text` is empty, a control input, or its index is not a small number.
    """
    node, colon, index = text.rpartition(":")
    if not colon:
      node, index = text, "0"
    if not node or node.startswith("^") or not (index.isascii() and index.isdigit()) or len(index) > _MAX_INDEX_DIGITS:
      raise ParseError(f"tensor name {text!r} is malformed; expected 'node' or 'node:1'.")
    return cls(node, int(index))

  def __str__(self) -> str:
    return f"{self.node}:{self.index}" if self.index else self.node


@dataclass(frozen=True, slots=True)
class NodeOrigin:
  """Origin of a rewritten node: names of original nodes, and of the functions they were in ("" is the graph)."""

  node_names: tuple[str, ...] = ()
  function_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
  """One op in a graph or function body. `attrs` holds the attributes that were given; defaults are not filled in."""

  name: str
  op: str
  inputs: tuple[TensorRef, ...] = ()
  control_inputs: tuple[str, ...] = ()
  attrs: Mapping[str, AttrValue] = field(default_factory=dict)
  device: str = ""
  source: NodeOrigin | None = None

  def __hash__(self) -> int:
    return hash((self.name, self.op, self.inputs))


@dataclass(frozen=True, slots=True)
class Parameter:
  """An argument of a function.

  `handle_spec` is the shape and dtype of the variable behind a RESOURCE, if the producer recorded them.
  `dtype` is INVALID if it depends on an attribute of the call; `bind_attributes` resolves it.
  """

  name: str
  dtype: DType
  shape: PartialShape = PartialShape(None)
  attrs: Mapping[str, AttrValue] = field(default_factory=dict)
  handle_spec: TensorSpec | None = None
  type_attr: str | None = None

  def __hash__(self) -> int:
    return hash((self.name, self.dtype))


@dataclass(frozen=True, slots=True)
class Result:
  """A value that a function returns: its name, the tensor in the body, and the type."""

  name: str
  ref: TensorRef
  dtype: DType
  type_attr: str | None = None


@dataclass(frozen=True, slots=True)
class Function:
  """A function body with flat parameters and results. `print(function)` shows it as text.

  `control_results` are nodes that must run even if no result needs them. `attrs` belong to the function itself.
  """

  name: str
  parameters: tuple[Parameter, ...]
  results: tuple[Result, ...]
  nodes: tuple[Node, ...]
  control_results: tuple[str, ...] = ()
  attrs: Mapping[str, AttrValue] = field(default_factory=dict)
  is_stateful: bool = False
  _index: dict[str, Node] | None = field(default=None, init=False, repr=False, compare=False)

  def node(self, name: str) -> Node:
    """Returns the node of that name.

    Raises:
      NoSuchNodeError: there is no such node (parameters are not nodes).
    """
    return find_node(self, f"function {self.name!r}", name)

  def __hash__(self) -> int:
    return hash((self.name, self.parameters, self.results))

  def __str__(self) -> str:
    from graftax.graphdef_ir.graph.text import format_function

    return format_function(self)


class _HasNodes(Protocol):
  @property
  def nodes(self) -> tuple[Node, ...]: ...
  @property
  def _index(self) -> dict[str, Node] | None: ...


def find_node(owner: _HasNodes, where: str, name: str) -> Node:
  """Returns the node of that name; `where` is what the error says of its owner."""
  if owner._index is None:
    # A cache, not state: filling it twice from two threads gives the same dict.
    object.__setattr__(owner, "_index", {node.name: node for node in owner.nodes})
  node = (owner._index or {}).get(name)
  if node is None:
    raise NoSuchNodeError(f"{where} has no node {name!r} among its {len(owner.nodes)} nodes.")
  return node
