"""Reads a `while`: which carries are invariant, how often it runs, and which carries are scanned over or stacked.

The trip count comes from evaluating the part of the condition and the body that it depends on; slices and updates are
recognised by what their indices evaluate to, not by how they are spelled.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graftax.xla_call_module import analysis, fold, ir
from graftax.xla_call_module.context import Context

__all__ = ["Loop", "Scanned", "Stacked", "inline_small_calls", "read_loop"]

_MAX_SIMULATED_TRIPS = 20_000
_INLINE_OPS = 8
_fresh = itertools.count(1 << 40)


@dataclasses.dataclass(frozen=True, slots=True)
class Scanned:
  """A slice of one leading index of an array that the loop leaves alone: `number` holds x[i] as `[1, ...]`."""

  number: int
  source: int
  shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Stacked:
  """A carry that the loop writes from end to end, one leading index a trip: `number` is the slice `[1, ...]`."""

  position: int
  number: int
  shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
  """A `while` as read. `num_trips` is None where it depends on traced data; then only `carried` is filled.

  `carried` are positions of carries that change; `ops` are the ops of the body that something still needs.
  """

  num_trips: int | None
  invariant: frozenset[int]
  carried: tuple[int, ...]
  scanned: tuple[Scanned, ...]
  stacked: tuple[Stacked, ...]
  reverse: bool
  body: ir.Region
  final: Mapping[int, np.ndarray]


def inline_small_calls(context: Context, region: ir.Region) -> ir.Region:
  """The region with calls of small functions replaced by their ops, so that slices inside them are seen."""
  key = ("inlined", id(region))
  if key not in context.analyses:
    context.analyses[key] = (_inline(context, region), region)
  return context.analyses[key][0]


def _inline(context: Context, region: ir.Region) -> ir.Region:
  ops: list[ir.Op] = []
  renamed: dict[int, int] = {}
  for op in region.ops:
    callee = context.program.functions.get(op.attrs["callee"]) if op.name == "func.call" else None
    if callee is None or len(callee.body.ops) > _INLINE_OPS or any(inner.regions for inner in callee.body.ops):
      ops.append(_renumbered(op, renamed))
      continue
    operands = [renamed.get(number, number) for number in op.operands]
    local = dict(zip(callee.body.args, operands, strict=True))
    for inner in callee.body.ops:
      local.update((number, next(_fresh)) for number in inner.results)
      ops.append(_renumbered(inner, local))
      analysis.definitions(context).update((number, ops[-1]) for number in ops[-1].results)
    renamed.update((number, local[r]) for number, r in zip(op.results, callee.body.returns, strict=True))
  if len(ops) == len(region.ops) and not renamed:
    return region
  returns = tuple(renamed.get(number, number) for number in region.returns)
  return dataclasses.replace(region, ops=tuple(ops), returns=returns)


def _renumbered(op: ir.Op, names: Mapping[int, int]) -> ir.Op:
  if not names:
    return op
  regions = tuple(_renumbered_region(inner, names) for inner in op.regions)
  operands = tuple(names.get(number, number) for number in op.operands)
  results = tuple(names.get(number, number) for number in op.results)
  return dataclasses.replace(op, operands=operands, results=results, regions=regions)


def _renumbered_region(region: ir.Region, names: Mapping[int, int]) -> ir.Region:
  return dataclasses.replace(
      region, ops=tuple(_renumbered(op, names) for op in region.ops),
      returns=tuple(names.get(number, number) for number in region.returns),
      captures=tuple(names.get(number, number) for number in region.captures),
  )  # fmt: skip


def read_loop(
  context: Context, cond: ir.Region, body: ir.Region, operands: Sequence[Any], outer: Mapping[int, Any]
) -> Loop:
  """Reads a loop for given initial values; `outer` holds what the regions capture."""
  body = inline_small_calls(context, body)
  invariant = frozenset(i for i, number in enumerate(body.args) if body.returns[i] == number)
  changing = tuple(i for i in range(len(body.args)) if i not in invariant)
  counters = _find_counters(cond, body, operands, outer, invariant)
  dynamic = Loop(None, invariant, changing, (), (), False, body, {})
  if counters is None:
    return dynamic
  sequences = _simulate(cond, body, counters, operands, outer, invariant)
  if sequences is None:
    return dynamic
  return _scan_form(_Facts(body, operands, outer, invariant, sequences))


# ---------------------------------------------------------------------------------------------------------- counters

_SCALAR_OPS = frozenset({
    f"stablehlo.{name}" for name in (
        "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "negate", "abs", "sign", "and",
        "or", "xor", "not", "compare", "select", "clamp", "convert", "constant", "reshape", "broadcast_in_dim",
    )
})  # fmt: skip


def _slice(region: ir.Region, number: int) -> tuple[list[ir.Op], set[int]] | None:
  """The scalar integer ops that a value depends on, in order, and what they read from outside; None if others do."""
  defined = {result: op for op in region.ops for result in op.results}
  ops: dict[int, ir.Op] = {}
  reads: set[int] = set()
  pending = [number]
  while pending:
    current = pending.pop()
    op = defined.get(current)
    if op is None:
      reads.add(current)
      continue
    if id(op) in ops:
      continue
    if op.name not in _SCALAR_OPS or not _is_integer_scalar(op.types[0]):
      return None
    ops[id(op)] = op
    pending.extend(op.operands)
  return [op for op in region.ops if id(op) in ops], reads


def _is_integer_scalar(kind: ir.Type) -> bool:
  return isinstance(kind, ir.TensorType) and kind.shape == () and kind.dtype.kind in "iub"


def _find_counters(cond: ir.Region, body: ir.Region, operands: Any, outer: Any, invariant: Any) -> list[int] | None:
  """Positions of the carries that decide how often the loop runs; None where traced data does."""
  start = _slice(cond, cond.returns[0])
  if start is None:
    return None
  pending, found = set(start[1]), set()
  arguments = {number: i for i, number in enumerate(cond.args)}
  body_arguments = {number: i for i, number in enumerate(body.args)}
  while pending:
    number = pending.pop()
    position = arguments.get(number, body_arguments.get(number))
    if position is None:
      if not isinstance(outer.get(number), np.ndarray):
        return None
      continue
    if position in found:
      continue
    if not isinstance(operands[position], np.ndarray) or not _is_integer_scalar(body.types[position]):
      return None
    if position in invariant:
      continue
    found.add(position)
    inner = _slice(body, body.returns[position])
    if inner is None:
      return None
    pending |= inner[1]
  return sorted(found)


def _evaluate(ops: Sequence[ir.Op], known: dict[int, Any]) -> dict[int, Any] | None:
  """Values of scalar ops; counters may hold a whole sequence, and then so do the results."""
  for op in ops:
    if op.name == "stablehlo.constant":
      known[op.results[0]] = op.attrs["value"]
      continue
    operands = [known[number] for number in op.operands]
    moves = op.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim")
    value = operands[0] if moves else fold.evaluate(op, operands)
    if value is None:
      return None
    known[op.results[0]] = value
  return known


def _known_outer(region: ir.Region, outer: Mapping[int, Any]) -> dict[int, Any]:
  return {number: outer[number] for number in region.captures if isinstance(outer.get(number), np.ndarray)}


def _simulate(
  cond: ir.Region, body: ir.Region, counters: Sequence[int], operands: Any, outer: Any, invariant: Any
) -> dict[int, np.ndarray] | None:
  """The values of each counter before every trip and after the last; None where the loop runs for too long."""
  test = _slice(cond, cond.returns[0])
  steps = {i: found[0] for i in counters if (found := _slice(body, body.returns[i])) is not None}
  if test is None or not counters or len(steps) != len(counters):
    return None
  fixed_cond = _known_outer(cond, outer) | {cond.args[i]: operands[i] for i in invariant}
  fixed_body = _known_outer(body, outer) | {body.args[i]: operands[i] for i in invariant}
  quick = _affine(cond, body, test[0], counters, operands, fixed_cond, fixed_body)
  if quick is not None:
    return quick
  state = {i: np.asarray(operands[i]) for i in counters}
  history = {i: [state[i]] for i in counters}
  for _ in range(_MAX_SIMULATED_TRIPS):
    known = _evaluate(test[0], fixed_cond | {cond.args[i]: state[i] for i in counters})
    if known is None:
      return None
    if not known[cond.returns[0]]:
      return {i: np.stack(items) for i, items in history.items()}
    after = {}
    for i in counters:
      known = _evaluate(steps[i], fixed_body | {body.args[j]: state[j] for j in counters})
      if known is None:
        return None
      after[i] = np.asarray(known[body.returns[i]])
    state = after
    for i in counters:
      history[i].append(state[i])
  return None


def _affine(
    cond: ir.Region, body: ir.Region, test: Sequence[ir.Op], counters: Any, operands: Any, fixed_cond: Any,
    fixed_body: Any,
) -> dict[int, np.ndarray] | None:  # fmt: skip
  """The common case in closed form: one counter, `i < n` or `i > n`, and a constant step."""
  if len(counters) != 1:
    return None
  (i,) = counters
  comparison = [op for op in test if op.name != "stablehlo.constant"]
  own = _slice(body, body.returns[i])
  if own is None:
    return None
  update = [op for op in own[0] if op.name != "stablehlo.constant"]
  if len(comparison) != 1 or comparison[0].name != "stablehlo.compare" or len(update) != 1:
    return None
  constants = {op.results[0]: op.attrs["value"] for op in (*test, *own[0]) if op.name == "stablehlo.constant"}
  left, right = comparison[0].operands
  limit = constants.get(right, fixed_cond.get(right))
  direction = comparison[0].attrs["comparison_direction"]
  x, y = update[0].operands
  step = constants.get(y, fixed_body.get(y)) if x == body.args[i] else constants.get(x, fixed_body.get(x))
  if left != cond.args[i] or limit is None or step is None or body.args[i] not in (x, y):
    return None
  if update[0].name == "stablehlo.subtract" and x == body.args[i]:
    stride = -int(step)
  elif update[0].name == "stablehlo.add":
    stride = int(step)
  else:
    return None
  first, last = int(operands[i]), int(limit)
  if direction in ("LE", "GE"):
    last += 1 if direction == "LE" else -1
  if direction not in ("LT", "LE", "GT", "GE") or (stride <= 0) == (direction[0] == "L"):
    return None
  num_trips = max(0, -((first - last) // stride))
  dtype = np.asarray(operands[i]).dtype
  limits = np.iinfo(dtype)
  if not limits.min <= first + stride * num_trips <= limits.max:
    return None
  return {i: (first + stride * np.arange(num_trips + 1)).astype(dtype)}


# --------------------------------------------------------------------------------------------------------- scan form


@dataclasses.dataclass(slots=True)
class _Facts:
  body: ir.Region
  operands: Sequence[Any]
  outer: Mapping[int, Any]
  invariant: frozenset[int]
  sequences: dict[int, np.ndarray]

  @property
  def num_trips(self) -> int:
    return len(next(iter(self.sequences.values()))) - 1

  def index_values(self, number: int) -> np.ndarray | None:
    """What an index is on every trip, where only counters decide it."""
    found = _slice(self.body, number)
    if found is None:
      return None
    known = _known_outer(self.body, self.outer)
    known |= {
      number: value for number, value in self.outer.items() if number in found[1] and isinstance(value, np.ndarray)
    }
    for position, argument in enumerate(self.body.args):
      if position in self.sequences:
        known[argument] = self.sequences[position][:-1]
      elif position in self.invariant and isinstance(self.operands[position], np.ndarray):
        known[argument] = self.operands[position]
    if not found[1] <= known.keys():
      return None
    values = _evaluate(found[0], known)
    return None if values is None else np.broadcast_to(values[number], (self.num_trips,))

  def direction(self, starts: Sequence[int], shape: Sequence[int], sizes: Sequence[int]) -> str | None:
    """ "forward" or "reverse" where the start indices walk the leading axis once, end to end."""
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


def _scan_form(facts: _Facts) -> Loop:
  body = facts.body
  scanned, stacked = _candidates(facts)
  ways = [way for _, way in (*scanned, *stacked)]
  # With one trip both ways look alike; with none there is nothing to read.
  reverse = ways.count("reverse") > ways.count("forward")
  wanted = "reverse" if reverse else "forward"
  chosen_scans = {item.number: item for item, way in scanned if way == wanted}
  chosen_stacks = {item.position: item for item, way in stacked if way == wanted}
  carried, live = _liveness(facts, chosen_scans, chosen_stacks)
  ops = tuple(op for op in body.ops if id(op) in live)
  kept = tuple(item for item in chosen_scans.values() if item.number in live)
  final = {i: sequence[-1] for i, sequence in facts.sequences.items()}
  return Loop(
      facts.num_trips, facts.invariant, carried, kept, tuple(chosen_stacks.values()), reverse,
      dataclasses.replace(body, ops=ops), final,
  )  # fmt: skip


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
      if outside and (way := facts.direction(op.operands[1:], np.shape(value), op.attrs["slice_sizes"])):
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


def _liveness(facts: _Facts, scans: dict[int, Scanned], stacks: dict[int, Stacked]) -> tuple[tuple[int, ...], set[int]]:
  """Which carries must be carried, and the ops (by id) and scanned slices (by number) that are needed."""
  body = facts.body
  positions = {number: i for i, number in enumerate(body.args)}
  defined = {result: op for op in body.ops for result in op.results}
  free = facts.invariant | stacks.keys() | facts.sequences.keys()
  carried = {i for i in range(len(body.args)) if i not in free}
  pending = [body.returns[i] for i in carried] + [item.number for item in stacks.values()]
  live: set[int] = set()
  seen: set[int] = set()
  while pending:
    number = pending.pop()
    if number in seen:
      continue
    seen.add(number)
    if number in scans:
      live.add(number)
      continue
    if number in positions:
      position = positions[number]
      if position in facts.sequences and position not in carried:
        carried.add(position)
        pending.append(body.returns[position])
      continue
    op = defined.get(number)
    if op is None:
      continue
    live.add(id(op))
    pending.extend(op.operands)
    pending.extend(capture for inner in op.regions for capture in inner.captures)
  for op in body.ops:  # what only has an effect stays
    if id(op) not in live and _has_effect(op):
      live.add(id(op))
      extra, more = _closure(body, op, positions, facts, carried)
      live |= extra
      carried |= more
  return tuple(sorted(carried)), live


def _has_effect(op: ir.Op) -> bool:
  return op.name == "stablehlo.custom_call" and bool(op.attrs.get("has_side_effect"))


def _closure(body: ir.Region, op: ir.Op, positions: Any, facts: _Facts, carried: Any) -> tuple[set[int], set[int]]:
  """Everything that an op with an effect depends on: ids of ops, and counters that must then be carried."""
  defined = {result: other for other in body.ops for result in other.results}
  live, more, pending, seen = set(), set(), list(op.operands), set()
  while pending:
    number = pending.pop()
    if number in seen:
      continue
    seen.add(number)
    if number in positions:
      if positions[number] in facts.sequences:
        more.add(positions[number])
        pending.append(body.returns[positions[number]])
      continue
    source = defined.get(number)
    if source is not None:
      live.add(id(source))
      pending.extend(source.operands)
      pending.extend(capture for inner in source.regions for capture in inner.captures)
  return live, more - set(carried)
