"""Walks graphs: order, consumers, ancestors, and called functions.

>>> a, b = Node("a", "NoOp"), Node("b", "NoOp", control_inputs=("a",))
>>> [node.name for node in topological_order((b, a))]
['a', 'b']
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import CycleError
from graftax.graphdef_ir.graph.graph import Graph
from graftax.graphdef_ir.graph.nodes import Function, Node, TensorRef
from graftax.graphdef_ir.op_traits import ops_with_traits, traits_of
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.tensors import Tensor

__all__ = [
  "ancestors",
  "consumers",
  "follow_calls",
  "function_references",
  "predecessors",
  "reachable_functions",
  "referenced_functions",
  "topological_order",
]

# Every conversion walks all nodes several times, so the walks below call no function for an attribute or input.

# Classes of attribute values that hold no function.
_WITHOUT_FUNCTIONS = frozenset({bytes, int, float, bool, DType, PartialShape, Tensor, AttrPlaceholder})

_MERGES = frozenset(op for op in ops_with_traits() if traits_of(op).control_flow_v1 == "merge")


def predecessors(node: Node) -> Iterator[str]:
  """Yields the names of a node's inputs, data inputs before control inputs, with repetitions."""
  for ref in node.inputs:
    yield ref.node
  yield from node.control_inputs


def topological_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
  """Returns the nodes with every node after its inputs, otherwise in their given order, so the result is stable.

  The edge from NextIteration to Merge that closes a TF1 while loop does not count. Inputs that are not among `nodes`
  (parameters, fed tensors) do not either.

  Raises:
    CycleError: nodes depend on each other in a cycle; the message shows it.

  Example:
    >>> from graftax.graphdef_ir import Node, TensorRef
    >>> b, a = Node("b", "Neg", (TensorRef("a"),)), Node("a", "Const")
    >>> [node.name for node in topological_order([b, a])]
    ['a', 'b']
  """
  position = {node.name: index for index, node in enumerate(nodes)}
  before = [_forward_predecessors(node, nodes, position) for node in nodes]
  if not [index for index, earlier in enumerate(before) for other in earlier if other >= index]:
    return tuple(nodes)

  num_missing = [len(earlier) for earlier in before]
  after: list[list[int]] = [[] for _ in nodes]
  for index, earlier in enumerate(before):
    for other in earlier:
      after[other].append(index)
  ready = [index for index, missing in enumerate(num_missing) if missing == 0]  # sorted, hence a heap
  order = []
  while ready:
    index = heapq.heappop(ready)
    order.append(nodes[index])
    for later in after[index]:
      num_missing[later] -= 1
      if num_missing[later] == 0:
        heapq.heappush(ready, later)
  if len(order) < len(nodes):
    raise CycleError(_describe_cycle(nodes, before, num_missing))
  return tuple(order)


def consumers(nodes: Iterable[Node]) -> dict[TensorRef, tuple[Node, ...]]:
  """Returns the nodes that read each tensor; a node that reads it twice is listed once.

  Example:
    >>> from graftax.graphdef_ir import Node, TensorRef
    >>> readers = consumers([Node("b", "Neg", (TensorRef("a"),))])
    >>> [node.name for node in readers[TensorRef("a")]]
    ['b']
  """
  readers: dict[TensorRef, list[Node]] = {}
  for node in nodes:
    for ref in dict.fromkeys(node.inputs):
      readers.setdefault(ref, []).append(node)
  return {ref: tuple(found) for ref, found in readers.items()}


def ancestors(nodes: Mapping[str, Node], roots: Iterable[str], *, control: bool = True) -> set[str]:
  """Returns the names of the nodes that `roots` need, roots included, as far as they are among `nodes`.

  Args:
    nodes: the nodes of one graph or function by name. Inputs that are missing, such as parameters, are left out.
    roots: names to start from.
    control: follow control inputs as well as data inputs.

  Example:
    >>> from graftax.graphdef_ir import Node, TensorRef
    >>> nodes = {"a": Node("a", "Const"), "b": Node("b", "Neg", (TensorRef("a"),)), "c": Node("c", "NoOp")}
    >>> sorted(ancestors(nodes, ["b"]))
    ['a', 'b']
  """
  pending = list(roots)
  found: set[str] = set()
  while pending:
    name = pending.pop()
    if name not in found and name in nodes:
      found.add(name)
      node = nodes[name]
      pending += [ref.node for ref in node.inputs]
      if control:
        pending += node.control_inputs
  return found


