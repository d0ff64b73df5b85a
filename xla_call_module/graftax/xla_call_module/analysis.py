"""Analyses of the IR for lowerings: definitions and uses of values, and which parameters must be known."""

from typing import Any

import numpy as np

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.communication import HOST_TRANSFERS
from graftax.xla_call_module.context import Context

__all__ = [
  "BROADCASTS",
  "MAX_SHAPE_SIZE",
  "definitions",
  "expanded_size",
  "has_effect",
  "iota_offset",
  "is_zero",
  "uses_of_values",
  "splat_value",
  "static_parameters",
]

MAX_SHAPE_SIZE = 16
"""Largest number of elements of an integer array that is treated as a possible shape, index or count."""

BROADCASTS = ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")

_STATIC_OPERANDS: dict[str, tuple[int, ...] | None] = {
  # None: every operand; a tuple: those positions.
  "stablehlo.while": None,
  "stablehlo.case": (0,),
  "stablehlo.if": (0,),
  "stablehlo.dynamic_broadcast_in_dim": (1,),
  "stablehlo.dynamic_iota": (0,),
  "stablehlo.dynamic_reshape": (1,),
  "stablehlo.dynamic_pad": (2, 3, 4),
  "stablehlo.real_dynamic_slice": (1, 2, 3),
  "stablehlo.dynamic_gather": (2,),
  "stablehlo.dynamic_conv": (2,),
  "stablehlo.rng": (2,),
  "stablehlo.custom_call": None,
  "stablehlo.composite": None,
}


def definitions(context: Context) -> dict[int, ir.Op]:
  """Returns the op that defines each value of the module. Passes that create ops add them to this dict."""
  found = context.analyses.get("definitions")
  if found is None:
    bodies = [function.body for function in context.ir.functions.values()]
    found = context.analyses["definitions"] = {n: op for body in bodies for op in ir.walk(body) for n in op.results}
  return found


def expanded_size(context: Context, function: ir.Function) -> int:
  """Returns the number of ops that a function has after all calls are inlined.

  Raises:
    UnsupportedModuleError: the function calls itself.
  """
  key = ("expanded size", function.name)
  if key not in context.analyses:
    context.analyses[key] = None  # marks the function as in progress, which detects recursion
    context.analyses[key] = sum(1 + _callee_size(context, op) for op in ir.walk(function.body))
  size = context.analyses[key]
  if size is None:
    raise errors.UnsupportedModuleError(f"function {function.name!r} calls itself; JAX does not support recursion.")
  return size


def _callee_size(context: Context, op: ir.Op) -> int:
  callee = _callee(context, op)
  return 0 if callee is None else expanded_size(context, callee)


def _callee(context: Context, op: ir.Op) -> ir.Function | None:
  name = op.attrs.get("callee") if op.name == "func.call" else op.attrs.get("decomposition")
  return context.ir.functions.get(name) if isinstance(name, str) else None


def has_effect(context: Context, op: ir.Op) -> bool:
  """Returns whether the op, one of its regions, or a function that it calls has side effects."""
  if op.name in HOST_TRANSFERS or (op.name == "stablehlo.custom_call" and op.attrs.get("has_side_effect")):
    return True
  if any(has_effect(context, nested) for inner in op.regions for nested in ir.walk(inner)):
    return True
  callee = _callee(context, op)
  if callee is None:
    return False
  key = ("effect", callee.name)
  if key not in context.analyses:
    context.analyses[key] = False  # ends the search if the function is recursive
    context.analyses[key] = any(has_effect(context, nested) for nested in ir.walk(callee.body))
  return context.analyses[key]


def uses_of_values(context: Context) -> dict[int, list[tuple[ir.Op | None, int]]]:
  """Returns `(op, operand position)` for every use of each value; a result of a region is `(None, position)`."""
  found = context.analyses.get("uses")
  if found is None:
    found = context.analyses["uses"] = {}
    for function in context.ir.functions.values():
      _collect_uses(function.body, found)
  return found


def _collect_uses(region: ir.Region, found: dict[int, list[tuple[ir.Op | None, int]]]) -> None:
  for op in region.ops:
    for position, number in enumerate(op.operands):
      found.setdefault(number, []).append((op, position))
    for inner in op.regions:
      _collect_uses(inner, found)
  for position, number in enumerate(region.returns):
    found.setdefault(number, []).append((None, position))


def is_zero(context: Context, number: int) -> bool:
  """Returns whether a value is a constant of zeros, or a broadcast or reshape of one."""
  op = _unbroadcast(context, number)
  return op is not None and op.name == "stablehlo.constant" and _all_zero(op.attrs["value"])


