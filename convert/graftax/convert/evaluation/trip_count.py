"""Loops whose course is known while tracing.

The loop is walked with what is known, everything else being `Unknown`: a step with an unknown input is skipped and its
outputs are unknown, so walking costs little more than running the counter itself.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert.planning.plan import Plan, Planner, Step
from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax import CountedLoop, Value, is_known

__all__ = ["BOUNDING_OPS", "BRANCHING_OPS", "bound_loop", "count_loop"]

# Beyond this, walking the counter in Python costs more than a loop of unknown length does.
_MAX_ITERATIONS = 50_000

# A declared bound above this is no help: the loop would be unrolled in time and memory to that length.
_MAX_BOUND = 10_000

# A loop whose inner loops differ from iteration to iteration is unrolled up to this length.
_MAX_UNROLLED = 64

# Larger values are no counters.
_MAX_ELEMENTS = 4096

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_IFS = BRANCHING_OPS = frozenset({"If", "StatelessIf", "XlaIf"})
BOUNDING_OPS = frozenset({"LogicalAnd"})
_WHILES = frozenset({"StatelessWhile", "While", "XlaWhile"})
# These look at nothing but the shape.
_SHAPE_OPS = frozenset({"Rank", "Shape", "ShapeN", "Size"})

# One input of this value decides the result.
_DECIDED_BY_ONE = {"LogicalAnd": False, "LogicalOr": True}

# `(step, inputs) -> outputs` of a step that reads no state.
RunStep = Callable[[Step, Sequence[Value]], Sequence[Value]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Unknown:
  """A value that depends on traced data; of a known shape where it is a loop variable."""

  shape: tuple[Any, ...] | None = None
  dtype: Any = None


_UNKNOWN = _Unknown()


def count_loop(
  planner: Planner, run_step: RunStep, cond: str, body: str, initial: Sequence[Value]
) -> CountedLoop | None:
  """The course of `while cond(vars): vars = body(vars)`.

  Args:
    planner: plans of the functions.
    run_step: runs one step on known inputs.
    cond: name of the condition.
    body: name of the loop body.
    initial: loop variables before the loop.

  Returns:
    None when the condition depends on traced data or on state, or the loop is too long to walk.
  """
  walker = _Walker(planner, run_step)
  start = [_as_known(value) for value in initial]
  trace = walker.walk_loop(planner.plan(cond), planner.plan(body), start)
  if trace is None:
    return None
  *states, final = trace
  through = planner.plan(body).passes_through
  moving = [i for i in range(len(start)) if through[i] != i and all(_is_counter(state[i], final[i]) for state in trace)]
  counters = {
    i: np.stack([np.asarray(state[i]) for state in states]) if states else np.asarray(final[i])[None][:0]
    for i in moving
  }
  unroll = len(states) <= _MAX_UNROLLED and walker.inner_loops_depend_on(planner.plan(body), states, moving)
  return CountedLoop(len(states), counters, {i: final[i] for i in moving}, unroll)


def bound_loop(
  planner: Planner,
  run_step: RunStep,
  cond: str,
  body: str,
  initial: Sequence[Value],
  bounding_ops: frozenset[str] = BOUNDING_OPS,
) -> int | None:
  """An upper bound of the iterations of a loop whose exact course is not known, or None.

  TensorFlow writes `maximum_iterations` into the condition, as `counter < maximum and condition`; what the bound says
  is known even where the condition is not.

  Args:
    planner: plans of the functions.
    run_step: runs one step on known inputs.
    cond: name of the condition.
    body: name of the loop body.
    initial: loop variables before the loop.
    bounding_ops: only a condition with one of these is worth a walk.
  """
  cond_plan = planner.plan(cond)
  if not any(step.node.op in bounding_ops for step in cond_plan.steps):
    return None
  walker = _Walker(planner, run_step)
  trace = walker.walk_loop(cond_plan, planner.plan(body), [_as_known(v) for v in initial], unless_false=_MAX_BOUND)
  return None if trace is None else len(trace) - 1


def _as_known(value: Value) -> Value:
  if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.size <= _MAX_ELEMENTS:
    return np.asarray(value)
  if is_known(value) and np.size(value) <= _MAX_ELEMENTS:
    return value
  return _Unknown(getattr(value, "shape", None), getattr(value, "dtype", None))


def _is_counter(value: Value, final: Value) -> bool:
  return is_known(value) and is_known(final) and value.shape == final.shape and value.dtype == final.dtype


class _Walker:
  """Runs plans on known and unknown values; remembers which inner loops it could follow to their end."""

  def __init__(self, planner: Planner, run_step: RunStep):
    self._planner = planner
    self._run_step = run_step
    self.counted: set[str] = set()
    self.uncounted: set[str] = set()

  def walk_loop(
    self, cond: Plan, body: Plan, start: Sequence[Value], unless_false: int | None = None
  ) -> list[list[Value]] | None:
    """Loop variables before each iteration and after the last; None where the condition is not known at some time.

    With `unless_false`, an unknown condition counts as true, up to that many iterations.
    """
    limit = _MAX_ITERATIONS if unless_false is None else unless_false
    states = [list(start)]
    while True:
      (truth,) = self.run(cond, states[-1])
      if isinstance(truth, _Unknown):
        if unless_false is None:
          return None
      elif not (truth != 0 if np.ndim(truth) == 0 else np.size(truth) > 0):
        return states
      if len(states) > limit:
        return None
      results = self.run(body, states[-1])
      # A loop variable keeps its shape, also where its value is not known.
      states.append(
        [s if isinstance(r, _Unknown) and isinstance(s, _Unknown) else r for r, s in zip(results, start, strict=True)]
      )

  def inner_loops_depend_on(self, body: Plan, states: Sequence[Sequence[Value]], counters: Sequence[int]) -> bool:
    """Whether some inner loop has a known course only as long as the counters of this loop are known."""
    if not (self.counted and states):
      return False
    blind = _Walker(self._planner, self._run_step)
    blind.run(body, [_Unknown(np.shape(v), v.dtype) if i in counters else v for i, v in enumerate(states[0])])
    return bool(blind.uncounted & self.counted)

  def run(self, plan: Plan, args: Sequence[Value]) -> list[Value]:
    """Results of a plan, known where they can be."""
    slots: list[Value] = [_UNKNOWN] * plan.num_slots
    for slot, value in [*plan.constants.items(), *zip(plan.parameters, args, strict=True)]:
      slots[slot] = value
    for step in plan.steps:
      outputs = self._outputs(step, [slots[i] for i in step.inputs])
      for slot, output in zip(step.outputs, outputs, strict=True):
        slots[slot] = output
    return [slots[i] for i in plan.results]

  def _outputs(self, step: Step, inputs: Sequence[Value]) -> Sequence[Value]:
    unknown = [_UNKNOWN] * len(step.outputs)
    op, attrs = step.node.op, step.node.attrs
    if op in _CALLS:
      return self._call(attrs["f"], inputs)
    if op in self._planner.library:
      return self._call(FunctionRef(op), inputs)
    if op in _IFS:
      condition, *args = inputs
      if isinstance(condition, _Unknown) or np.ndim(condition):
        return unknown
      return self._call(attrs["then_branch" if condition != 0 else "else_branch"], args)
    if op in _WHILES:
      return self._while(step, inputs, unknown)
    if op in _DECIDED_BY_ONE and any(is_known(v) and np.ndim(v) == 0 and v == _DECIDED_BY_ONE[op] for v in inputs):
      return [np.bool_(_DECIDED_BY_ONE[op])]
    if op in _SHAPE_OPS:
      can_run = all(getattr(value, "shape", None) is not None for value in inputs)
    else:
      can_run = step.kernel.is_pure and all(map(is_known, inputs))
    if not can_run:
      return unknown
    return [
      value if is_known(value) and np.size(value) <= _MAX_ELEMENTS else _UNKNOWN
      for value in self._run_step(step, inputs)
    ]

  def _call(self, function: Any, args: Sequence[Value]) -> Sequence[Value]:
    return self.run(self._planner.plan(function.name), args)

  def _while(self, step: Step, inputs: Sequence[Value], unknown: list[Value]) -> Sequence[Value]:
    attrs: Mapping[str, Any] = step.node.attrs
    cond, body = (self._planner.plan(attrs[role].name) for role in ("cond", "body"))
    trace = self.walk_loop(cond, body, inputs)
    (self.uncounted if trace is None else self.counted).add(step.node.name)
    return unknown if trace is None else trace[-1]
