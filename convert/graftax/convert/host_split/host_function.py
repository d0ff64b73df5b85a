"""Runs a program on the host: strings and tables in NumPy, numbers by JAX's lowerings outside of `jit`."""

import collections
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert.evaluation.evaluate import Evaluator
from graftax.convert.evaluation.frame import Frame
from graftax.convert.evaluation.state import State
from graftax.convert.host_ops.registry import host_lowering
from graftax.convert.host_ops.values import as_strings
from graftax.convert.options import ConvertOptions, current_options
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.planning.plan import Plan, Planner
from graftax.convert.program import HostCapture, Program, UnavailableCapture
from graftax.convert.recursion import recursion_as_limit
from graftax.graphdef_ir import Budget, Limits, follow_calls, referenced_functions, traits_of
from graftax.ops_jax import Int64Pair, Value, argument_bytes, check_results

# Strings of fewer bytes are not compared with the limits.
_SMALL_BYTES = 1 << 16

__all__ = ["HostFunction", "host_obstacles", "plan_host_function"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class HostFunction:
  """A program that runs on the host, on NumPy arrays; strings are arrays of dtype object with `bytes`.

  Attributes:
    program: the program.
    planner: plans the functions that it calls.
    plan: the plan of its function.
    num_nodes: the number of nodes that a call runs if it calls each function once.
    constant_bytes: size of the constants of its function.
  """

  program: Program
  planner: Planner
  plan: Plan
  num_nodes: int
  constant_bytes: int = 0

  def __repr__(self) -> str:
    return f"HostFunction({self.program.name!r})"

  def __call__(self, flat: Sequence[Value]) -> list[Value]:
    """Returns flat results for flat inputs, with 64-bit integers and floats as they are in TensorFlow."""
    with jax.core.eval_context(), jax.enable_x64(True):
      values = [_as_numpy(value) for value in flat]
      limits = self.planner.options.limits
      num_bytes = argument_bytes(values) + self.constant_bytes
      budget = Budget(limits, num_nodes=self.num_nodes, argument_bytes=num_bytes, is_traced=False)
      evaluator = Evaluator(self.planner, self.planner.options, State({}), None, policy=_HostPolicy(), budget=budget)
      with recursion_as_limit(self.program.name):
        return list(evaluator.run(self.plan, [*values, *self.program.captures]))

  def __reduce__(self) -> tuple[Any, ...]:
    return plan_host_function, (self.program, self.planner.options.limits)


def plan_host_function(program: Program, limits: Limits | None = None) -> HostFunction:
  """Returns a program, which `host_obstacles` does not refuse, as a host function.

  Args:
    program: the program.
    limits: how much memory and time a call may need; by default the option `limits`.
  """
  options = ConvertOptions(limits=current_options().limits if limits is None else limits)
  planner = Planner(
    program.library,
    program.signatures,
    options,
    program.gradients,
    find_lowering=host_lowering,
    folder=program.folder,
  )
  num_nodes = sum(1 for _ in _reached_nodes(program))
  plan = planner.plan_root(program.function)
  constants = [value for value in (*plan.constants.values(), *program.captures) if isinstance(value, np.ndarray)]
  return HostFunction(program, planner, plan, num_nodes, argument_bytes(constants))


class _HostPolicy:
  """Runs every step on known values; results are known."""

  names_scopes = False

  def spend_steps(self, num_steps: int, budget: Budget, function: str) -> None:
    """Counts steps that are about to run."""
    budget.spend_steps(num_steps, f"function {function!r}")

  def run_step(self, frame: Frame, inputs: Sequence[Value]) -> Sequence[Value]:
    """Returns the outputs of `frame.step`."""
    where = frame.step.kernel.where
    for value in inputs:
      # A constant that repeats one string takes no memory until an op computes with it.
      if isinstance(value, np.ndarray) and value.dtype == object and 0 in value.strides:
        frame.budget.check_text(_repeated_bytes(value), where)
    outputs = [_as_numpy(value) for value in frame.step.kernel.run(frame, inputs)]
    check_results(outputs, frame.budget, where)
    num_bytes = argument_bytes([value for value in outputs if isinstance(value, np.ndarray) and value.dtype == object])
    if num_bytes > _SMALL_BYTES:
      frame.budget.spend_text_bytes(num_bytes, where)
    return outputs


def _repeated_bytes(array: np.ndarray) -> int:
  """Returns the size of strings of which broadcasting repeats some, as if all were stored."""
  if not array.size:
    return 0
  once = as_strings(array[tuple(0 if stride == 0 else slice(None) for stride in array.strides)])
  return array.size // once.size * argument_bytes([once.copy()])


def _as_numpy(value: Value) -> Value:
  if isinstance(value, Int64Pair):
    # The two halves of a 64-bit integer.
    low, high = (np.asarray(half).astype(np.uint64) for half in (value.low, value.high))
    return (low | (high << np.uint64(32))).astype(value.dtype)
  if isinstance(value, jax.Array):
    return np.asarray(value)
  return as_strings(value) if isinstance(value, bytes) else value


def host_obstacles(program: Program, names: Collection[str] | None = None) -> dict[str, list[tuple[str, str]]]:
  """Returns what keeps nodes from running on the host: op or description of a capture -> (node, function).

  Args:
    program: the program.
    names: names of nodes of its function; by default all.
  """
  if names is not None:
    kept = tuple(node for node in program.function.nodes if node.name in names)
    program = dataclasses.replace(program, function=dataclasses.replace(program.function, nodes=kept))
  found: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
  for function, node in _reached_nodes(program):
    if node.op == "Const" or node.op in program.library or traits_of(node.op).is_alias:
      continue
    if host_lowering(node, program.signatures.get(node.op)) is None:
      found[node.op].append((node.name, function))
  start = len(program.function.parameters) - len(program.captures)
  for parameter, capture in zip(program.function.parameters[start:], program.captures, strict=True):
    if isinstance(capture, UnavailableCapture) and not isinstance(capture, HostCapture):
      readers = [n.name for n in program.function.nodes if any(ref.node == parameter.name for ref in n.inputs)]
      if readers:
        found[capture.what] += ((name, program.function.name) for name in readers)
  return dict(sorted(found.items()))


def _reached_nodes(program: Program) -> Iterator[tuple[str, Any]]:
  """Yields the name of a function and a node of it, for the program's function and all that it calls."""
  library, effects = program.library, EffectAnalysis(program.library, program.signatures)

  def nodes_of(name: str) -> Iterator[Any]:
    if name == program.function.name:
      return iter(program.function.nodes)
    needed = effects.needed_nodes(library[name])
    return (node for node in library[name].nodes if node.name in needed)

  def callees(name: str) -> Iterator[str]:
    return (called for node in nodes_of(name) for called in referenced_functions(node, library))

  for name in follow_calls([program.function.name], callees):
    for node in nodes_of(name):
      yield name, node
