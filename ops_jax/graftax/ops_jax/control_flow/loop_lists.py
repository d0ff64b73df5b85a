"""Tensor lists and optionals as loop variables, which need one structure for all iterations.

TensorFlow's lists may grow in a loop, but JAX's loop variables keep their structure. Before a loop, the body is
evaluated abstractly, to find the contents of lists and optionals after an iteration and the lists that change length.
Those get a buffer large enough for the whole loop and a traced length. After the loop the length is known again.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import CountedLoop
from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.variants.structures import (
  Constant,
  OneOf,
  Structure,
  chosen,
  conformed,
  is_variant,
  joined,
  joined_elements,
  shapes_of,
  with_element,
)
from graftax.ops_jax.variants.tensor_array_gradient import FlowGradient
from graftax.ops_jax.variants.tensor_list_value import Size, TensorList, larger

__all__ = ["LoopLists", "fit_lists"]

# Each pass determines at least one of the structures that depend on one another; real loops need one or two passes.
_MAX_PASSES = 8

# `(loop variables, values of counters by position) -> loop variables`.
AbstractBody = Callable[[Sequence[Value], Mapping[int, Value]], Sequence[Value]]


@dataclasses.dataclass(frozen=True, slots=True)
class LoopLists:
  """Loop variables in a form for `jax.lax`, with the lengths of lists after the loop.

  Attributes:
    values: the loop variables.
    final_lengths: maps positions of lists that change length to the length after the loop; None if it stays traced.
  """

  values: list[Value]
  final_lengths: dict[int, Size | None]

  def conformed(self, results: Sequence[Value]) -> list[Value]:
    """Returns the results of an iteration in the layout of the loop variables."""
    return [
      conformed(result, shapes_of(value)) if is_variant(value) else result
      for result, value in zip(results, self.values, strict=True)
    ]

  def overflow(self, values: Sequence[Value]) -> Value:
    """Returns whether a list was written beyond its buffer, which makes the loop variables invalid."""
    lists = [values[position] for position, length in self.final_lengths.items() if length is None]
    exceeded: Value = np.bool_(False)
    for tensor_list in lists:
      exceeded = exceeded | (tensor_list.length > jnp.asarray(tensor_list.capacity, np.int32))
    return exceeded

  def restore(self, values: Sequence[Value]) -> list[Value]:
    """Returns the loop variables after the loop, with the known lengths restored."""
    restored = list(values)
    for position, length in self.final_lengths.items():
      restored[position] = dataclasses.replace(values[position], has_room=False)
      if length is not None:
        restored[position] = restored[position].with_length(length)
    return restored


def fit_lists(
  values: Sequence[Value],
  body: AbstractBody,
  counted: CountedLoop | None,
  bound: int | None,
  what: str,
  *,
  has_arrays: bool = False,
) -> LoopLists:
  """Returns loop variables whose tensor lists and optionals keep one structure through all iterations.

  Args:
    values: initial loop variables.
    body: one iteration, for abstract evaluation.
    counted: the iterations, or None if their number depends on traced data.
    bound: a bound for the trip count, or None.
    what: description of the loop, for messages.
    has_arrays: whether the body uses TensorArrays, so that a number may become a gradient of one.

  Raises:
    StaticInputError: a list grows by an amount that is not known while tracing.
    InvalidInputError: elements pushed to one list have different shapes.
  """
  if not (any(map(is_variant, values)) or has_arrays):
    return LoopLists(list(values), {})
  counters, num_iterations = (counted.columns(), counted.num_iterations) if counted else ({}, None)
  fitted = _settled(list(values), body, counters)
  # Counters are traced here as in the loop, so changes of lengths are found if they do not depend on data.
  sized = [_being_sized(value) for value in fitted]
  afters = _abstract(sized, body, counters, {})
  grows = [i for i, (v, a) in enumerate(zip(sized, afters, strict=True)) if _changes_length(v, a)]
  if not grows:
    return LoopLists(fitted, {})
  seconds = _abstract([_at_length_of(v, a) for v, a in zip(sized, afters, strict=True)], body, counters, {})
  samples: list[list[Value]] = []
  if counted is not None and not counted.is_symbolic and any(afters[i].is_written_beyond for i in grows):
    numbers = sorted({0, counted.num_iterations // 2, counted.num_iterations - 1})
    samples = [_abstract(fitted, body, counters, counted.known(n)) for n in numbers]
  final_lengths: dict[int, Size | None] = {}
  for position in grows:
    change = _Change(
      sized[position],
      afters[position],
      seconds[position],
      tuple(sample[position] for sample in samples),
      f"{what}: loop variable {position}",
    )
    capacity, final_lengths[position] = _growth(change, num_iterations, bound)
    fitted[position] = _with_room(fitted[position], capacity)
  if _holds_constants(fitted):
    # An element that was the length of a growing list was known until that list got a traced length.
    fitted = _settled(fitted, body, counters)
  return LoopLists(fitted, final_lengths)


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
  """The effect of one iteration on a list, starting from its initial length.

  Attributes:
    before: the list before the loop.
    after: the list after one iteration.
    second: the list after another one.
    samples: for a list that is written by index: after one iteration with the counters of the first, the middle and the
      last iteration.
    what: description of the list, for messages.
  """

  before: TensorList
  after: TensorList
  second: TensorList
  samples: tuple[TensorList, ...]
  what: str


def _being_sized(value: Value) -> Value:
  return dataclasses.replace(value, has_room=None) if isinstance(value, TensorList) else value


def _changes_length(before: Value, after: Value) -> bool:
  if not isinstance(before, TensorList):
    return False
  if before.has_static_length:
    return bool(after.length is not before.length and after.length != before.length)
  return after.capacity != before.capacity


def _at_length_of(value: Value, after: Value) -> Value:
  if not isinstance(value, TensorList):
    return value
  if after.has_static_length:
    return value.with_length(after.length)
  return dataclasses.replace(value.with_capacity(after.capacity), length=jnp.asarray(value.length, np.int32))


def _settled(values: list[Value], body: AbstractBody, counters: Mapping[int, Array]) -> list[Value]:
  """Returns loop variables whose lists and optionals have a structure for all values that an iteration stores."""
  for _ in range(_MAX_PASSES):
    # Lengths are determined later, so lists that are too short do not raise here.
    roomy = [dataclasses.replace(v, has_room=True) if isinstance(v, TensorList) else v for v in values]
    after = _abstract(roomy, body, counters, {})
    following = [
      _settled_value(value, result) if is_variant(value) or is_variant(result) else value
      for value, result in zip(values, after, strict=True)
    ]
    if _outline(following) == _outline(values):
      break
    values = following
  return values


def _settled_value(value: Value, after: Structure) -> Value:
  if isinstance(value, OneOf) and not isinstance(after, OneOf):
    return chosen(value, after)
  if not isinstance(value, TensorList) or isinstance(after, FlowGradient):
    return conformed(value, joined(shapes_of(value), after))
  if after.buffer is None:
    return value
  is_new = value.buffer is None or value.capacity == 0
  return with_element(value, after.element if is_new else joined_elements(value.element, after.element))


def _holds_constants(values: Sequence[Value]) -> bool:
  leaves = jax.tree.leaves(list(values), is_leaf=lambda value: isinstance(value, Constant))
  return any(isinstance(leaf, Constant) for leaf in leaves)


def _outline(values: Sequence[Value]) -> Any:
  return jax.tree.structure(values), [(np.shape(leaf), leaf.dtype) for leaf in jax.tree.leaves(values)]


def _abstract(
  values: list[Value], body: AbstractBody, counters: Mapping[int, Array], known: Mapping[int, Value]
) -> list[Value]:
  """Returns the loop variables after one iteration; tensor lists keep the notes that a pytree round trip drops."""
  notes: list[dict[str, Any]] = []

  def run(operands: list[Value], traced: Mapping[int, Value]) -> list[Value]:
    results = list(body(operands, {**traced, **known}))
    notes.extend(value.notes if isinstance(value, TensorList) else {} for value in results)
    return results

  traced = {i: _first(column) for i, column in counters.items() if i not in known}
  results = jax.eval_shape(run, values, traced)
  return [
    dataclasses.replace(value, **noted) if isinstance(value, TensorList) else value
    for value, noted in zip(results, notes, strict=True)
  ]


def _first(column: Array) -> Array | jax.ShapeDtypeStruct:
  """Returns the first value of a counter for abstract evaluation, without an operation if it is traced."""
  return column[0] if isinstance(column, np.ndarray) else jax.ShapeDtypeStruct(column.shape[1:], column.dtype)


def _growth(change: _Change, num_iterations: int | None, bound: int | None) -> tuple[Size, Size | None]:
  """Returns the capacity that the whole loop needs, and the length afterwards."""
  before, after = change.before, change.after
  most = bound if num_iterations is None else num_iterations
  if after.is_written_beyond:
    return _growth_by_index(change, most)
  if not (before.has_static_length and after.has_static_length):
    return _growth_of_capacity(change, most), None
  start, step, overshoot = before.length, after.length - before.length, after.peak - before.length
  if step < 0:
    final = None if num_iterations is None else larger(start + step * num_iterations, 0)
    return start + overshoot, final
  if before.max_length is not None and num_iterations is None:
    return before.max_length, None
  if most is None:
    raise StaticInputError(_unbounded(change.what))
  if change.second.static_length(change.what) != after.length + step:
    raise StaticInputError(_uneven(change.what))
  final = start + step * most
  return larger(start + step * (most - 1) + overshoot, final), None if num_iterations is None else final


def _growth_by_index(change: _Change, most: int | None) -> tuple[Size, Size | None]:
  before = change.before
  if change.samples:
    # The iteration that writes furthest determines the length.
    lengths = [sample.static_length(change.what) for sample in change.samples]
    final = functools.reduce(larger, lengths, before.static_length(change.what))
    return functools.reduce(larger, (sample.peak for sample in change.samples), final), final
  return _growth_of_capacity(change, most), None


def _growth_of_capacity(change: _Change, most: int | None) -> Size:
  """Returns the capacity that the loop needs for a list, if traced data decides whether an iteration pushes to it.

  A list that is written by index gets room for as many elements as there are writes; see `LoopLists.overflow`.
  """
  before = change.before
  step = change.after.capacity - before.capacity
  if before.max_length is not None:
    return larger(before.max_length, change.after.capacity)
  if step > 0 and most is None:
    raise StaticInputError(_unbounded(change.what))
  if step > 0 and change.second.capacity - change.after.capacity > step:
    raise StaticInputError(_uneven(change.what))
  return before.capacity + step * (most or 0)


def _unbounded(what: str) -> str:
  return (
    f"{what}: a tensor list grows in a loop whose number of iterations is not known while tracing; the logger "
    f"'graftax.loops' says why. Give the list a bound (max_num_elements), give it its final size before the loop, make "
    f"the number of iterations known, or bound it with the option max_while_iterations."
  )


def _uneven(what: str) -> str:
  return (
    f"{what}: a tensor list grows in a loop by a number of elements that is not the same in each iteration. Give the "
    f"list a bound (max_num_elements), or its final size before the loop."
  )


def _with_room(value: TensorList, capacity: Size) -> TensorList:
  length = jnp.asarray(value.length, np.int32)
  return dataclasses.replace(value.with_capacity(larger(capacity, value.capacity)), length=length, has_room=True)
