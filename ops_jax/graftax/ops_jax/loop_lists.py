"""Tensor lists as loop variables: JAX wants one shape for all iterations, TensorFlow's lists grow.

Before a loop, the body is evaluated abstractly to see which lists get their element shape inside it and which change
length. Those get a buffer large enough for the whole loop and a traced length; afterwards the length is known again.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax.errors import StaticInputError
from graftax.ops_jax.tensor_list_value import TensorList
from graftax.ops_jax.values import Value

__all__ = ["LoopLists", "fit_lists"]

# Element shapes that depend on one another settle one per pass; real loops need one or two.
_MAX_PASSES = 8

# `(loop variables, iteration or None) -> loop variables`; with a number, counters have that iteration's known values.
AbstractBody = Callable[[Sequence[Value], int | None], Sequence[Value]]


@dataclasses.dataclass(frozen=True, slots=True)
class LoopLists:
  """Loop variables ready for `jax.lax`, and how to read the lists afterwards.

  Attributes:
    values: the loop variables.
    final_lengths: position -> length after the loop, for lists that change length; None where it stays traced.
  """

  values: list[Value]
  final_lengths: dict[int, int | None]

  def restore(self, values: Sequence[Value]) -> list[Value]:
    """Loop variables after the loop, with known lengths back in place."""
    restored = list(values)
    for position, length in self.final_lengths.items():
      if length is not None:
        restored[position] = dataclasses.replace(values[position], length=length).with_length(length)
    return restored


def fit_lists(values: Sequence[Value], body: AbstractBody, num_iterations: int | None, what: str) -> LoopLists:
  """Loop variables whose tensor lists keep one shape through all iterations.

  Args:
    values: initial loop variables.
    body: one iteration, for abstract evaluation.
    num_iterations: the trip count, or None where it depends on traced data.
    what: the loop, for messages.

  Raises:
    StaticInputError: a list grows by an amount that is not known while tracing.
  """
  if not any(isinstance(value, TensorList) for value in values):
    return LoopLists(list(values), {})
  fitted = _with_element_shapes(list(values), body, num_iterations)
  numbers = [None] if num_iterations is None else sorted({0, num_iterations // 2, num_iterations - 1})
  afters = [_abstract(fitted, body, number) for number in numbers]
  grows = [
    position
    for position, value in enumerate(fitted)
    if isinstance(value, TensorList)
    and value.has_static_length
    and any(after[position].length != value.length for after in afters)
  ]
  if not grows:
    return LoopLists(fitted, {})
  # A second iteration tells a list that is pushed to from one that is written at an index.
  seconds = _abstract([_at_length_of(v, a) for v, a in zip(fitted, afters[0], strict=True)], body, numbers[0])
  final_lengths: dict[int, int | None] = {}
  for position in grows:
    change = _Change(
      fitted[position],
      tuple(after[position] for after in afters),
      seconds[position],
      f"{what}: loop variable {position}",
    )
    capacity, final_lengths[position] = _growth(change, num_iterations)
    fitted[position] = _with_capacity(fitted[position], capacity)
  return LoopLists(fitted, final_lengths)


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
  """What one iteration does to a list, starting from its initial length.

  Attributes:
    before: the list before the loop.
    afters: the list after one iteration, with the counters of the first, the middle and the last iteration.
    second: the list after a second iteration with the counters of the first.
    what: the list, for messages.
  """

  before: TensorList
  afters: tuple[TensorList, ...]
  second: TensorList
  what: str


def _at_length_of(value: Value, after: Value) -> Value:
  if isinstance(value, TensorList) and isinstance(after.length, int):
    return value.with_length(after.length)
  return value


def _with_element_shapes(values: list[Value], body: AbstractBody, num_iterations: int | None) -> list[Value]:
  for _ in range(_MAX_PASSES):
    after = _abstract(values, body, None if num_iterations is None else 0)
    changed = False
    for position, value in enumerate(values):
      if isinstance(value, TensorList) and value.buffer is None and after[position].buffer is not None:
        values[position] = value.allocated(tuple(after[position].buffer.shape[1:]))
        changed = True
    if not changed:
      break
  return values


def _abstract(values: list[Value], body: AbstractBody, number: int | None) -> list[Value]:
  """Loop variables after one iteration; tensor lists keep their peak, which a pytree round trip would drop."""
  peaks: list[int] = []

  def run(operands: list[Value]) -> list[Value]:
    results = list(body(operands, number))
    peaks.extend(value.peak if isinstance(value, TensorList) else 0 for value in results)
    return results

  results = jax.eval_shape(run, values)
  return [
    dataclasses.replace(value, peak=peak) if isinstance(value, TensorList) else value
    for value, peak in zip(results, peaks, strict=True)
  ]


def _growth(change: _Change, num_iterations: int | None) -> tuple[int, int | None]:
  """Capacity that the whole loop needs, and the length afterwards."""
  before = change.before
  start = before.static_length(change.what)
  if num_iterations is None:
    if before.max_length is None:
      raise StaticInputError(
        f"{change.what}: a tensor list grows in a loop whose trip count depends on traced data. Give the list a bound "
        f"(max_num_elements), give it its final size before the loop, or make the trip count known while tracing."
      )
    return before.max_length, None
  lengths = [after.static_length(change.what) for after in change.afters]
  overshoot = max(after.peak for after in change.afters) - start
  step = lengths[0] - start
  if len(set(lengths)) == 1 and change.second.static_length(change.what) == lengths[0] + step:
    # Every iteration pushes, or pops, as many.
    final = start + step * num_iterations
    return max(start + overshoot, start + step * (num_iterations - 1) + overshoot, final), max(final, 0)
  # Written by index: the iteration that writes furthest decides.
  final = max(start, *lengths)
  return max(final, start + overshoot), final


def _with_capacity(value: TensorList, capacity: int) -> TensorList:
  length = value.static_length("loop")
  return dataclasses.replace(value.with_length(max(capacity, length)), length=jnp.asarray(np.int32(length)))
