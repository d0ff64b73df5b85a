"""Finds the tensors at which a model's work for the host (text, files, images) ends and numbers begin."""

import dataclasses
from collections.abc import Mapping

from graftax.convert.host_ops.registry import handles_strings
from graftax.convert.host_parts.parts import find_parts, holds_numbers
from graftax.convert.program import Program
from graftax.convert.subgraph import inlined
from graftax.graphdef_ir import GraftaxError, Node

__all__ = ["CALLS_PYTHON", "host_boundary"]

CALLS_PYTHON = frozenset(("EagerPyFunc", "PyFunc", "PyFuncStateless"))
"""Ops that call a function of the Python process that made the graph; files only have the number of the function."""

# Parts of the names of host ops without strings: Python code and input pipelines.
_HOST_WORDS = ("PyFunc", "Dataset", "Iterator", "Queue", "Reader", "Barrier", "Stage", "Decode", "Encode")


def host_boundary(program: Program, missing: Mapping[str, list[tuple[str, str]]]) -> tuple[str, ...]:
  """Returns the names of tensors, for `convert_subgraph`, after which everything can be converted.

  Args:
    program: the program.
    missing: its ops without a lowering.

  Returns:
    The tensors that the host would have to compute, then the program's own inputs that are still needed after them.
    Empty if such tensors do not exist, or if a missing op is not work for the host.
  """
  try:
    flat = dataclasses.replace(program, function=inlined(program))
    parts = find_parts(flat, flat.function)
  except GraftaxError:
    return ()
  nodes = {node.name: node for node in flat.function.nodes}
  on_host = [nodes[name] for name in parts.on_host]
  if parts.in_tail or not on_host or not all(_is_host_work(node, program) for node in on_host if node.op in missing):
    return ()
  refs = dict.fromkeys((*parts.to_body, *parts.past_body))
  if not all(ref.node not in nodes or holds_numbers(ref, nodes[ref.node], program.signatures) for ref in refs):
    return ()
  return (*(str(ref) for ref in refs if ref.node in nodes), *(str(ref) for ref in refs if ref.node not in nodes))


def _is_host_work(node: Node, program: Program) -> bool:
  return any(word in node.op for word in _HOST_WORDS) or handles_strings(node, program.signatures.get(node.op))
