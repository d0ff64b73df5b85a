"""Finds the number of iterations of a `While` loop that counts up to a symbolic size, such as the length of a sequence.

`loop_walk` runs the counters of a loop, which needs numbers. Here the iteration is a symbol `n`: each counter is
`start + step * n`, which running the body once proves or refutes, and the condition gives the margins that are positive
as long as the loop goes on, such as `length - n`. So the loop is counted, and becomes a `scan` as with a number.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from graftax.convert.evaluation.loop_walk import KnownOnly, PlannedLoop, Unknown
from graftax.ops_jax import CountedLoop, Counter, InconclusiveError, Value, is_known, is_symbolic

if TYPE_CHECKING:
  from graftax.convert.evaluation.frame import Frame

__all__ = ["symbolic_loop"]

# op -> positions of the larger and the smaller operand, and what to add to their difference.
_COMPARISONS = {"Less": (1, 0, 0), "LessEqual": (1, 0, 1), "Greater": (0, 1, 0), "GreaterEqual": (0, 1, 1)}


def symbolic_loop(loop: PlannedLoop, args: Sequence[Value]) -> CountedLoop | None:
  """Returns the iterations of a loop if their number is an expression of symbolic sizes and at least 1, else None.

  Args:
    loop: the loop.
    args: loop variables before it, known or `Unknown`.
  """
  scope = next((d.scope for x in args if is_symbolic(x) for d in x.flat if jax.export.is_symbolic_dim(d)), None)
  if scope is None:
    return None
  # Symbolic sizes are at least 1, and the first iteration is 0.
  number = jax.export.symbolic_shape("graftax_iteration", scope=scope)[0] - 1
  counters = _counters(loop, args, number)
  margins, following = (_margins(loop, _at(args, counters, n)) for n in (number, number + 1))
  if not margins or not following or len(margins) != len(following):
    return None
  lengths = [_length(margin, after, number) for margin, after in zip(margins, following, strict=True)]
  known = [length for length in lengths if length is not None]
  length: int = functools.reduce(jax.core.min_dim, known, known[0]) if len(known) == len(lengths) else 0
  # `walk_loop` counts a number, and knows each value of the counters.
  if isinstance(length, int) or not _is_positive(length):
    return None
  moving = {i: counter for i, counter in counters.items() if loop.body.passes_through[i] != i}
  return CountedLoop(length, moving, {i: _scalar(c.at(length), c.dtype) for i, c in moving.items()})


def _counters(loop: PlannedLoop, args: Sequence[Value], number: int) -> Mapping[int, Counter]:
  """Returns the loop variables that are `start + step * n` before iteration `n`."""
  first = _after(loop, args)
  found = {}
  for i, (before, after) in enumerate(zip(args, first, strict=True)):
    step = _difference(after, before)
    # A symbolic size has no dtype, which a variable that moves needs.
    if isinstance(step, int) and not (step and is_symbolic(before)):
      found[i] = Counter(_size(before), step, before.dtype)
  # A variable may depend on one that is not a counter, so those that stay are checked again.
  while True:
    results = _after(loop, _at(args, found, number))
    wrong = [i for i, counter in found.items() if _difference(results[i], counter.at(number + 1)) != 0]
    if not wrong:
      return found
    found = {i: counter for i, counter in found.items() if i not in wrong}


def _at(args: Sequence[Value], counters: Mapping[int, Counter], number: int) -> list[Value]:
  """Returns the loop variables before iteration `number`, of which only the counters are known."""
  shapes = [Unknown(getattr(x, "shape", None), getattr(x, "dtype", None)) for x in args]
  return [
    _scalar(counters[i].at(number), counters[i].dtype) if i in counters else unknown for i, unknown in enumerate(shapes)
  ]


def _after(loop: PlannedLoop, variables: Sequence[Value]) -> Sequence[Value]:
  return loop.run_body(_Margins(), variables)


def _margins(loop: PlannedLoop, variables: Sequence[Value]) -> Sequence[int] | None:
  """Returns numbers that are all positive exactly if the condition holds; None if it has another form."""
  holds = loop.run_condition(_Margins(), variables)
  return holds.margins if isinstance(holds, _Positive) else None


def _length(margin: int, following: int, number: int) -> int | None:
  """Returns for how many iterations a margin is positive; None if it does not sink by the same number each time.

  Args:
    margin: in iteration `number`, a symbol.
    following: the margin one iteration later.
    number: the iteration.
  """
  step = margin - following
  if not isinstance(step, int) or step < 1:
    return None
  first = margin + step * number
  return jax.core.max_dim(0, -(-first // step))


def _is_positive(length: int) -> bool:
  """Returns whether a size is known to be at least 1, without which JAX does not lower a `scan`."""
  try:
    return length >= 1
  except InconclusiveError:
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class _Positive(Unknown):
  """A truth value that is true if all `margins` are positive."""

  margins: tuple[int, ...] = ()


class _Margins(KnownOnly):
  """Runs the arithmetic of counters, and keeps comparisons of symbolic sizes as margins."""

  def run_step(self, frame: "Frame", inputs: Sequence[Value]) -> Sequence[Value]:
    op = frame.step.node.op
    if op in _COMPARISONS and any(map(is_symbolic, inputs)):
      return [_compared(op, inputs)]
    if any(isinstance(x, _Positive) for x in inputs):
      return [_combined(op, inputs)] if len(frame.step.outputs) == 1 else super().run_step(frame, inputs)
    return super().run_step(frame, inputs)


def _compared(op: str, inputs: Sequence[Value]) -> Value:
  larger, smaller, offset = _COMPARISONS[op]
  margin = _difference(inputs[larger], inputs[smaller])
  return Unknown() if margin is None else _Positive(margins=(margin + offset,))


def _combined(op: str, inputs: Sequence[Value]) -> Value:
  """Returns the result of a logical op of truth values, at least one of which is `_Positive`."""
  neutral = {"Identity": None, "LogicalAnd": True, "LogicalOr": False}
  if op not in neutral:
    return Unknown()
  others = [x for x in inputs if not (is_known(x) and np.ndim(x) == 0 and bool(x) is neutral[op])]
  if len(others) == 1:
    return others[0]
  if op == "LogicalAnd" and all(isinstance(x, _Positive) for x in others):
    return _Positive(margins=tuple(margin for x in others for margin in x.margins))
  # What is known and not neutral decides the result.
  return np.bool_(not neutral[op]) if any(is_known(x) and np.ndim(x) == 0 for x in others) else Unknown()


def _is_integer(value: Value) -> bool:
  return np.ndim(value) == 0 and (is_symbolic(value) or np.issubdtype(value.dtype, np.integer))


def _size(value: Value) -> int:
  return value.item() if isinstance(value, np.ndarray) else int(value)


def _scalar(size: int, dtype: np.dtype) -> np.ndarray:
  return np.asarray(size, object if jax.export.is_symbolic_dim(size) else dtype)


def _difference(x: Value, y: Value | int) -> int | None:
  """Returns the difference of two known integers, or None if one is not known."""
  if not all(isinstance(v, int) or jax.export.is_symbolic_dim(v) or (is_known(v) and _is_integer(v)) for v in (x, y)):
    return None
  first, second = (_size(v) if is_known(v) else v for v in (x, y))
  return first - second