def _unbroadcast(context: Context, number: int) -> ir.Op | None:
  """Returns the op that defines a value, looking through broadcasts and reshapes."""
  op = definitions(context).get(number)
  while op is not None and op.name in (*BROADCASTS, "stablehlo.reshape"):
    op = definitions(context).get(op.operands[0])
  return op


def _all_zero(value: Any) -> bool:
  first = value[(0,) * value.ndim] if value.size and not any(value.strides) else None
  return bool(first == 0) if first is not None else not np.any(value)


def iota_offset(context: Context, number: int) -> tuple[int, int] | None:
  """Returns `(axis, offset)` if the value is an iota along an axis, plus a constant; looks through broadcasts.

  Returns None for any other value, and if the addition may overflow.
  """
  op = definitions(context).get(number)
  found = None if op is None else _counts(context, op)
  if op is None or found is None or op.type.dtype.kind not in "iu":
    return None
  (axis, offset), limits = found, np.iinfo(op.type.dtype)
  # Positions in an array always fit 32 bits. With 8 or 16 bits they may overflow if the dimension is open.
  size = op.type.shape[axis] or (0 if limits.bits >= 32 else limits.max)
  does_not_wrap = limits.min <= offset and offset + size - 1 <= limits.max
  return found if does_not_wrap else None


def _counts(context: Context, op: ir.Op) -> tuple[int, int] | None:
  if op.name in ("stablehlo.iota", "stablehlo.dynamic_iota"):
    return op.attrs.integer("iota_dimension"), 0
  if op.name in BROADCASTS:
    inner = iota_offset(context, op.operands[0])
    if inner is None:
      return None
    axis, source = op.attrs.integers("broadcast_dimensions")[inner[0]], definitions(context)[op.operands[0]]
    # If the size of the source is 1, its single entry is repeated along the axis.
    return (axis, inner[1]) if source.type.shape[inner[0]] == op.type.shape[axis] else None
  if op.name == "stablehlo.add":
    for own, other in (op.operands, op.operands[::-1]):
      inner, constant = iota_offset(context, own), splat_value(context, other)
      if inner is not None and constant is not None:
        return inner[0], inner[1] + constant
  return None


def splat_value(context: Context, number: int) -> int | None:
  """Returns the integer that all entries of a constant (or of a broadcast of one) equal, or None."""
  op = _unbroadcast(context, number)
  if op is None or op.name != "stablehlo.constant" or op.type.dtype.kind not in "iu":
    return None
  value = op.attrs.maybe_array("value")
  if value is not None and value.size and (not any(value.strides) or value.size == 1):
    return int(value[(0,) * value.ndim])
  return None


def static_parameters(context: Context, function: ir.Function) -> frozenset[int]:
  """Returns the positions of the parameters that determine a shape, a trip count or a branch of the function."""
  key = ("static", function.name)
  if key not in context.analyses:
    context.analyses[key] = frozenset()  # ends the search if the function is recursive
    context.analyses[key] = _find_static_parameters(context, function)
  return context.analyses[key]


def _find_static_parameters(context: Context, function: ir.Function) -> frozenset[int]:
  wanted: set[int] = set()
  _collect_wanted(context, function.body, wanted)
  positions = {number: index for index, number in enumerate(function.body.args)}
  small = (
    index for number, index in positions.items() if number in wanted and _is_small_integer(function.types[index])
  )
  return frozenset(small)


def _is_small_integer(kind: ir.Type) -> bool:
  if not isinstance(kind, ir.TensorType) or kind.dtype.kind not in "iub":
    return False
  size = 1
  for dim in kind.shape:
    size *= dim or 1
  return size <= MAX_SHAPE_SIZE


def _collect_wanted(context: Context, region: ir.Region, wanted: set[int]) -> None:
  """Adds to `wanted` the values that flow through integer ops into an operand that must be known."""
  for op in reversed(region.ops):
    for inner in op.regions:
      _collect_wanted(context, inner, wanted)
      if op.name == "stablehlo.while":
        wanted.update(inner.captures)
    wanted.update(_demanded(context, op))
    if any(number in wanted for number in op.results) and _yields_integers(op):
      wanted.update(op.operands)


def _demanded(context: Context, op: ir.Op) -> Any:
  if op.name == "func.call":
    callee = context.ir.functions[op.attrs.text("callee")]
    return (op.operands[index] for index in static_parameters(context, callee))
  positions = _STATIC_OPERANDS.get(op.name, ())
  return op.operands if positions is None else (op.operands[i] for i in positions if i < len(op.operands))


def _yields_integers(op: ir.Op) -> bool:
  return all(isinstance(kind, ir.TensorType) and kind.dtype.kind in "iub" for kind in op.types)
