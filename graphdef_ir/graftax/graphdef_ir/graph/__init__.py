"""Graphs and functions of nodes: what they hold, their text, their order and their parts.

The modules are one room, since a graph prints itself and cuts parts of itself.

- `nodes`, `library`, `graph`: nodes, functions, the functions of a graph, graphs;
- `traverse`: ordering and following calls;
- `text`: printing;
- `subgraph`: cutting.
"""

from graftax.graphdef_ir.graph.graph import Graph
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.nodes import UNRESOLVED_OUTPUT, Function, Node, NodeOrigin, Parameter, Result, TensorRef

__all__ = [
  "UNRESOLVED_OUTPUT",
  "Function",
  "FunctionLibrary",
  "Graph",
  "Node",
  "NodeOrigin",
  "Parameter",
  "Result",
  "TensorRef",
]
