"""Recovers softmax, log_softmax and logsumexp, whose derivatives are less exact in the form in which they are exported.

All three subtract a maximum, so that exponentials do not overflow. The result does not depend on what is subtracted, so
the derivative through it is zero, and JAX stops it there (`stop_gradient`), which StableHLO does not represent. The
derivative of the exported code is that of the maximum, times the difference of two sums that are equal up to rounding.

The code need not be JAX's, and what it subtracts need not be a maximum. It may be any value that is the same for all
elements that are summed: in exact arithmetic, its derivative is zero. Exactly what JAX exports becomes a call of JAX's
function. Other code keeps its operations, and only the derivative stops at what is subtracted.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.patterns.regions import reducer
from graftax.xla_call_module.patterns.template_functions import Entry
from graftax.xla_call_module.patterns.templates import Index, operands_of, rewritten, without_empty_conversions
from graftax.xla_call_module.survey import Survey

__all__ = ["SHIFTED", "with_softmax"]

SHIFTED = "graftax.shifted"
"""An op whose region computes its result from its operands: from `x`, and from a shift on which it does not depend."""

_NEEDED = frozenset({"stablehlo.reduce", "stablehlo.exponential", "stablehlo.subtract"})
_RESHAPES = frozenset({*analysis.BROADCASTS, "stablehlo.reshape"})
# Changes of shape and conversions in a row that are looked through, and ops of a function that may be `jnp.where`: a
# longer way is none that JAX or TensorFlow writes, and a module of nothing else would take time with its square.
_MOST_STEPS = 16
# For so many functions of different shapes or axes it is looked whether JAX exports the same code: each takes some ms.
_MOST_EXPORTED = 100
# The ops in `jnp.where`, which JAX exports as a function. With open sizes, these are put together there.
_OF_WHERE = _RESHAPES | {"stablehlo.select", "stablehlo.convert", "stablehlo.constant", "stablehlo.concatenate"}


def with_softmax(module_ir: ir.ModuleIR, found: Survey) -> ir.ModuleIR:
  """Returns the module with recognized functions replaced; the same object if there are none.

  Args:
    module_ir: the module.
    found: its survey.
  """
  if not found.names >= _NEEDED:
    return module_ir
  index = Index(without_empty_conversions(Index(module_ir)))
  if not any(_adds(op) for op in index.named("stablehlo.reduce")):
    return module_ir
  fresh = itertools.count(1 + max(_numbers(index), default=0))
  replaced: dict[int, ir.Op] = {}
  exported: set[object] = set()
  for function in index.module_ir.functions.values():
    for region in _regions(function.body):
      search = _Search(index, {op.results[0]: op for op in region.ops if len(op.results) == 1})
      places = {op.results[0]: place for place, op in enumerate(region.ops) if op.results}
      for op in region.ops:
        match = search.match(op)
        if match is None:
          continue
        call = None
        kind = (match.name, match.axes, str(index.type_of(match.x)), str(op.types[0]))
        if not match.is_masked and (kind in exported or len(exported) < _MOST_EXPORTED):
          exported.add(kind)
          call = _jax_function(index, op, match)
        replaced[op.results[0]] = call or _shifted_code(index, places, op, match, fresh)
  return rewritten(index.module_ir, replaced) if replaced else module_ir


def _numbers(index: Index) -> Iterator[int]:
  for function in index.module_ir.functions.values():
    for region in _regions(function.body):
      yield from region.args
      for op in region.ops:
        yield from op.results


def _regions(region: ir.Region) -> Iterator[ir.Region]:
  """Yields a region and all regions in it."""
  yield region
  for op in region.ops:
    for inner in op.regions:
      yield from _regions(inner)


def _adds(op: ir.Op) -> bool:
  """Returns whether an op is a sum of floating-point numbers."""
  return (
    len(op.results) == 1
    and isinstance(op.types[0], ir.TensorType)
    and jnp.issubdtype(op.types[0].dtype, jnp.floating)
    and bool(op.attrs.integers("dimensions"))
    and reducer(op.regions[0]) == "add"
  )


@dataclasses.dataclass(frozen=True, slots=True)
class _Match:
  """Code that is one of the functions.

  Attributes:
    name: the function, as in `jax.nn`.
    x: what it is applied to, less the shift.
    shift: the subtracted value, as far as broadcasts of it are among `ops`.
    axes: the axes that are summed.
    is_masked: whether some elements may be left out of the sum.
    ops: the ops between these and the result.
  """

  name: str
  x: int
  shift: int
  axes: tuple[int, ...]
  is_masked: bool
  ops: Sequence[ir.Op]


# For each axis of a value the axis of another value along which it varies, or None if it is the same along it.
_Axes = tuple[int | None, ...]


@dataclasses.dataclass(slots=True)
class _Walk:
  """A way from a value inwards.

  Attributes:
    number: the value that was reached.
    axes: for each axis of the value where the way began the axis of this one.
    ops: the ops on the way.
  """

  number: int
  axes: _Axes
  ops: list[ir.Op]


@dataclasses.dataclass(frozen=True, slots=True)
class _Sum:
  """A sum of exponentials of differences.

  Attributes:
    spread: for each axis of the value that is the sum up to its shape the axis of what is summed.
    exponential: the op whose result is summed.
    difference: the op that subtracts the shift.
    axes, is_masked, ops: as in `_Match`.
  """

  spread: _Axes
  exponential: ir.Op
  difference: ir.Op
  axes: tuple[int, ...]
  is_masked: bool
  ops: list[ir.Op]


class _Search:
  """Looks for the functions among the ops of one region; constants may be around it."""

  def __init__(self, index: Index, local: Mapping[int, ir.Op]):
    self._index, self._local = index, local

  def match(self, op: ir.Op) -> _Match | None:
    """Returns the function whose result an op computes, or None."""
    find = _FINDERS.get(op.name)
    if find is None or not _is_floating(op.types[0]):
      return None
    return find(self, op)

  def quotient(self, op: ir.Op) -> _Match | None:
    """Matches `e / sum(e)`."""
    return self._softmax(op, op.operands[0], self._walk(op.operands[1], [op]))

  def product(self, op: ir.Op) -> _Match | None:
    """Matches `e * (1 / sum(e))`."""
    for numerator, factor in (op.operands, op.operands[::-1]):
      way = self._walk(factor, [op])
      inverse = self._local.get(way.number)
      if inverse is not None and inverse.name == "stablehlo.divide" and self._equals(inverse.operands[0], 1.0):
        return self._softmax(op, numerator, self._walk(inverse.operands[1], [*way.ops, inverse], way.axes))
    return None

  def _softmax(self, op: ir.Op, numerator: int, way: _Walk) -> _Match | None:
    total = self._sum(way)
    if total is None or total.exponential.results[0] != numerator or not _is_along(total, op.types[0]):
      return None
    return _of_difference("softmax", total)

  def difference(self, op: ir.Op) -> _Match | None:
    """Matches `s - log(sum(exp(s)))`, where `s` is a difference."""
    total = self._log_of_sum(self._walk(op.operands[1], [op]))
    if total is None or total.exponential.operands[0] != op.operands[0] or not _is_along(total, op.types[0]):
      return None
    return _of_difference("log_softmax", total)

  def sum_with_shift(self, op: ir.Op) -> _Match | None:
    """Matches `log(sum(exp(x - m))) + m`."""
    for log, shift in (op.operands, op.operands[::-1]):
      total = self._log_of_sum(self._walk(log, [op]))
      if total is None:
        continue
      added = self._walk(shift, total.ops)
      subtracted = self._walk(total.difference.operands[1], added.ops)
      if added.number == subtracted.number and added.axes == _composed(total.spread, subtracted.axes):
        x = total.difference.operands[0]
        # What is subtracted may be a broadcast of x itself, along axes of size 1. Then only one of them is the shift.
        if x == added.number or any(x in op.results for op in subtracted.ops):
          return None
        return _Match("logsumexp", x, added.number, total.axes, total.is_masked, subtracted.ops)
    return None

  def _log_of_sum(self, way: _Walk) -> _Sum | None:
    log = self._local.get(way.number)
    if log is None or log.name != "stablehlo.log":
      return None
    way = self._walk(log.operands[0], [*way.ops, log], way.axes)
    positive = self._local.get(way.number)
    if positive is not None and positive.name == "stablehlo.abs":
      way = self._walk(positive.operands[0], [*way.ops, positive], way.axes)
    return self._sum(way)

  def _sum(self, way: _Walk) -> _Sum | None:
    reduction = self._local.get(way.number)
    if reduction is None or reduction.name != "stablehlo.reduce" or not _adds(reduction):
      return None
    if not self._equals(reduction.operands[1], 0.0):
      return None
    ops, axes = [*way.ops, reduction], reduction.attrs.integers("dimensions")
    summed = self._converted(reduction.operands[0], ops)
    masked = self._masked(summed, ops)
    if masked is not None:
      summed = self._converted(masked, ops)
    exponential = self._local.get(summed)
    if exponential is None or exponential.name != "stablehlo.exponential" or not _is_floating(exponential.types[0]):
      return None
    difference = self._local.get(exponential.operands[0])
    if difference is None or difference.name != "stablehlo.subtract":
      return None
    shift = self._walk(difference.operands[1], [])
    if any(shift.axes[axis] is not None for axis in axes) or self._is_constant(shift.number):
      return None
    kept = [axis for axis in range(exponential.types[0].rank) if axis not in axes]
    spread = tuple(None if axis is None else kept[axis] for axis in way.axes)
    return _Sum(spread, exponential, difference, axes, masked is not None, [*ops, exponential, difference])

  def _walk(self, number: int, before: list[ir.Op], axes: _Axes | None = None) -> _Walk:
    """Walks from a value inwards through changes of shape that only insert or repeat, and through conversions.

    Args:
      number: the value.
      before: the ops before it on the way.
      axes: for each axis where the way began the axis of the value; by default it begins here.
    """
    if axes is None:
      axes = tuple(None if size == 1 else axis for axis, size in enumerate(self._index.type_of(number).shape))
    ops = list(before)
    for _ in range(_MOST_STEPS):
      op = self._local.get(number)
      step = None if op is None else self._step(op)
      if op is None or step is None:
        break
      axes, number = _composed(axes, step), op.operands[0]
      ops.append(op)
    return _Walk(number, axes, ops)

  def _step(self, op: ir.Op) -> _Axes | None:
    """Returns for each axis of the result of an op the axis of its operand; None if it does more than that."""
    if op.name not in _RESHAPES and op.name != "stablehlo.convert":
      return None
    kind = self._index.type_of(op.operands[0])
    if not (_is_floating(kind) and _is_floating(op.types[0])):
      return None
    sizes, shape = kind.shape, op.types[0].shape
    if op.name == "stablehlo.convert":
      return tuple(range(len(shape)))
    found: list[int | None] = [None] * len(shape)
    if op.name == "stablehlo.reshape":
      before, after = ([axis for axis, size in enumerate(s) if size != 1] for s in (sizes, shape))
      if None in (*sizes, *shape) or [sizes[axis] for axis in before] != [shape[axis] for axis in after]:
        return None
      for axis, source in zip(after, before, strict=True):
        found[axis] = source
      return tuple(found)
    for source, axis in enumerate(op.attrs.integers("broadcast_dimensions")):
      found[axis] = None if sizes[source] == 1 else source
    return tuple(found)

  def _converted(self, number: int, ops: list[ir.Op]) -> int:
    """Returns what a value was before it was converted to other floats, and adds the ops."""
    for _ in range(_MOST_STEPS):
      op = self._local.get(number)
      if op is None or op.name != "stablehlo.convert" or self._step(op) is None:
        break
      ops.append(op)
      number = op.operands[0]
    return number

  def _masked(self, number: int, ops: list[ir.Op]) -> int | None:
    """Returns `x` if a value is `where(mask, x, 0)` for any mask, and adds the op."""
    op = select = self._local.get(number)
    given: dict[int, int] = {}
    if op is not None and op.name == "func.call":
      body = self._index.module_ir.functions[op.attrs.text("callee")].body
      if len(body.ops) > _MOST_STEPS or not {inner.name for inner in body.ops} <= _OF_WHERE:
        return None
      given = dict(zip(body.args, op.operands, strict=True))
      select = self._index.defined.get(body.returns[0], (None, 0))[0]
    if op is None or select is None or select.name != "stablehlo.select":
      return None
    _, chosen, other = (given.get(operand, operand) for operand in select.operands)
    if not self._equals(other, 0.0, given) or chosen not in op.operands:
      return None
    ops.append(op)
    return chosen

  def _equals(self, number: int, wanted: float, given: Mapping[int, int] | None = None) -> bool:
    """Returns whether all entries of a value are a known number.

    Args:
      number: the value.
      wanted: the number.
      given: operands of a call, by the argument of the function in whose body the value is.
    """
    number = (given or {}).get(number, number)
    for _ in range(_MOST_STEPS):
      op = self._index.defined.get(number, (None, 0))[0]
      if op is None:
        return False
      if op.name == "stablehlo.constant":
        value = op.attrs.maybe_array("value")
        # Equal entries are stored once, and looking at all of others takes long.
        is_known = value is not None and value.size > 0 and not (value.size > 1 and any(value.strides))
        return value is not None and is_known and bool(value[(0,) * value.ndim] == wanted)
      if op.name not in _RESHAPES and op.name != "stablehlo.convert":
        return False
      number = (given or {}).get(op.operands[0], op.operands[0])
    return False

  def _is_constant(self, number: int) -> bool:
    return number in self._index.defined and self._index.defined[number][0].name == "stablehlo.constant"


_FINDERS = {
  "stablehlo.divide": _Search.quotient,
  "stablehlo.multiply": _Search.product,
  "stablehlo.subtract": _Search.difference,
  "stablehlo.add": _Search.sum_with_shift,
}


def _of_difference(name: str, total: _Sum) -> _Match | None:
  x, shift = total.difference.operands
  return None if x == shift else _Match(name, x, shift, total.axes, total.is_masked, total.ops)


def _is_floating(kind: ir.Type) -> bool:
  return isinstance(kind, ir.TensorType) and bool(jnp.issubdtype(kind.dtype, jnp.floating))


def _composed(outer: _Axes, inner: _Axes) -> _Axes:
  return tuple(None if axis is None else inner[axis] for axis in outer)


def _is_along(total: _Sum, kind: ir.TensorType) -> bool:
  """Returns whether a sum is spread over an array of this type as over what is summed, along the same axes."""
  wanted = (None if size == 1 or axis in total.axes else axis for axis, size in enumerate(kind.shape))
  return total.exponential.types[0].shape == kind.shape and total.spread == tuple(wanted)


def _jax_function(index: Index, root: ir.Op, match: _Match) -> ir.Op | None:
  """Returns a call of the function in `jax.nn` if the code is exactly what JAX exports for it."""
  settings: tuple[tuple[str, Any], ...] = (("axis", match.axes),)
  kind = index.type_of(match.x)
  if match.name == "logsumexp":
    settings = (*settings, ("keepdims", root.types[0].rank == kind.rank))
  entry = Entry(f"nn.{match.name}", 1, settings=settings)
  if operands_of(index, entry, (kind,), root.results[0]) != (match.x,):
    return None
  attrs = ir.Attributes(function=entry.function)
  return ir.Op("graftax.lax", (match.x,), root.results, root.types, attrs, (), root.location)


def _shifted_code(index: Index, places: Mapping[int, int], root: ir.Op, match: _Match, fresh: Iterator[int]) -> ir.Op:
  """Returns an op with copies of the ops of a match in its region; others may use the ops themselves.

  Args:
    index: the module.
    places: for each result the position of its op among those of the region.
    root: the last op of the match.
    match: the match.
    fresh: numbers that no value has.
  """
  operands = (match.x, match.shift)
  args = tuple(next(fresh) for _ in operands)
  names = dict(zip(operands, args, strict=True))
  kept = {op.results[0]: op for op in match.ops}
  ops = tuple([_copied(kept[number], names, fresh) for number in sorted(kept, key=places.__getitem__)])
  types = tuple(index.type_of(number) for number in operands)
  body = ir.Region(args, types, ops, (names[root.results[0]],), ())
  return ir.Op(SHIFTED, operands, root.results, root.types, ir.Attributes(), (body,), root.location)


def _copied(op: ir.Op, names: dict[int, int], fresh: Iterator[int]) -> ir.Op:
  """Returns an op with new numbers for its results; `names` maps old numbers to new ones."""
  operands = tuple(names.get(number, number) for number in op.operands)
  regions = tuple(_copied_region(inner, names, fresh) for inner in op.regions)
  names.update((number, next(fresh)) for number in op.results)
  results = tuple(names[number] for number in op.results)
  return dataclasses.replace(op, operands=operands, results=results, regions=regions)


def _copied_region(region: ir.Region, names: dict[int, int], fresh: Iterator[int]) -> ir.Region:
  names.update((number, next(fresh)) for number in region.args)
  ops = tuple(_copied(op, names, fresh) for op in region.ops)
  args, returns, captures = (
    tuple(names.get(number, number) for number in numbers) for numbers in (region.args, region.returns, region.captures)
  )
  return dataclasses.replace(region, args=args, ops=ops, returns=returns, captures=captures)
