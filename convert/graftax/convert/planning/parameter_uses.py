"""Finds the nodes that read a function's parameters, in the function itself or in those that it calls."""

import collections
from collections.abc import Collection

from graftax.convert.planning.effects import EffectAnalysis
from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  Node,
  OpSignatures,
  TensorRef,
  referenced_functions,
  topological_order,
  traits_of,
)

__all__ = ["parameter_uses"]


def parameter_uses(
  function: Function, library: FunctionLibrary, signatures: OpSignatures, positions: Collection[int]
) -> dict[int, list[tuple[Node, str]]]:
  """Returns, by position of a parameter, the nodes that read it, each with the name of its function.

  Follows calls, branches and loops into their functions. Nodes that neither a result nor an effect needs do not count.

  Args:
    function: the function.
    library: the functions that it calls.
    signatures: signatures of all ops.
    positions: positions of the parameters.
  """
  found: dict[int, list[tuple[Node, str]]] = {position: [] for position in positions}
  # For each parameter of a called function, the parameters of `function` that it can be.
  pending = [(function, {position: frozenset({position}) for position in positions})]
  effects = EffectAnalysis(library, signatures)
  seen: dict[str, dict[int, frozenset[int]]] = collections.defaultdict(dict)
  while pending:
    current, origins = pending.pop()
    known = seen[current.name]
    new = {p: o - known.get(p, frozenset()) for p, o in origins.items()}
    if not any(new.values()):
      continue
    known.update({p: known.get(p, frozenset()) | o for p, o in origins.items()})
    pending += _step(current, new, library, effects, found)
  return found


def _step(
  function: Function,
  origins: dict[int, frozenset[int]],
  library: FunctionLibrary,
  effects: EffectAnalysis,
  found: dict[int, list[tuple[Node, str]]],
) -> list[tuple[Function, dict[int, frozenset[int]]]]:
  """Adds the uses in one function to `found`; returns the functions that it passes the parameters to."""
  refs = {TensorRef(function.parameters[position].name): origin for position, origin in origins.items()}
  needed = effects.needed_nodes(function)
  callees: list[tuple[Function, dict[int, frozenset[int]]]] = []
  for node in topological_order(function.nodes):
    reached = {i: refs[ref] for i, ref in enumerate(node.inputs) if ref in refs}
    if not reached or node.name not in needed:
      continue
    if traits_of(node.op).is_alias:
      refs.update((TensorRef(node.name, i), origin) for i, origin in reached.items())
      continue
    names = list(referenced_functions(node, library))
    offset = traits_of(node.op).first_argument
    callees += ((library[name], {i - offset: o for i, o in reached.items() if i >= offset}) for name in names)
    if not names:
      for origin in frozenset().union(*reached.values()):
        found[origin].append((node, function.name))
  return callees
