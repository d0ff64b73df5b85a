"""Analyzes a `while` loop: its trip count, which carries are invariant, and which arrays are sliced or stacked.

The trip count is computed by evaluating the ops of the condition and the body that it depends on. Slices and updates
are recognized by the values of their indices, however these are computed.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.patterns.inlining import inline_small_calls
from graftax.xla_call_module.patterns.trip_count import (
  Counter,
  count_trips,
  evaluate_scalars,
  find_counters,
  known_captures,
  scalar_slice,
)

__all__ = ["LoopAnalysis", "Scanned", "Stacked", "read_loop"]


_INDEX_BYTES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Scanned:
  """A slice `x[i]` of an array that the loop does not change; value `number` holds it with shape `[1, ...]`."""

  number: int
  source: int
  shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Stacked:
  """A carry that the loop fills with one slice per trip; value `number` holds the slice with shape `[1, ...]`."""

  position: int
  number: int
  shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LoopAnalysis:
  """The analysis of a `while` loop.

  If `num_trips` is None, the trip count depends on traced data or was not requested. The loop then has no `scanned` and
  `stacked` entries, and its `body` is complete. Otherwise `body` has only the ops that are still needed.

  Attributes:
    num_trips: number of iterations, or None.
    invariant: positions of the carries that do not change.
    carried: positions of the carries that change and are still needed.
    scanned: slices that a scan provides.
    stacked: carries that a scan stacks.
    reverse: whether slices and stacks run from the last index to the first.
    body: the body of the loop.
    final: final values of the counters, by position.
  """

  num_trips: int | None
  invariant: frozenset[int]
  carried: tuple[int, ...]
  scanned: tuple[Scanned, ...]
  stacked: tuple[Stacked, ...]
  reverse: bool
  body: ir.Region
  final: Mapping[int, np.ndarray]


def read_loop(
  context: Context, cond: ir.Region, body: ir.Region, operands: Sequence[Any], outer: Mapping[int, Any]
) -> LoopAnalysis:
  """Analyzes a loop for given initial values; `outer` holds the values that the regions capture.

  With the option `loops="while"`, the trip count is always None.
  """
  body = inline_small_calls(context, body)
  invariant = frozenset(i for i, number in enumerate(body.args) if body.returns[i] == number)
  changing = tuple(i for i in range(len(body.args)) if i not in invariant)
  dynamic = LoopAnalysis(None, invariant, changing, (), (), False, body, {})
  if context.options.loops == "while":
    return dynamic
  positions = find_counters(cond, body, operands, outer, invariant)
  if positions is None:
    return dynamic
  counters = count_trips(context.budget, cond, body, positions, operands, outer, invariant)
  if counters is None:
    return dynamic
  return _scan_form(_Facts(context, body, operands, outer, invariant, counters))


@dataclasses.dataclass(slots=True)
class _Facts:
  context: Context
  body: ir.Region
  operands: Sequence[Any]
  outer: Mapping[int, Any]
  invariant: frozenset[int]
  counters: dict[int, Counter]

  @property
  def num_trips(self) -> int:
    return next(iter(self.counters.values())).num_trips

  def index_values(self, number: int) -> np.ndarray | None:
    """Returns the value of an index on every trip, or None unless it depends only on counters."""
    found = scalar_slice(self.body, number)
    if found is None:
      return None
    known = known_captures(self.body, self.outer)
    known |= {
      number: value for number, value in self.outer.items() if number in found[1] and isinstance(value, np.ndarray)
    }
    for position, argument in enumerate(self.body.args):
      if position in self.counters:
        known[argument] = self.counters[position].before()
      elif position in self.invariant and isinstance(self.operands[position], np.ndarray):
        known[argument] = self.operands[position]
    if not found[1] <= known.keys():
      return None
    values = evaluate_scalars(found[0], known)
    return None if values is None else np.broadcast_to(values[number], (self.num_trips,))

  def direction(self, starts: Sequence[int], shape: Sequence[int], sizes: Sequence[int]) -> str | None:
    """Returns "forward" or "reverse" if the start indices traverse the leading axis once, else None."""
    # An array without elements may be longer than any array of indices can be.
    if self.num_trips * _INDEX_BYTES > self.context.budget.limits.array_bytes:
      return None
    if not shape or shape[0] != self.num_trips or sizes[0] != 1 or tuple(sizes[1:]) != tuple(shape[1:]):
      return None
    for start in starts[1:]:
      rest = self.index_values(start)
      if rest is None or rest.any():
        return None
    leading = self.index_values(starts[0])
    if leading is None:
      return None
    if np.array_equal(leading, np.arange(self.num_trips)):
      return "forward"
    return "reverse" if np.array_equal(leading, np.arange(self.num_trips)[::-1]) else None


def _scan_form(facts: _Facts) -> LoopAnalysis:
  body = facts.body
  scanned, stacked = _candidates(facts)
  ways = [way for _, way in (*scanned, *stacked)]
  # With one trip, the two directions cannot be told apart, and either is correct.
  reverse = ways.count("reverse") > ways.count("forward")
  wanted = "reverse" if reverse else "forward"
  chosen_scans = {item.number: item for item, way in scanned if way == wanted}
  chosen_stacks = {item.position: item for item, way in stacked if way == wanted}
  needed = _needed(facts, chosen_scans, chosen_stacks)
  return LoopAnalysis(
    num_trips=facts.num_trips,
    invariant=facts.invariant,
    carried=tuple(sorted(needed.carried)),
    scanned=tuple(item for item in chosen_scans.values() if item.number in needed.slices),
    stacked=tuple(chosen_stacks.values()),
    reverse=reverse,
    body=dataclasses.replace(body, ops=tuple(op for op in body.ops if id(op) in needed.ops)),
    final={i: counter.final for i, counter in facts.counters.items()},
  )


def _candidates(facts: _Facts) -> tuple[list[Any], list[Any]]:
  body = facts.body
  positions = {number: i for i, number in enumerate(body.args)}
  reads: dict[int, int] = {}
  for op in ir.walk(body):
    for number in op.operands:
      reads[number] = reads.get(number, 0) + 1
  for number in body.returns:
    reads[number] = reads.get(number, 0) + 1
  scanned, stacked = [], []
  for op in body.ops:
    if op.name == "stablehlo.dynamic_slice":
      source = op.operands[0]
      outside = positions[source] in facts.invariant if source in positions else source in body.captures
      value: Any = facts.operands[positions[source]] if source in positions else facts.outer.get(source)
      if outside and (way := facts.direction(op.operands[1:], np.shape(value), op.attrs.integers("slice_sizes"))):
        scanned.append((Scanned(op.results[0], source, np.shape(value)[1:]), way))
    elif op.name == "stablehlo.dynamic_update_slice" and op.operands[0] in positions:
      position = positions[op.operands[0]]
      alone = reads[op.operands[0]] == 1 and reads[op.results[0]] == 1 and body.returns[position] == op.results[0]
      shape = np.shape(facts.operands[position])
      sizes = (1, *shape[1:])
      if alone and _update_shape(facts, op) == sizes and (way := facts.direction(op.operands[2:], shape, sizes)):
        stacked.append((Stacked(position, op.operands[1], shape[1:]), way))
  return scanned, stacked


def _update_shape(facts: _Facts, op: ir.Op) -> tuple[Any, ...] | None:
  number = op.operands[1]
  for candidate in facts.body.ops:
    if number in candidate.results:
      kind = candidate.types[candidate.results.index(number)]
      return kind.shape if isinstance(kind, ir.TensorType) else None
  if number in facts.body.args:
    return np.shape(facts.operands[facts.body.args.index(number)])
  return np.shape(facts.outer[number]) if number in facts.outer else None


@dataclasses.dataclass(slots=True)
class _Needed:
  """What the results of a loop depend on: positions of carries, ids of ops, and numbers of scanned slices."""

  carried: set[int]
  ops: set[int]
  slices: set[int]


def _needed(facts: _Facts, scans: Mapping[int, Scanned], stacks: Mapping[int, Stacked]) -> _Needed:
  """Returns what the carries, the stacked results and the ops with side effects depend on."""
  body = facts.body
  positions = {number: i for i, number in enumerate(body.args)}
  defined = {result: op for op in body.ops for result in op.results}
  free = facts.invariant | stacks.keys() | facts.counters.keys()
  effects = [op for op in body.ops if analysis.has_effect(facts.context, op)]
  needed = _Needed({i for i in range(len(body.args)) if i not in free}, {id(op) for op in effects}, set())
  pending = [body.returns[i] for i in needed.carried] + [item.number for item in stacks.values()]
  pending += [number for op in effects for number in _reads(op)]
  seen: set[int] = set()
  while pending:
    number = pending.pop()
    if number in seen:
      continue
    seen.add(number)
    if number in scans:
      needed.slices.add(number)
    elif number in positions:
      position = positions[number]
      if position in facts.counters and position not in needed.carried:
        needed.carried.add(position)
        pending.append(body.returns[position])
    elif number in defined:
      needed.ops.add(id(defined[number]))
      pending.extend(_reads(defined[number]))
  return needed


def _reads(op: ir.Op) -> list[int]:
  return [*op.operands, *(number for inner in op.regions for number in inner.captures)]
