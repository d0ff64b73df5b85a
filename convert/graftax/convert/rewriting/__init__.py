"""Graphs with XlaCallModule nodes, written for the program that will run them.

- `call_module_nodes`: Reads and writes the attributes of an XlaCallModule node in a GraphDef.
- `consumers`: The programs that graphs can be written for, and the form that each needs.
- `compiled_functions`: Writes JAX functions as modules of StableHLO, for compilers.
- `graph`: Rewrites all XlaCallModule nodes of a graph, or of several.
- `modules`: The StableHLO of XlaCallModule nodes as modules.
- `plain_calls`: Replaces a node by a call of a function of plain TensorFlow ops.
- `uncalled_functions`: The functions of a graph that its signatures do not need.
"""

from graftax.convert.rewriting.call_module_nodes import CALL_MODULE
from graftax.convert.rewriting.compiled_functions import CompiledFunction, write_module
from graftax.convert.rewriting.consumers import Consumer
from graftax.convert.rewriting.graph import RewriteReport, rewrite_graph, rewrite_graphs
from graftax.convert.rewriting.modules import call_modules

__all__ = [
  "CALL_MODULE",
  "CompiledFunction",
  "Consumer",
  "RewriteReport",
  "call_modules",
  "rewrite_graph",
  "rewrite_graphs",
  "write_module",
]
