"""Finds everything that prevents a conversion, before anything runs, and reports it in one error."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator

from graftax.convert.host_split.boundary import host_boundary
from graftax.convert.planning.control_flow_v1 import with_functional_control_flow
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.planning.parameter_uses import parameter_uses
from graftax.convert.program import Program, UnavailableCapture
from graftax.graphdef_ir import Function, FunctionLibrary, Node, OpSignatures, follow_calls, referenced_functions
from graftax.ops_jax import UnsupportedOpError, lowering, reason_without_lowering

__all__ = ["Preflight", "check_program", "preflight", "unavailable_uses"]

# Number of places shown per op; the message counts the others.
_NUM_EXAMPLES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Preflight:
  """The result of `preflight`.

  Attributes:
    program: the program as it is planned, with If and While in place of TF1 control flow.
    functions: the program's function and every function that it calls, each with the nodes that a call must run.
    unsupported_ops: maps op names to (node, function) of every needed node that has no lowering.
    unavailable: what a capture is that JAX cannot hold -> (node, function) of every needed node that reads it.
  """

  program: Program
  functions: list[tuple[Function, list[Node]]]
  unsupported_ops: dict[str, list[tuple[str, str]]]
  unavailable: dict[str, list[tuple[str, str]]]


def preflight(program: Program, *, keep_asserts: bool = False) -> Preflight:
  """Returns everything in a program that prevents its conversion.

  Raises:
    ControlFlowError: TF1 control flow in it does not form conditionals and loops.
  """
  program = with_functional_control_flow(program)
  functions = list(_reached_functions(program.function, program.library, program.signatures, keep_asserts))
  missing = _unsupported_ops(functions, program.library)
  return Preflight(program, functions, missing, unavailable_uses(program))


def _unsupported_ops(
  functions: Iterable[tuple[Function, list[Node]]], library: FunctionLibrary
) -> dict[str, list[tuple[str, str]]]:
  """Returns, by op name, (node, function) of every node that has no lowering."""
  found: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
  for function, nodes in functions:
    for node in nodes:
      if node.op not in library and node.op != "Const" and lowering(node.op) is None:
        found[node.op].append((node.name, function.name))
  return dict(sorted(found.items()))


def unavailable_uses(program: Program) -> dict[str, list[tuple[str, str]]]:
  """Returns description of an unavailable capture -> (node, function) of every needed node that reads it."""
  start = len(program.function.parameters) - len(program.captures)
  unavailable = {start + i: c for i, c in enumerate(program.captures) if isinstance(c, UnavailableCapture)}
  if not unavailable:
    return {}
  uses = parameter_uses(program.function, program.library, program.signatures, unavailable)
  return {
    unavailable[position].what: [(node.name, owner) for node, owner in readers]
    for position, readers in uses.items()
    if readers
  }


def check_program(program: Program, *, keep_asserts: bool = False) -> Program:
  """Returns the program as it is planned, if JAX has everything that it needs.

  Raises:
    ControlFlowError: TF1 control flow in it does not form conditionals and loops.
    UnsupportedOpError: some ops have no lowering, or JAX cannot hold some captures. The message lists all of them with
      counts and places. If all of them are work for the host, it names the tensors from which on to convert.
  """
  found = preflight(program, keep_asserts=keep_asserts)
  if found.unsupported_ops or found.unavailable:
    boundary = host_boundary(found.program, found.unsupported_ops)
    raise UnsupportedOpError(_message(found.program, found.unsupported_ops, found.unavailable, boundary))
  return found.program


def _message(
  program: Program,
  missing: dict[str, list[tuple[str, str]]],
  unavailable: dict[str, list[tuple[str, str]]],
  boundary: tuple[str, ...],
) -> str:
  name, part = program.name, program.part_code
  lines = []
  if missing:
    lines.append(f"{name!r} needs {len(missing)} ops that have no JAX lowering:")
    for op, places in missing.items():
      lines.append(f"  {op} x{len(places)}: {_places(places)}")
      reason = reason_without_lowering(op)
      if reason:
        lines.append(f"    because {reason}.")
  if unavailable:
    lines.append(f"{name!r} uses what JAX cannot hold:")
    lines += (f"  {what}; read by {_places(places)}" for what, places in unavailable.items())
  if boundary:
    lines.append(
      "All of this is work for the host, which stays in TensorFlow or Python. Convert what comes after it, which takes "
      "the values of these tensors (a dict in place of the list gives them names of your own), with\n"
      f"  {part}, inputs={list(boundary)!r})"
    )
  else:
    lines.append(
      "Register a lowering with @graftax.ops_jax.register(op), or convert a part of the graph that does not need them "
      f"with {part}, inputs=[names of tensors])."
    )
  return "\n".join(lines)


def _places(places: list[tuple[str, str]]) -> str:
  shown = ", ".join(f"{node!r} in {owner!r}" for node, owner in places[:_NUM_EXAMPLES])
  return f"{shown}, and {len(places) - _NUM_EXAMPLES} more" if len(places) > _NUM_EXAMPLES else shown


def _reached_functions(
  function: Function, library: FunctionLibrary, signatures: OpSignatures, keep_asserts: bool
) -> Iterator[tuple[Function, list[Node]]]:
  """Yields `function` and every function that it calls, each with the nodes that a call must run."""
  effects = EffectAnalysis(library, signatures, keep_asserts=keep_asserts)
  bodies: dict[str, list[Node]] = {}

  def callees(name: str) -> Iterator[str]:
    return (called for node in bodies[name] for called in referenced_functions(node, library))

  for name in follow_calls([function.name], callees):
    current = library[name] if bodies else function
    needed = effects.needed_nodes(current)
    bodies[name] = [node for node in current.nodes if node.name in needed]
    yield current, bodies[name]
