"""Finds the iterations of a `While` loop before it runs, or at least a bound for them.

The loop is walked with the policy `KnownOnly`, which runs the steps whose inputs are known and skips the others. So
the walk costs little more than running the loop's counter. If the condition is known in every iteration, the walk ends
with the values of the counters in each of them.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from graftax.convert.evaluation.folding import run_on_known
from graftax.convert.planning.plan import Plan
from graftax.graphdef_ir import FunctionRef, traits_of
from graftax.ops_jax import CountedLoop, LoopFacts, Value, is_known

if TYPE_CHECKING:
  from graftax.convert.evaluation.evaluate import Evaluator
  from graftax.convert.evaluation.frame import Frame

__all__ = ["KnownOnly", "loop_facts"]

# Beyond this, walking the counter in Python costs more than a loop of unknown length does.
_MAX_ITERATIONS = 50_000

# A declared bound above this does not help: the loop would need time and memory for that length.
_MAX_BOUND = 10_000

# A loop whose inner loops differ from iteration to iteration is unrolled up to this length.
_MAX_UNROLLED = 64

# Larger values are not counters.
_MAX_ELEMENTS = 4096


def loop_facts(
  evaluator: "Evaluator", path: str, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]
) -> LoopFacts:
  """Returns what is known of `while cond(vars): vars = body(vars)`.

  Args:
    evaluator: of the function with the loop.
    path: names of the nodes that lead to the loop, its own last.
    cond: the condition.
    body: the loop body.
    args: loop variables before the loop.
  """
  loop = _Loop(evaluator, path, cond, body)
  start = [_as_known(value) for value in args]
  counted = _count(loop, start)
  if counted is not None:
    return LoopFacts(counted)
  # TensorFlow writes `maximum_iterations` into the condition, as `counter < maximum and condition`. This part is known
  # even if the rest is not. AutoGraph writes a `break` as a condition that is computed in branches.
  steps = loop.cond.steps
  declares_bound = any(traits_of(step.node.op).decided_by is False for step in steps)
  may_break = any(traits_of(step.node.op).calls == "if" for step in steps)
  bound = _bound(loop, start) if declares_bound else None
  # Lists are pytrees, arrays are leaves.
  needs_room = may_break and not declares_bound and not jax.tree_util.all_leaves(args)
  return LoopFacts(bound=bound, room=_bound(loop, start) if needs_room else bound)


class KnownOnly:
  """Runs the steps whose inputs are known; every other value is `Unknown`.

  Attributes:
    counted: names of the inner loops whose iterations were known every time.
    uncounted: names of the inner loops whose iterations were unknown at least once.
  """

  names_scopes = False

  def __init__(self) -> None:
    self.counted: set[str] = set()
    self.uncounted: set[str] = set()

  def run_step(self, frame: "Frame", inputs: Sequence[Value]) -> Sequence[Value]:
    """Returns the outputs of `frame.step`, as far as they are known."""
    step = frame.step
    op, attrs = step.node.op, step.node.attrs
    traits = traits_of(op)
    match traits.calls:
      case "function":
        return frame.call(_function(attrs["f"]), inputs)
      case "if":
        return self._conditional(frame, inputs)
      case "while":
        return self._loop(frame, inputs)
    if op in frame.evaluator.planner.library:
      return frame.call(FunctionRef(op), inputs)
    if traits.decided_by is not None and any(_is_scalar(value, traits.decided_by) for value in inputs):
      return [np.bool_(traits.decided_by)]
    if traits.reads_shapes:
      can_run = all(getattr(value, "shape", None) is not None for value in inputs)
    else:
      can_run = step.kernel.is_pure and all(map(is_known, inputs))
    if not can_run:
      return [_UNKNOWN] * len(step.outputs)
    return [
      value if is_known(value) and np.size(value) <= _MAX_ELEMENTS else _UNKNOWN
      for value in run_on_known(step, frame, inputs)
    ]

  def _conditional(self, frame: "Frame", inputs: Sequence[Value]) -> Sequence[Value]:
    condition, *args = inputs
    step = frame.step
    if isinstance(condition, _Unknown) or np.ndim(condition):
      return [_UNKNOWN] * len(step.outputs)
    return frame.call(_function(step.node.attrs["then_branch" if condition != 0 else "else_branch"]), args)

  def _loop(self, frame: "Frame", inputs: Sequence[Value]) -> Sequence[Value]:
    step = frame.step
    cond, body = (_function(step.node.attrs[name]) for name in ("cond", "body"))
    states = _Loop(frame.evaluator, frame.path, cond, body).walk(self, inputs)
    (self.uncounted if states is None else self.counted).add(step.node.name)
    return [_UNKNOWN] * len(step.outputs) if states is None else states[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class _Unknown:
  """A value that depends on traced data; of a known shape if it is a loop variable."""

  shape: tuple[Any, ...] | None = None
  dtype: Any = None


_UNKNOWN = _Unknown()


class _Loop:
  """The condition and the body of a loop, ready to be walked."""

  def __init__(self, evaluator: "Evaluator", path: str, cond: FunctionRef, body: FunctionRef) -> None:
    self.cond: Plan = evaluator.planner.plan(cond.name)
    self.body: Plan = evaluator.planner.plan(body.name)
    self._in_cond = evaluator.enter(cond.name, path)
    self._in_body = evaluator.enter(body.name, path)

  def walk(
    self, policy: KnownOnly, start: Sequence[Value], unless_false: int | None = None
  ) -> list[Sequence[Value]] | None:
    """Returns the loop variables before each iteration and after the last one.

    Args:
      policy: runs the steps.
      start: loop variables before the loop.
      unless_false: an unknown condition counts as true, up to that many iterations; None if the result should be None
        as soon as the condition is unknown.
    """
    limit = _MAX_ITERATIONS if unless_false is None else unless_false
    in_cond = dataclasses.replace(self._in_cond, policy=policy)
    in_body = dataclasses.replace(self._in_body, policy=policy)
    states: list[Sequence[Value]] = [list(start)]
    while True:
      (truth,) = in_cond.run(self.cond, states[-1])
      if isinstance(truth, _Unknown):
        if unless_false is None:
          return None
      elif not (truth != 0 if np.ndim(truth) == 0 else np.size(truth) > 0):
        return states
      if len(states) > limit:
        return None
      results = in_body.run(self.body, states[-1])
      # A loop variable keeps its shape, even if its value is not known.
      states.append(
        [s if isinstance(r, _Unknown) and isinstance(s, _Unknown) else r for r, s in zip(results, start, strict=True)]
      )

  def run_once(self, policy: KnownOnly, variables: Sequence[Value]) -> None:
    """Runs the body once."""
    dataclasses.replace(self._in_body, policy=policy).run(self.body, variables)


def _count(loop: _Loop, start: Sequence[Value]) -> CountedLoop | None:
  """Returns the iterations, or None if the condition depends on traced data or state, or the loop is too long."""
  policy = KnownOnly()
  walked = loop.walk(policy, start)
  if walked is None:
    return None
  *states, final = walked
  through = loop.body.passes_through
  changed = [i for i in range(len(start)) if through[i] != i]
  moving = [i for i in changed if all(_is_counter(state[i], final[i]) for state in walked)]
  counters = {
    i: np.stack([np.asarray(state[i]) for state in states]) if states else np.asarray(final[i])[None][:0]
    for i in moving
  }
  unroll = len(states) <= _MAX_UNROLLED and _inner_loops_depend_on(moving, loop, states, policy)
  return CountedLoop(len(states), counters, {i: final[i] for i in moving}, unroll)


def _inner_loops_depend_on(
  counters: Sequence[int], loop: _Loop, states: Sequence[Sequence[Value]], policy: KnownOnly
) -> bool:
  """Returns whether the iterations of some inner loop are known only as long as the counters of this loop are."""
  if not (policy.counted and states):
    return False
  blind = KnownOnly()
  loop.run_once(blind, [_Unknown(np.shape(v), v.dtype) if i in counters else v for i, v in enumerate(states[0])])
  return bool(blind.uncounted & policy.counted)


def _bound(loop: _Loop, start: Sequence[Value]) -> int | None:
  """Returns a number of iterations after which the known part of the condition is false, or None."""
  walked = loop.walk(KnownOnly(), start, unless_false=_MAX_BOUND)
  return None if walked is None else len(walked) - 1


def _function(value: Any) -> FunctionRef:
  # Any: an attribute's value, which validation has found to be a function.
  assert isinstance(value, FunctionRef), f"internal: {value!r} is not a function."
  return value


def _is_scalar(value: Value, number: bool) -> bool:
  return is_known(value) and np.ndim(value) == 0 and bool(value == number)


def _as_known(value: Value) -> Value:
  if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.size <= _MAX_ELEMENTS:
    return np.asarray(value)
  if is_known(value) and np.size(value) <= _MAX_ELEMENTS:
    return value
  return _Unknown(getattr(value, "shape", None), getattr(value, "dtype", None))


def _is_counter(value: Value, final: Value) -> bool:
  return is_known(value) and is_known(final) and value.shape == final.shape and value.dtype == final.dtype
