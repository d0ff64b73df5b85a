"""Graphs.

>>> from graftax.graphdef_ir import DType
>>> x = Node("x", "Placeholder", attrs={"dtype": DType.FLOAT})
>>> y = Node("y", "Neg", inputs=(TensorRef("x"),))
>>> graph = Graph((x, y))
>>> [str(ref) for ref in graph.node("y").inputs]
['x']
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.nodes import Function, Node, TensorRef, find_node
from graftax.graphdef_ir.signatures import OpSignatures

__all__ = ["Graph"]


@dataclass(frozen=True, slots=True)
class Graph:
  """A GraphDef: nodes, the functions they call, and the signatures of the ops it uses.

  `producer` is the GraphDef version of the TensorFlow that wrote it, 0 if not recorded.

  Example:
    >>> from graftax.graphdef_ir import parse_graph
    >>> graph = parse_graph(b'node { name: "x" op: "NoOp" } node { name: "y" op: "NoOp" input: "^x" }')
    >>> graph.node("y").control_inputs
    ('x',)
  """

  nodes: tuple[Node, ...]
  library: FunctionLibrary = field(default_factory=FunctionLibrary)
  producer: int = 0
  signatures: OpSignatures = field(default_factory=OpSignatures, repr=False, compare=False)
  _index: dict[str, Node] | None = field(default=None, init=False, repr=False, compare=False)

  def node(self, name: str) -> Node:
    """Returns the node of that name.

    Raises:
      NoSuchNodeError: there is no such node.
    """
    return find_node(self, "graph", name)

  def subgraph(
    self,
    inputs: Sequence[TensorRef | str],
    outputs: Sequence[TensorRef | str],
    *,
    targets: Sequence[str] = (),
    name: str = "subgraph",
  ) -> Function:
    """Returns the function that feeds `inputs`, fetches `outputs` and runs `targets`; see `extract_subgraph`.

    Args:
      inputs: tensors to feed, as refs or as text (`"x"`, `"split:1"`); the function's parameters, in this order.
      outputs: tensors to return, in this order; can repeat, and can be inputs.
      targets: names of nodes to run for their effects.
      name: the function's name.

    Raises:
      GraphError: for the reasons listed at `extract_subgraph`.
    """
    from graftax.graphdef_ir.graph.subgraph import extract_subgraph

    return extract_subgraph(self, inputs, outputs, targets=targets, name=name)

  def __hash__(self) -> int:
    return hash(self.nodes)

  def __str__(self) -> str:
    from graftax.graphdef_ir.graph.text import format_graph

    return format_graph(self)
