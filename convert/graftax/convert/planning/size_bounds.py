"""Checks the names in the option `max_sizes`, so that a misspelled one does not go unnoticed."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from graftax.convert.errors import ConversionError
from graftax.convert.program import Program
from graftax.graphdef_ir import Node
from graftax.graphdef_ir.op_traits import traits_of
from graftax.ops_jax import ops_with_max_size

__all__ = ["check_max_sizes", "names_with_max_size"]

# Loops of every op are bounded by their own name or by this one.
_LOOP = "While"


def check_max_sizes(program: Program, max_sizes: Mapping[str, int] | None) -> None:
  """Checks that each name in the option `max_sizes` is that of a node or op that can use a bound.

  Args:
    program: the program, with functional control flow.
    max_sizes: the option.

  Raises:
    ConversionError: some names are not. The message has similar names.
  """
  if not max_sizes:
    return
  bounded = names_with_max_size(program)
  unknown = [name for name in max_sizes if name not in bounded]
  if not unknown:
    return
  ops = {name: node.op for node in _nodes(program) for name in (node.name, node.op)}
  lines = [f"  {name!r}: {_reason(name, ops)}{_similar(name, bounded)}" for name in unknown]
  raise ConversionError("\n".join([f"{program.name}: the option max_sizes has names that bound nothing:", *lines]))


def names_with_max_size(program: Program) -> frozenset[str]:
  """Returns the names of the nodes of a program, and of their ops, that can use a bound from `max_sizes`."""
  bounded = ops_with_max_size()
  names = set[str]()
  for node in _nodes(program):
    if node.op in bounded:
      names |= {node.name, node.op}
    elif _is_loop(node.op):
      names |= {node.name, _LOOP}
  return frozenset(names)


def _is_loop(op: str) -> bool:
  return traits_of(op).calls in ("while", "for")


def _nodes(program: Program) -> Iterator[Node]:
  for function in (program.function, *program.library.values()):
    yield from function.nodes


def _reason(name: str, ops: Mapping[str, str]) -> str:
  op = ops.get(name)
  if op is not None and _is_loop(op):
    return f"loops are bounded by the name of the node, or all of them by {_LOOP!r}"
  if op is None:
    return "the graph has no such node or op"
  return "this op never uses a bound" if op == name else f"this node is a {op}, which never uses a bound"


def _similar(name: str, bounded: Collection[str]) -> str:
  if not bounded:
    return "; no op of the graph uses one."
  # Nodes are often named without their scopes.
  found = [known for known in sorted(bounded) if known.rpartition("/")[2] == name]
  found = found or difflib.get_close_matches(name, sorted(bounded), n=3) or sorted(bounded, key=len)
  return f"; similar names are {found[:3]!r}."
