"""Finds everything that prevents a conversion, before anything runs, and reports it in one error."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator

from graftax.convert.host_split.boundary import host_boundary
from graftax.convert.planning.compiled_ops import obstacle
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
    unsupported_ops: maps op names to (node, function) of every needed node that has no lowering. With a fallback, ops
      that it compiles are left out.
    not_compiled: why TensorFlow does not compile an unsupported op; empty without the fallback.
    unavailable: what a capture is that JAX cannot hold -> (node, function) of every needed node that reads it.
  """

  program: Program
  functions: list[tuple[Function, list[Node]]]
  unsupported_ops: dict[str, list[tuple[str, str]]]
  unavailable: dict[str, list[tuple[str, str]]]
  not_compiled: dict[str, str] = dataclasses.field(default_factory=dict)


def preflight(program: Program, *, keep_asserts: bool = False, fallback: str | None = None) -> Preflight:
  """Returns everything in a program that prevents its conversion.

  Args:
    program: the program.
    keep_asserts: whether assertions have to be converted, too.
    fallback: the option of that name.

  Raises:
    LibraryNotFoundError: the fallback is "tensorflow", some ops need it, and TensorFlow is not installed.
    ControlFlowError: TF1 control flow in it does not form conditionals and loops.
  """
  program = with_functional_control_flow(program)
  functions = list(_reached_functions(program.function, program.library, program.signatures, keep_asserts))
  missing: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
  not_compiled = {}
  for node, function in _nodes_without_lowering(functions, program.library):
    if fallback:
      reason = obstacle(node, program.signatures.get(node.op), program.library)
      if reason is None:
        continue
      not_compiled[node.op] = reason
    missing[node.op].append((node.name, function))
  return Preflight(program, functions, dict(sorted(missing.items())), unavailable_uses(program), not_compiled)


def _nodes_without_lowering(
  functions: Iterable[tuple[Function, list[Node]]], library: FunctionLibrary
) -> Iterator[tuple[Node, str]]:
  """Yields every node that has no lowering, with the name of its function."""
  for function, nodes in functions:
    for node in nodes:
      if node.op not in library and node.op != "Const" and lowering(node.op) is None:
        yield node, function.name


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


def check_program(program: Program, *, keep_asserts: bool = False, fallback: str | None = None) -> Program:
  """Returns the program as it is planned, if JAX has everything that it needs.

  Raises:
    ControlFlowError: TF1 control flow in it does not form conditionals and loops.
    UnsupportedOpError: some ops have no lowering, or JAX cannot hold some captures. The message lists all of them with
      counts and places. If all of them are work for the host, it names the tensors from which on to convert.
  """
  found = preflight(program, keep_asserts=keep_asserts, fallback=fallback)
  if found.unsupported_ops or found.unavailable:
    boundary = host_boundary(found.program, found.unsupported_ops)
    raise UnsupportedOpError(_message(found, boundary))
  return found.program


def _message(found: Preflight, boundary: tuple[str, ...]) -> str:
  name, part = found.program.name, found.program.part_code
  missing, unavailable = found.unsupported_ops, found.unavailable
  lines = []
  if missing:
    lines.append(f"{name!r} needs {len(missing)} ops that have no JAX lowering:")
    for op, places in missing.items():
      lines.append(f"  {op} x{len(places)}: {_places(places)}")
      reason = reason_without_lowering(op)
      if reason:
        lines.append(f"    because {reason}.")
      if op in found.not_compiled:
        lines.append(f"    TensorFlow does not compile it: {found.not_compiled[op]}.")
  if unavailable:
    lines.append(f"{name!r} uses what JAX cannot hold:")
    lines += (f"  {what}; read by {_places(places)}" for what, places in unavailable.items())
  if boundary:
    lines.append(
      "All of this is work for the host. SavedModel.split and graftax.convert.split_program run it without TensorFlow. "
      "Or convert only what comes after it, which takes the values of these tensors (a dict in place of the list gives "
      "them names of your own), with\n"
      f"  {part}, inputs={list(boundary)!r})"
    )
  else:
    lines.append(
      "Register a lowering with @graftax.ops_jax.register(op), or convert a part of the graph that does not need them "
      f"with {part}, inputs=[names of tensors]). SavedModel.split and graftax.convert.split_program run strings, "
      f"tables and files on the host."
    )
    if missing and not found.not_compiled:
      lines.append("If TensorFlow is installed, the option fallback='tensorflow' has it compile ops on numbers.")
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