def function_references(value: "AttrValue | Mapping[str, AttrValue]") -> Iterator[FunctionRef]:
  """Yields every function that an attribute value, or a mapping of them, refers to, inner ones after outer ones.

  Example:
    >>> from graftax.graphdef_ir import FunctionRef
    >>> [reference.name for reference in function_references({"then_branch": FunctionRef("f"), "else_branch": 1})]
    ['f']
  """
  if isinstance(value, FunctionRef):
    yield value
    value = value.attrs
  elements = value.values() if isinstance(value, (dict, Mapping)) else value if isinstance(value, tuple) else ()
  for element in elements:
    if element.__class__ not in _WITHOUT_FUNCTIONS:
      yield from function_references(element)


def referenced_functions(node: Node, library: Mapping[str, Function]) -> Iterator[str]:
  """Yields the names of the library's functions that a node's op or attributes name, with repetitions.

  Args:
    node: a node. An op whose name is that of a function is a call of it; attributes hold branches and loop bodies.
    library: functions by name; references to other functions are left out.

  Example:
    >>> from graftax.graphdef_ir import Function, FunctionRef, Node
    >>> node = Node("call", "PartitionedCall", attrs={"f": FunctionRef("f")})
    >>> list(referenced_functions(node, {"f": Function("f", (), (), ())}))
    ['f']
  """
  if node.op in library:
    yield node.op
  for value in node.attrs.values():
    if value.__class__ in _WITHOUT_FUNCTIONS or (
      value.__class__ is tuple and _WITHOUT_FUNCTIONS.issuperset(map(type, value))
    ):
      continue
    for reference in function_references(value):
      if reference.name in library:
        yield reference.name


def follow_calls(names: Iterable[str], callees: Callable[[str], Iterable[str]]) -> Iterator[str]:
  """Yields `names` and everything that they call, directly or indirectly: depth first, each name once.

  Args:
    names: names of functions.
    callees: from the name of a function to the names of those that it calls; asked once, after the name is yielded.

  Example:
    >>> calls = {"a": ["b", "c"], "b": ["d"], "c": ["b"], "d": []}
    >>> list(follow_calls(["a"], calls.__getitem__))
    ['a', 'b', 'd', 'c']
  """
  seen: set[str] = set()
  pending = [iter(names)]
  while pending:
    name = next(pending[-1], None)
    if name is None:
      pending.pop()
    elif name not in seen:
      seen.add(name)
      yield name
      pending.append(iter(callees(name)))


def reachable_functions(root: Function | Graph, library: Mapping[str, Function]) -> tuple[str, ...]:
  """Returns the library's functions that `root` calls, directly or indirectly, in order of first mention (depth first).

  Functions that are mentioned but missing from the library are left out; `validate` reports those.

  Args:
    root: the function or graph to start from. It is listed itself only if it is called again.
    library: functions by name.
  """

  def callees(body: Function | Graph) -> Iterator[str]:
    return (name for node in body.nodes for name in referenced_functions(node, library))

  return tuple(follow_calls(callees(root), lambda name: callees(library[name])))


def _forward_predecessors(node: Node, nodes: Sequence[Node], position: Mapping[str, int]) -> list[int]:
  """Returns the positions of the nodes that a node reads, without the edge that closes a loop."""
  found = [position[ref.node] for ref in node.inputs if ref.node in position]
  if node.control_inputs:
    found += [position[name] for name in node.control_inputs if name in position]
  if node.op in _MERGES:
    found = [index for index in found if traits_of(nodes[index].op).control_flow_v1 != "next_iteration"]
  return found


def _describe_cycle(nodes: Sequence[Node], before: Sequence[Sequence[int]], num_missing: Sequence[int]) -> str:
  """Returns a message that shows a cycle, found by walking backwards from a node that never became ready."""
  index = next(i for i, missing in enumerate(num_missing) if missing > 0)
  path: list[int] = []
  seen: dict[int, int] = {}
  while index not in seen:
    seen[index] = len(path)
    path.append(index)
    index = next(other for other in before[index] if num_missing[other] > 0)
  cycle = [nodes[i].name for i in reversed(path[seen[index] :])]
  shown = cycle if len(cycle) <= 12 else [*cycle[:10], f"... {len(cycle) - 11} more ...", cycle[-1]]
  return (
    f"nodes depend on each other in a cycle: {' -> '.join([*shown, cycle[0]])}; only TF1 while loops may, through "
    "NextIteration into Merge."
  )
