"""Runs a plan: one pass over its steps, under whatever JAX transform is tracing.

There is one loop over steps, `Evaluator.run`. What a step does with its inputs is the evaluator's policy: `TraceAll`
runs every step, and is the policy of converted functions; `KnownOnly` (in `loop_walk.py`) runs the steps whose
inputs are known, and finds out before a loop how often it will run.
"""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np

from graftax.convert.evaluation.folding import run_on_known
from graftax.convert.evaluation.frame import Frame, is_explained
from graftax.convert.evaluation.state import State
from graftax.convert.options import ConvertOptions
from graftax.convert.planning.plan import Plan, Planner
from graftax.graphdef_ir import Budget, UnsupportedError
from graftax.ops_jax import IntegerFacts, Value, check_results
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["Evaluator", "Policy", "TraceAll"]


# What a call of a function costs besides its steps, as a number of steps.
_CALL_STEPS = 20

# What `ops_jax.is_known` accepts. Asked of every input of every node, so `run_step` does not call that.
_KNOWN = (np.ndarray, np.generic)


class Policy(Protocol):
  """What to do with a step."""

  @property
  def names_scopes(self) -> bool:
    """Returns whether each step runs in the `jax.named_scope` of its node."""

  def spend_steps(self, num_steps: int, budget: Budget, function: str) -> None:
    """Counts steps that are about to run."""

  def run_step(self, frame: Frame, inputs: Sequence[Value]) -> Sequence[Value]:
    """Returns the outputs of `frame.step`."""


class TraceAll:
  """Runs every step. Results of pure steps on known inputs are known."""

  names_scopes = True

  def spend_steps(self, num_steps: int, budget: Budget, function: str) -> None:
    """Counts steps that are about to run."""
    budget.spend_steps(num_steps, f"function {function!r}")

  def run_step(self, frame: Frame, inputs: Sequence[Value]) -> Sequence[Value]:
    """Returns the outputs of `frame.step`."""
    kernel = frame.step.kernel
    if inputs and kernel.is_pure and not [value for value in inputs if not isinstance(value, _KNOWN)]:
      outputs = run_on_known(frame.step, frame, inputs)
    else:
      outputs = kernel.run(frame, inputs)
    check_results(outputs, frame.evaluator.budget, kernel.where)
    return outputs


_TRACE_ALL = TraceAll()


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluator:
  """Runs plans during one call of a converted function.

  Attributes:
    planner: plans the functions that the program calls.
    options: options that lowerings can read.
    state: variables; replaced inside control flow, where they are explicit operands.
    key: PRNG key of the call, or None.
    path: names of the call nodes that led here, for keys that do not depend on unrelated nodes.
    callers: names of the library functions being evaluated, outermost first.
    policy: what to do with a step.
    facts: what lowerings find out about traced integers.
    budget: what is left of the limits of the call.
  """

  planner: Planner
  options: ConvertOptions
  state: State
  key: jax.Array | None
  path: str = ""
  callers: tuple[str, ...] = ()
  policy: Policy = _TRACE_ALL
  facts: IntegerFacts = dataclasses.field(default_factory=IntegerFacts)
  budget: Budget = dataclasses.field(default_factory=Budget)

  def enter(self, function_name: str, path: str) -> "Evaluator":
    """Returns the evaluator for a function that is called from the node at `path`.

    Raises:
      UnsupportedError: the function is being called already.
      LimitExceededError: too many functions call each other.
    """
    if function_name in self.callers:
      chain = " -> ".join((*self.callers, function_name))
      raise UnsupportedError(
        f"function {function_name!r} calls itself ({chain}); JAX does not support recursion. Write it as a loop."
      )
    self.budget.check_depth(
      len(self.callers) + 1, f"function {function_name!r}, called by {self.callers[-1] if self.callers else path!r},"
    )
    return dataclasses.replace(self, path=path, callers=(*self.callers, function_name))

  def run(self, plan: Plan, args: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the plan's results for `args`, one per parameter.

    Raises:
      LimitExceededError: the call has evaluated too many nodes.
    """
    self.policy.spend_steps(_CALL_STEPS + len(plan.steps), self.budget, plan.name)
    slots: list[Value] = [None] * plan.num_slots
    constants = plan.wide_constants if jax.config.jax_enable_x64 else plan.constants
    for slot, constant in constants.items():
      slots[slot] = constant
    for slot, value in zip(plan.parameters, args, strict=True):
      slots[slot] = value
    frame = Frame(self, plan.name)
    run_step, names_scopes = self.policy.run_step, self.policy.names_scopes
    with default_promotion(), _ScopeCursor() as scopes:
      for step in plan.steps:
        frame.step = step
        if names_scopes and step.scope != scopes.name:
          scopes.move_to(step.scope)
        try:
          outputs = run_step(frame, [slots[i] for i in step.inputs])
        except Exception as e:
          # What a step of a called function let pass is an error of a lowering that others have registered.
          refused = None if is_explained(e) else step.kernel.refusal(e)
          frame.explain(refused or e)
          if refused is None:
            raise
          raise refused from e
        for slot, output in zip(step.outputs, outputs, strict=True):
          slots[slot] = output
        for slot in step.frees:
          slots[slot] = None
    return tuple(slots[i] for i in plan.results)


class _ScopeCursor:
  """The `jax.named_scope` of the current step, entered only if it changes: adjacent steps share one."""

  def __init__(self) -> None:
    self.name = ""
    self._scope: contextlib.AbstractContextManager[None] | None = None

  def move_to(self, name: str) -> None:
    self.__exit__(None, None, None)
    if name:
      self._scope = jax.named_scope(name)
      self._scope.__enter__()
    self.name = name

  def __enter__(self) -> "_ScopeCursor":
    return self

  def __exit__(self, *error: Any) -> None:
    if self._scope is not None:
      self._scope.__exit__(*error)
      self._scope = None
