"""Computes the trip count of a `while` by evaluating the scalar integer ops that determine it, trip by trip.

If the trip count depends on traced data, the result is None.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graftax.xla_call_module import fold, ir
from graftax.xla_call_module.budget import Budget

__all__ = ["Counter", "count_trips", "evaluate_scalars", "find_counters", "known_captures", "scalar_slice"]

# A longer loop stays a `while` if its length has no closed form. `convert` has its own limit for TensorFlow's loops.
_MAX_SIMULATED_TRIPS = 20_000

_SCALAR_OPS = frozenset({
    f"stablehlo.{name}" for name in (
        "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "negate", "abs", "sign", "and",
        "or", "xor", "not", "compare", "select", "clamp", "convert", "constant", "reshape", "broadcast_in_dim",
    )
})  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Counter:
  """A carry whose value on every trip is known.

  Attributes:
    num_trips: the trip count of the loop.
    final: the value after the last trip.
    before: returns the values before every trip. The array is as long as the loop, which may be very long, so call this
      only if another array of that length exists already.
  """

  num_trips: int
  final: np.ndarray
  before: Callable[[], np.ndarray]


def scalar_slice(region: ir.Region, number: int) -> tuple[list[ir.Op], set[int]] | None:
  """Returns the scalar integer ops that a value depends on, and the values they read; None if it needs other ops."""
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


def find_counters(cond: ir.Region, body: ir.Region, operands: Any, outer: Any, invariant: Any) -> list[int] | None:
  """Returns the positions of the carries that determine the trip count, or None if traced data determines it."""
  start = scalar_slice(cond, cond.returns[0])
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
    inner = scalar_slice(body, body.returns[position])
    if inner is None:
      return None
    pending |= inner[1]
  return sorted(found)


def evaluate_scalars(ops: Sequence[ir.Op], known: dict[int, Any]) -> dict[int, Any] | None:
  """Evaluates scalar ops and adds their values to `known`. Counters may be sequences, and so are then the results."""
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


def known_captures(region: ir.Region, outer: Mapping[int, Any]) -> dict[int, Any]:
  return {number: outer[number] for number in region.captures if isinstance(outer.get(number), np.ndarray)}


def count_trips(
  budget: Budget,
  cond: ir.Region,
  body: ir.Region,
  counters: Sequence[int],
  operands: Any,
  outer: Any,
  invariant: Any,
) -> dict[int, Counter] | None:
  """Returns the counters by position, or None if the loop is too long to be evaluated trip by trip."""
  test = scalar_slice(cond, cond.returns[0])
  steps = {i: found[0] for i in counters if (found := scalar_slice(body, body.returns[i])) is not None}
  if test is None or not counters or len(steps) != len(counters):
    return None
  fixed_cond = known_captures(cond, outer) | {cond.args[i]: operands[i] for i in invariant}
  fixed_body = known_captures(body, outer) | {body.args[i]: operands[i] for i in invariant}
  quick = _affine(cond, body, test[0], counters, operands, fixed_cond, fixed_body)
  if quick is not None:
    return quick
  state = {i: np.asarray(operands[i]) for i in counters}
  history = {i: [state[i]] for i in counters}
  num_ops = len(test[0]) + sum(map(len, steps.values()))
  for _ in range(_MAX_SIMULATED_TRIPS):
    if not budget.may_simulate(num_ops):
      return None
    known = evaluate_scalars(test[0], fixed_cond | {cond.args[i]: state[i] for i in counters})
    if known is None:
      return None
    if not known[cond.returns[0]]:
      return {i: _simulated(np.stack(items)) for i, items in history.items()}
    after = {}
    for i in counters:
      known = evaluate_scalars(steps[i], fixed_body | {body.args[j]: state[j] for j in counters})
      if known is None:
        return None
      after[i] = np.asarray(known[body.returns[i]])
    state = after
    for i in counters:
      history[i].append(state[i])
  return None


def _simulated(values: np.ndarray) -> Counter:
  return Counter(len(values) - 1, np.asarray(values[-1]), lambda: values[:-1])


def _affine(
  cond: ir.Region,
  body: ir.Region,
  test: Sequence[ir.Op],
  counters: Sequence[int],
  operands: Any,
  fixed_cond: Mapping[int, Any],
  fixed_body: Mapping[int, Any],
) -> dict[int, Counter] | None:
  """Returns the counters of the common case in closed form: one counter, `i < n` or `i > n`, and a constant step."""
  own = scalar_slice(body, body.returns[counters[0]])
  if len(counters) != 1 or own is None:
    return None
  (i,) = counters
  stride = _stride(own[0], body.args[i], fixed_body)
  bound = _bound(test, cond.args[i], fixed_cond)
  if stride is None or bound is None:
    return None
  rises, last = bound
  if stride == 0 or (stride > 0) != rises:
    return None
  first, dtype = int(operands[i]), np.asarray(operands[i]).dtype
  num_trips = max(0, -((first - last) // stride))
  limits, final = np.iinfo(dtype), first + stride * num_trips
  if not limits.min <= final <= limits.max:
    return None
  return {
    i: Counter(num_trips, np.asarray(final, dtype), lambda: (first + stride * np.arange(num_trips)).astype(dtype))
  }


def _only_op(
  ops: Sequence[ir.Op], names: tuple[str, ...], known: Mapping[int, Any]
) -> tuple[ir.Op, dict[int, Any]] | None:
  """Returns the only op besides constants, and all known values; None if there are several or it has another name."""
  others = [op for op in ops if op.name != "stablehlo.constant"]
  if len(others) != 1 or others[0].name not in names:
    return None
  constants = {op.results[0]: op.attrs["value"] for op in ops if op.name == "stablehlo.constant"}
  return others[0], {**known, **constants}


def _stride(ops: Sequence[ir.Op], counter: int, known: Mapping[int, Any]) -> int | None:
  """Returns the constant that a body adds to its counter, or None if it computes something else."""
  found = _only_op(ops, ("stablehlo.add", "stablehlo.subtract"), known)
  if found is None:
    return None
  op, values = found
  x, y = op.operands
  if x == counter and y in values:
    return int(values[y]) if op.name == "stablehlo.add" else -int(values[y])
  return int(values[x]) if op.name == "stablehlo.add" and y == counter and x in values else None


def _bound(ops: Sequence[ir.Op], counter: int, known: Mapping[int, Any]) -> tuple[bool, int] | None:
  """Returns `(is_upper, first value that ends the loop)` if the condition compares the counter with a known value."""
  found = _only_op(ops, ("stablehlo.compare",), known)
  if found is None:
    return None
  op, values = found
  left, right = op.operands
  direction = op.attrs.text("comparison_direction")
  if left != counter or right not in values or direction not in ("LT", "LE", "GT", "GE"):
    return None
  limit = int(values[right])
  return direction[0] == "L", limit + {"LE": 1, "GE": -1}.get(direction, 0)
