"""Finds everything that prevents a conversion, before anything runs."""

import collections
import dataclasses
import itertools
from collections.abc import Container, Iterable, Iterator, Sequence

from graftax.convert.host_ops.registry import host_lowering
from graftax.convert.planning.compiled_ops import obstacle
from graftax.convert.planning.control_flow_v1 import with_functional_control_flow
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.planning.parameter_uses import parameter_uses
from graftax.convert.program import LateGradients, Program, UnavailableCapture, UnsafeCapture, validated
from graftax.convert.variable import variable_name
from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  GraphError,
  Limits,
  Node,
  OpSignatures,
  UnsafeFileError,
  follow_calls,
  implementations_for_cpu,
  reachable_functions,
  referenced_functions,
  traits_of,
)
from graftax.ops_jax import lowering

__all__ = ["Preflight", "check_files", "preflight", "unavailable_uses"]


# Of each node in the file, for the number of nodes of a program.
_MOST_COPIES = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Preflight:
  """The result of `preflight`.

  Attributes:
    program: the program as it is planned, with If and While in place of TF1 control flow.
    functions: the program's function and every function that it calls, each with the nodes that a call must run.
    unsupported_ops: maps op names to (node, function) of every needed node that has no lowering. With a fallback, ops
      that it compiles are left out.
    on_host: those of these ops whose nodes all run on the host, if the program is split.
    not_compiled: why TensorFlow does not compile an unsupported op; empty without the fallback.
    num_stored: the number of nodes of the program and all functions that it calls, as the file has them.
    unavailable: what a capture is that JAX cannot hold -> (node, function) of every needed node that reads it.
  """

  program: Program
  functions: list[tuple[Function, list[Node]]]
  unsupported_ops: dict[str, list[tuple[str, str]]]
  unavailable: dict[str, list[tuple[str, str]]]
  on_host: frozenset[str] = frozenset()
  not_compiled: dict[str, str] = dataclasses.field(default_factory=dict)
  num_stored: int = 0

  @property
  def num_nodes(self) -> int:
    """Returns the number of nodes that a call must run if it calls each function once.

    Limits grow with it, so it counts only some of the copies that raising TF1 control flow makes of nodes in the file.
    """
    return min(sum(len(nodes) for _, nodes in self.functions), _MOST_COPIES * self.num_stored)

  @property
  def draws_random_numbers(self) -> bool:
    """Returns whether a call draws random numbers, so that it needs a key in `rng=`."""
    return any(_draws(node) for _, nodes in self.functions for node in nodes)

  @property
  def updated_variables(self) -> tuple[str, ...]:
    """Returns the names of the variables that a call may assign, in the order of the program's variables."""
    program = self.program
    effects = EffectAnalysis(program.library, program.signatures)
    start = len(program.function.parameters) - len(program.captures)
    written = {position - start for position in effects.parameters_written_by(program.function)}
    names = {getattr(program.captures[i], "name", None) for i in written if i >= 0}
    for function, nodes in self.functions:
      made = {node.name: variable_name(node) for node in function.nodes if traits_of(node.op).makes == "variable"}
      names |= {made.get(node.inputs[0].node) for node in nodes if traits_of(node.op).assigns}
    return tuple(name for name in program.variables if name in names)


def preflight(
  program: Program, *, keep_asserts: bool = False, fallback: str | None = None, limits: Limits | None = None
) -> Preflight:
  """Returns everything in a program that prevents its conversion.

  Args:
    program: the program.
    keep_asserts: whether assertions have to be converted, too.
    fallback: the option of that name.
    limits: the option of that name.

  Raises:
    GraphError: a node, or a function that is called, is not well-formed, or the function has more or fewer parameters
      than inputs and captures.
    LibraryNotFoundError: the fallback is "tensorflow", some ops need it, and TensorFlow is not installed.
    ControlFlowError: TF1 control flow in it does not form conditionals and loops.

  Example:
    >>> from graftax.convert import jax_program
    >>> preflight(jax_program(lambda x: x + 1, [2.0])).unsupported_ops
    {}
  """
  program = validated(program)
  _check_parameters(program)
  reached = reachable_functions(program.function, program.library)
  num_stored = len(program.function.nodes) + sum(len(program.library[name].nodes) for name in reached)
  program = with_functional_control_flow(_for_cpu(program, reached), limits)
  functions = list(_reached_functions(program.function, program.library, program.signatures, keep_asserts))
  missing: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
  not_compiled, not_on_host = {}, set()
  for node, function in _nodes_without_lowering(functions, program.library):
    if fallback:
      reason = obstacle(node, program.signatures.get(node.op), program.library)
      if reason is None:
        continue
      not_compiled[node.op] = reason
    missing[node.op].append((node.name, function))
    if host_lowering(node, program.signatures.get(node.op)) is None:
      not_on_host.add(node.op)
  return Preflight(
    program,
    functions,
    dict(sorted(missing.items())),
    unavailable_uses(program),
    frozenset(missing) - not_on_host,
    not_compiled,
    num_stored,
  )


def _for_cpu(program: Program, reached: Sequence[str]) -> Program:
  """Returns a program that runs the implementations for CPUs of what it and its gradients call, as TensorFlow does."""
  library = program.library
  made = {} if isinstance(program.gradients, LateGradients) else program.gradients
  called = (reachable_functions(library[gradient.function], library) for gradient in made.values())
  replaced = implementations_for_cpu(dict.fromkeys([*reached, *itertools.chain(*called)]), library)
  return dataclasses.replace(program, library=library.replace(replaced)) if replaced else program


def _draws(node: Node) -> bool:
  traits = traits_of(node.op)
  return traits.effect == "fresh" and traits.makes is None and lowering(node.op) is not None


def _check_parameters(program: Program) -> None:
  function, num_inputs, num_captures = program.function, len(program.inputs.specs), len(program.captures)
  if num_inputs + num_captures != len(function.parameters):
    raise GraphError(
      f"function {function.name!r} has {len(function.parameters)} parameters; expected {num_inputs + num_captures}, "
      f"for {num_inputs} inputs and {num_captures} captures."
    )


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


def check_files(program: Program, needed: Container[str]) -> None:
  """Raises UnsafeFileError if one of the captures with the given descriptions is in a file that may not be read."""
  for capture in program.captures:
    if isinstance(capture, UnsafeCapture) and capture.what in needed:
      raise UnsafeFileError(f"{program.name!r}: {capture.error}")


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
