"""Removes nodes that no result needs."""

import dataclasses
from collections.abc import Iterable

from graftax.graphdef_ir.graph import Function
from graftax.graphdef_ir.graph.traverse import ancestors

__all__ = ["prune"]


def prune(function: Function, *, keep: Iterable[str] = ()) -> Function:
  """Returns the function without the nodes that no result and no control result depends on.

  A node with a side effect stays only if a result depends on it: TensorFlow lists such nodes as control results.
  Functions of TensorFlow 1 predate control results; name their effects in `keep`.

  Args:
    function: the function; returned itself if there is nothing to remove.
    keep: names of further nodes that stay, with all that they depend on.

  Example:
    >>> from graftax.graphdef_ir import DType, Node, Parameter, Result, TensorRef
    >>> used, unused = (Node(name, "Neg", (TensorRef("x"),)) for name in ("used", "unused"))
    >>> result = Result("y", TensorRef("used"), DType.FLOAT)
    >>> function = Function("f", (Parameter("x", DType.FLOAT),), (result,), (used, unused))
    >>> [node.name for node in prune(function).nodes]
    ['used']
  """
  nodes = {node.name: node for node in function.nodes}
  roots = [*(result.ref.node for result in function.results), *function.control_results, *keep]
  needed = ancestors(nodes, roots)
  if len(needed) == len(nodes):
    return function
  return dataclasses.replace(function, nodes=tuple(node for node in function.nodes if node.name in needed))
