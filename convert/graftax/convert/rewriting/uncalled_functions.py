"""Functions of a graph that its signatures do not need, such as those of derivatives."""

from collections.abc import Collection, Iterable, Iterator

from graftax.graphdef_ir import follow_calls, schema

__all__ = ["uncalled_functions"]


def uncalled_functions(graph: schema.GraphDef) -> frozenset[str]:
  """Returns the functions that no node of the graph calls, directly or through others.

  The nodes of a SavedModel's graph run its signatures. Gradient functions, and functions that only Python code calls,
  are not among them.
  """
  functions = {function.signature.name: function for function in graph.library.function}
  called = follow_calls(_names(graph.node, functions), lambda name: _names(functions[name].node_def, functions))
  return frozenset(functions.keys() - {*called})


def _names(nodes: Iterable[schema.NodeDef], known: Collection[str]) -> Iterator[str]:
  for node in nodes:
    used = [node.op, *(f.name for value in node.attr.values() for f in (value.func, *value.list.func))]
    yield from (name for name in used if name in known)
