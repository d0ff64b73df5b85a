"""Finds the iterations of a `While` loop before it runs, or at least a bound for them.

The loop is walked with the policy `KnownOnly`, which runs the steps whose inputs are known and skips the others. So
the walk costs little more than running the loop's counter. If the condition is known in every iteration, the walk ends
with the values of the counters in each of them.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from graftax.convert.planning.plan import Plan
from graftax.graphdef_ir import (
  Budget,
  FunctionRef,
  GraphError,
  LimitExceededError,
  OpTraits,
  traits_of,
)
from graftax.ops_jax import KNOWN_SIZE_LIMIT, CountedLoop, LoopLength, Value, is_known, is_symbolic

if TYPE_CHECKING:
  from graftax.convert.evaluation.evaluate import Evaluator
  from graftax.convert.evaluation.frame import Frame

__all__ = ["KnownOnly", "PlannedLoop", "Unknown", "as_known", "walk_loop"]

# Beyond this, walking the counter in Python costs more than a loop of unknown length does. Lifting StableHLO
# allows fewer iterations (`patterns/trip_count.py`), since it counts the common loop in closed form.
_MAX_ITERATIONS = 50_000

# The known loop variables of all iterations together have at most this size.
_MAX_STATE_BYTES = 1 << 28

# So many steps are skipped in the time in which one runs.
_SKIPPED_STEPS = 8

# A declared bound above this is ignored: the loop would become a scan of that many steps, most of which do nothing.
_MAX_BOUND = 10_000


def walk_loop(loop: "PlannedLoop", args: Sequence[Value]) -> LoopLength:
  """Returns what is known of the length of a loop with the loop variables `args` before it, if that is a number."""
  policy = KnownOnly()
  use = _use_of_bound(loop.cond, loop.body, args)
  start = [Unknown(np.shape(x)) if is_symbolic(x) else as_known(x) for x in args]
  walk = _walk(loop, policy, start, skip_unknown=use is not None)
  if not walk.is_known:
    reason = "its condition depends on traced data or on a variable"
    bound = len(walk.states) - 1 if walk.is_finished else None
    return LoopLength(bound=bound if use == "length" else None, room=bound, reason=reason)
  if not walk.is_finished:
    is_long = len(walk.states) > _MAX_ITERATIONS
    reason = (
      f"it has more than {_MAX_ITERATIONS:,} iterations"
      if is_long
      else "its condition depends on a size that changes, or its counters are large"
    )
    return LoopLength(reason=reason)
  return LoopLength(_counted(loop, walk.states, policy))


def _use_of_bound(cond: Plan, body: Plan, args: Sequence[Value]) -> Literal["length", "room"] | None:
  """Returns what the known part of a condition limits: the length of the loop, only the room in its lists, or nothing.

  TensorFlow writes `maximum_iterations` into the condition, as `counter < maximum and condition`. AutoGraph writes a
  `break` as a condition that is computed in branches. Decoders note which rows are finished, as `finished or step >=
  most`, and end when all are.
  """
  if any(traits_of(step.node.op).decided_by is False for step in cond.steps):
    return "length"
  may_break = any(traits_of(step.node.op).calls == "if" for step in cond.steps)
  may_break |= any(traits_of(step.node.op).decided_by is True for step in body.steps)
  # Lists are pytrees, arrays are leaves.
  return "room" if may_break and not jax.tree_util.all_leaves(args) else None


class KnownOnly:
  """Runs the steps whose inputs are known; every other value is `Unknown`.

  Attributes:
    counted: names of the inner loops whose iterations were known every time.
    uncounted: names of the inner loops whose iterations were unknown at least once.
    assumes_shapes: whether a value was computed from the shape of a loop variable that the body replaces. That shape
      is assumed to stay the same, which only running the loop confirms.
  """

  names_scopes = False

  def __init__(self) -> None:
    self.counted: set[str] = set()
    self.uncounted: set[str] = set()
    self.assumes_shapes = False

  def spend_steps(self, num_steps: int, budget: Budget, function: str) -> None:
    """Counts the call and its steps, most of which are skipped; beyond the limit, the loop is not counted."""
    budget.spend_walk_steps(1 + num_steps // _SKIPPED_STEPS, f"function {function!r}")

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
    truth = _uniform_result(traits, inputs)
    if truth is not None:
      self.assumes_shapes |= is_known(truth) and _has_assumed_shape(inputs)
      return [truth]
    if traits.reads_shapes:
      can_run = all(getattr(value, "shape", None) is not None for value in inputs)
      self.assumes_shapes |= _has_assumed_shape(inputs)
    else:
      # Ops on lists get the context only for the names in their messages.
      can_run = (step.kernel.is_pure or op.startswith(_LISTS)) and all(map(_is_known_tree, inputs))
    if not can_run:
      return [_UNKNOWN] * len(step.outputs)
    frame.budget.spend_walk_steps(1, step.kernel.where)
    try:
      return [_as_counter(value) for value in step.kernel.run(frame, inputs)]
    except Exception as e:
      # JAX makes arrays of symbolic sizes only while it traces a function, and some lowerings need numbers; they raise
      # various errors. A walk beyond the end of a loop reads beyond the end of lists. The step runs again in the loop
      # itself, where an error is the user's.
      if isinstance(e, LimitExceededError) or not (any(map(is_symbolic, inputs)) or op.startswith(_LISTS)):
        raise
      return [_UNKNOWN] * len(step.outputs)

  def _conditional(self, frame: "Frame", inputs: Sequence[Value]) -> Sequence[Value]:
    condition, *args = inputs
    step = frame.step
    if isinstance(condition, Unknown) or is_symbolic(condition) or np.ndim(condition):
      return [_UNKNOWN] * len(step.outputs)
    return frame.call(_function(step.node.attrs["then_branch" if condition != 0 else "else_branch"]), args)

  def _loop(self, frame: "Frame", inputs: Sequence[Value]) -> Sequence[Value]:
    step = frame.step
    cond, body = (_function(step.node.attrs[name]) for name in ("cond", "body"))
    assumed_before, self.assumes_shapes = self.assumes_shapes, False
    walk = _walk(PlannedLoop(frame.evaluator, frame.path, cond, body), self, inputs, skip_unknown=False)
    is_counted = walk.is_finished and not self.assumes_shapes
    self.assumes_shapes = assumed_before
    (self.counted if is_counted else self.uncounted).add(step.node.name)
    return walk.states[-1] if is_counted else [_UNKNOWN] * len(step.outputs)


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
  """A value that depends on traced data.

  Attributes:
    shape: its shape if it is a loop variable, else None.
    dtype: its dtype if it is a loop variable, else None.
    is_assumed: whether the shape is the one before the loop, of a variable that the body has replaced since.
    truth: what all its elements are, if that is known of a boolean array whose shape is not.
  """

  shape: tuple[Any, ...] | None = None
  dtype: Any = None
  is_assumed: bool = False
  truth: bool | None = None


_UNKNOWN = Unknown()

_LISTS = "TensorList"


class PlannedLoop:
  """The condition and the body of a loop, ready to be walked."""

  def __init__(self, evaluator: "Evaluator", path: str, cond: FunctionRef, body: FunctionRef) -> None:
    self.cond: Plan = evaluator.planner.plan(cond.name)
    self.body: Plan = evaluator.planner.plan(body.name)
    self.acts = any(map(evaluator.planner.effects.function_acts, (cond.name, body.name)))
    self._in_cond = evaluator.enter(cond.name, path)
    self._in_body = evaluator.enter(body.name, path)

  @functools.cached_property
  def deciding(self) -> frozenset[int]:
    """The positions of the loop variables that the condition depends on, in this iteration or a later one."""
    found = self.cond.parameters_of([0])
    while (more := found | self.body.parameters_of(found)) != found:
      found = more
    return found

  def iterations(self, policy: KnownOnly, start: Sequence[Value]) -> Iterator[tuple[Sequence[Value], bool | None]]:
    """Yields the loop variables before each iteration, and whether the condition holds for them; None if unknown.

    Ends with the first condition that is false.
    """
    in_cond = dataclasses.replace(self._in_cond, policy=policy)
    in_body = dataclasses.replace(self._in_body, policy=policy)
    variables: Sequence[Value] = list(start)
    assumed = [dataclasses.replace(s, is_assumed=True) if isinstance(s, Unknown) else s for s in start]
    while True:
      (truth,) = in_cond.run(self.cond, variables)
      holds = _as_bool(truth)
      yield variables, holds
      if holds is False:
        return
      results = in_body.run(self.body, variables)
      # Most loop variables keep their shape, even if their value is not known.
      variables = [
        dataclasses.replace(a, truth=r.truth) if _is_shapeless(r) and isinstance(a, Unknown) else r
        for r, a in zip(results, assumed, strict=True)
      ]

  def is_stuck(self, before: Sequence[Value], after: Sequence[Value]) -> bool:
    """Returns whether no known value changed that the condition depends on, so that it will not change either."""
    pairs = [(before[i], after[i]) for i in self.deciding]
    return all(x is y or _are_unknown(x, y) or _are_equal(x, y) for x, y in pairs)

  def run_body(self, policy: KnownOnly, variables: Sequence[Value]) -> Sequence[Value]:
    """Returns the loop variables after one iteration."""
    return dataclasses.replace(self._in_body, policy=policy).run(self.body, variables)

  def run_condition(self, policy: KnownOnly, variables: Sequence[Value]) -> Value:
    """Returns the result of the condition."""
    (truth,) = dataclasses.replace(self._in_cond, policy=policy).run(self.cond, variables)
    return truth


@dataclasses.dataclass(frozen=True, slots=True)
class _Walk:
  """A loop that was walked.

  Attributes:
    states: the loop variables before each iteration and, if the loop was walked to its end, after the last one.
    is_known: whether the condition was known each time. If the walk is finished, too, the loop has exactly these
      iterations.
    is_finished: whether the condition was false at the end. If not, there are too many iterations, or no known value
      changes any more.
  """

  states: list[Sequence[Value]]
  is_known: bool
  is_finished: bool


def _walk(loop: PlannedLoop, policy: KnownOnly, start: Sequence[Value], *, skip_unknown: bool) -> _Walk:
  """Walks a loop until its condition is false or unknown, no known value changes, or there are too many iterations.

  Args:
    loop: the loop.
    policy: runs the steps.
    start: loop variables before the loop.
    skip_unknown: whether to walk on if the condition is unknown, as if it were true.
  """
  states: list[Sequence[Value]] = []
  is_known, num_bytes = True, 0
  for variables, holds in loop.iterations(policy, start):
    states.append(variables)
    is_known = is_known and holds is not None
    if holds is False:
      return _Walk(states, is_known, is_finished=True)
    num_bytes += _known_bytes(variables)
    is_too_long = len(states) > (_MAX_ITERATIONS if is_known else _MAX_BOUND) or num_bytes > _MAX_STATE_BYTES
    if is_too_long or not (is_known or skip_unknown) or (len(states) > 1 and loop.is_stuck(*states[-2:])):
      return _Walk(states, is_known, is_finished=False)
  raise AssertionError("internal: a loop ended although its condition holds.")


def _counted(loop: PlannedLoop, walked: Sequence[Sequence[Value]], policy: KnownOnly) -> CountedLoop:
  """Returns the iterations of a loop that was walked with `policy`, and the counters among its variables."""
  *states, final = walked
  through = loop.body.passes_through
  changed = [i for i in range(len(final)) if through[i] != i]
  moving = [i for i in changed if all(_is_counter(state[i], final[i]) for state in walked)]
  counters = {
    i: np.stack([np.asarray(state[i]) for state in states]) if states else np.asarray(final[i])[None][:0]
    for i in moving
  }
  unroll = len(states) <= CountedLoop.MAX_UNROLLED and _inner_loops_depend_on(moving, loop, states, policy)
  results = {i: final[i] for i in changed}
  # A loop with effects, such as an assertion about traced values, has to run.
  can_skip = len(moving) < len(changed) and not policy.assumes_shapes and not loop.acts
  are_known = can_skip and all(map(_is_known_tree, results.values()))
  # Lists are not counters, but one of integers may hold sizes for what comes after the loop.
  known_final = {i: x for i, x in results.items() if i in moving or (_is_known_tree(x) and not policy.assumes_shapes)}
  return CountedLoop(len(states), counters, known_final, unroll, results if are_known else None)


def _inner_loops_depend_on(
  counters: Sequence[int], loop: PlannedLoop, states: Sequence[Sequence[Value]], policy: KnownOnly
) -> bool:
  """Returns whether the iterations of an inner loop are known only if the counters of this loop are known."""
  if not (policy.counted and states):
    return False
  without_counters = KnownOnly()
  loop.run_body(
    without_counters, [Unknown(np.shape(v), v.dtype) if i in counters else v for i, v in enumerate(states[0])]
  )
  return bool(without_counters.uncounted & policy.counted)


def _as_counter(value: Value) -> Value:
  """Returns a result that is known and small as a known value, any other as unknown."""
  if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.size <= KNOWN_SIZE_LIMIT:
    return np.asarray(value)
  return value if _is_small_and_known(value) else _UNKNOWN


def _is_known_tree(value: Value) -> bool:
  """Returns whether a value, or each array of a tensor list, is known."""
  return all(map(is_known, jax.tree.leaves(value)))


def _is_small_and_known(value: Value) -> bool:
  return _is_known_tree(value) and sum(map(np.size, jax.tree.leaves(value))) <= KNOWN_SIZE_LIMIT


def _known_bytes(variables: Sequence[Value]) -> int:
  return sum(leaf.nbytes for leaf in jax.tree.leaves(list(variables)) if is_known(leaf))


def _are_unknown(x: Value, y: Value) -> bool:
  return not is_known(x) and not is_known(y) and _truth_of(x) == _truth_of(y)


def _are_equal(x: Value, y: Value) -> bool:
  return is_known(x) and is_known(y) and np.array_equal(x, y)


def _function(value: object) -> FunctionRef:
  # Any: an attribute's value. Validation has found it to be a function, unless a pass has made the node.
  if not isinstance(value, FunctionRef):
    raise GraphError(f"a node calls {value!r}; expected a function.")
  return value


def _as_bool(truth: Value) -> bool | None:
  if isinstance(truth, Unknown):
    return truth.truth
  if is_symbolic(truth):
    return None
  return bool(truth != 0 if np.ndim(truth) == 0 else np.size(truth) > 0)


def _is_shapeless(value: Value) -> bool:
  return isinstance(value, Unknown) and value.shape is None


def _has_assumed_shape(values: Sequence[Value]) -> bool:
  return any(isinstance(value, Unknown) and value.is_assumed for value in values)


def _uniform_result(traits: OpTraits, inputs: Sequence[Value]) -> Value | None:
  """Returns the result of a logical op if what is known of the inputs says that all its elements are equal."""
  if traits.decided_by is not None and any(_truth_of(value) is traits.decided_by for value in inputs):
    return _uniform([getattr(value, "shape", None) for value in inputs], traits.decided_by)
  if traits.uniform and isinstance(inputs[0], Unknown) and inputs[0].truth is not None:
    truth = dict(traits.uniform).get(inputs[0].truth)
    return None if truth is None else Unknown(truth=truth)
  return None


def _truth_of(value: Value) -> bool | None:
  """Returns what all elements of a boolean array are, or None if they differ, are unknown, or there are none."""
  if isinstance(value, Unknown):
    return value.truth
  if not is_known(value) or value.dtype != np.bool_ or not np.size(value):
    return None
  first = bool(np.ravel(value)[0])
  return first if np.all(value == first) else None


def _uniform(shapes: Sequence[tuple[Any, ...] | None], truth: bool) -> Value:
  """Returns an array with one value everywhere, of the shape that operands are broadcast to."""
  if any(shape is None or not all(isinstance(size, int) for size in shape) for shape in shapes):
    return Unknown(truth=truth)
  try:
    shape = np.broadcast_shapes(*shapes)  # type: ignore[arg-type]  # none is None
  except ValueError:  # a shape that was assumed is not the one that the array has by now
    return Unknown(truth=truth)
  return np.full(shape, truth) if math.prod(shape) <= KNOWN_SIZE_LIMIT else Unknown(shape, np.dtype(bool), truth=truth)


def as_known(value: Value) -> Value:
  """Returns a small array outside of transforms as a known value, what is not known or large as unknown."""
  if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.size <= KNOWN_SIZE_LIMIT:
    return np.asarray(value)
  if _is_small_and_known(value):
    return value
  return Unknown(getattr(value, "shape", None), getattr(value, "dtype", None))


def _is_counter(value: Value, final: Value) -> bool:
  return is_known(value) and is_known(final) and value.shape == final.shape and value.dtype == final.dtype
