"""XlaCallModule nodes of a GraphDef: their attributes as Python values, and back."""

from collections.abc import Iterator, Mapping
from typing import Any

from graftax.graphdef_ir import schema

__all__ = ["CALL_MODULE", "attributes_of", "call_module_nodes", "set_attributes"]

CALL_MODULE = "XlaCallModule"
_STRINGS = ("platforms", "disabled_checks", "dim_args_spec")
_FLAGS = ("has_token_input_output", "use_shardy_partitioner")


def call_module_nodes(graph: schema.GraphDef) -> Iterator[tuple[str | None, schema.NodeDef]]:
  """Yields each XlaCallModule node of a graph and of its functions, with the name of the function that it is in."""
  yield from ((None, node) for node in graph.node if node.op == CALL_MODULE)
  for function in graph.library.function:
    yield from ((function.signature.name, node) for node in function.node_def if node.op == CALL_MODULE)


def attributes_of(node: schema.NodeDef) -> dict[str, Any]:
  """Returns the attributes of a node, as `graftax.xla_call_module.Module.from_call_module` takes them.

  `Tin`, `Tout` and `Sout` are left out. Functions in `function_list` are names.
  """
  attributes: dict[str, Any] = {"version": node.attr["version"].i, "module": node.attr["module"].s}
  attributes |= {
    name: tuple(text.decode() for text in node.attr[name].list.s) for name in _STRINGS if name in node.attr
  }
  attributes |= {name: node.attr[name].b for name in _FLAGS if name in node.attr}
  # Reading an entry that is not there would add it.
  functions = node.attr["function_list"].list.func if "function_list" in node.attr else ()
  attributes["function_list"] = tuple(function.name for function in functions)
  return attributes


def set_attributes(node: schema.NodeDef, attributes: Mapping[str, Any]) -> None:
  """Writes attributes into a node. Those that are left out are removed, but for types and shapes."""
  node.attr["version"].i = attributes["version"]
  node.attr["module"].s = attributes["module"]
  for name in _STRINGS:
    node.attr[name].list.s[:] = [text.encode() for text in attributes.get(name, ())]
  for name in _FLAGS:
    if name in attributes:
      node.attr[name].b = attributes[name]
    else:
      node.attr.pop(name, None)
