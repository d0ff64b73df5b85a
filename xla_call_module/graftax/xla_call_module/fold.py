"""Evaluates ops on known integers with NumPy, so that trip counts, shapes and indices stay known while tracing."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graftax.xla_call_module import ir
from graftax.xla_call_module.lax_extras.symbolic_dims import InconclusiveDimensionOperation
from graftax.xla_call_module.values import Known, SymbolicArray, to_known

__all__ = ["MAX_FOLDED_SIZE", "evaluate", "try_fold"]

MAX_FOLDED_SIZE = 64


def try_fold(op: ir.Op, operands: Sequence[Any]) -> Known | None:
  """Returns the result if all operands are small known integers, else None."""
  rule = _RULES.get(op.name)
  if rule is None or not operands:
    return None
  if op.name == "stablehlo.broadcast_in_dim" and isinstance(operands[0], np.ndarray) and operands[0].size == 1:
    return _splat(op, operands[0])
  decided = _decided(op, operands)
  if decided is not None:
    return decided
  symbolic = False
  for value in operands:
    if isinstance(value, SymbolicArray):
      symbolic = True
    elif not isinstance(value, np.ndarray) or value.dtype.kind not in "iub" or value.size > MAX_FOLDED_SIZE:
      return None
  result = op.types[0]
  if not isinstance(result, ir.TensorType) or result.dtype.kind not in "iub":
    return None
  if symbolic:
    return _fold_symbolic(op, operands, result.dtype, rule)
  return evaluate(op, operands)


def _decided(op: ir.Op, operands: Sequence[Any]) -> np.ndarray | None:
  """Returns the result of an `and` with false or an `or` with true, for any other operand; else None.

  JAX exports `//` of a symbolic dimension with a correction for mixed signs. One half of that condition is known to be
  false; the other half cannot be decided.
  """
  deciding = {"stablehlo.and": False, "stablehlo.or": True}.get(op.name)
  if deciding is None:
    return None
  for value in operands:
    if (
      isinstance(value, np.ndarray)
      and value.dtype.kind == "b"
      and value.size <= MAX_FOLDED_SIZE
      and (value == deciding).all()
    ):
      return value
  return None


def _splat(op: ir.Op, x: np.ndarray) -> np.ndarray | None:
  """Broadcasts a known scalar of any dtype without a copy: the result has one element and zero strides."""
  result = op.types[0]
  if not isinstance(result, ir.TensorType) or not result.is_static:
    return None
  return np.broadcast_to(x.reshape(()), tuple(dim or 0 for dim in result.shape))


def _fold_symbolic(op: ir.Op, operands: Sequence[Any], dtype: np.dtype, rule: Callable[..., Any]) -> Known | None:
  if op.name in _BITS:
    return None
  objects = [value.dims if isinstance(value, SymbolicArray) else value.astype(object) for value in operands]
  try:
    result = rule(op, *objects)
  except InconclusiveDimensionOperation:
    return None
  return None if result is None else to_known(np.asarray(result, object), dtype)


def evaluate(op: ir.Op, operands: Sequence[np.ndarray]) -> np.ndarray | None:
  """Evaluates an op with NumPy, without a limit on size. Returns None if it has no rule or the rule does not apply."""
  rule = _RULES.get(op.name)
  if rule is None:
    return None
  with np.errstate(all="ignore"):
    result = rule(op, *operands)
  if result is None or not isinstance(op.types[0], ir.TensorType):
    return None
  return np.asarray(result).astype(op.types[0].dtype, copy=False)


def _are_sizes(x: np.ndarray, y: np.ndarray) -> bool:
  """Returns whether `x >= 0` and `y > 0`, so that rounding down equals rounding toward zero."""
  return all(dim >= 0 for dim in x.flat) and all(dim > 0 for dim in y.flat)


def _divide(op: ir.Op, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
  if x.dtype == object or y.dtype == object:
    return np.asarray(x // y) if _are_sizes(x, y) else None
  if not np.all(y):
    return None
  quotient = np.floor_divide(x, y)
  return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


def _remainder(op: ir.Op, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
  if x.dtype == object or y.dtype == object:
    return np.asarray(x % y) if _are_sizes(x, y) else None
  return np.fmod(x, y) if np.all(y) else None


def _sign(op: ir.Op, x: np.ndarray) -> np.ndarray:
  if x.dtype != object:
    return np.sign(x)
  return np.array([int(dim > 0) - int(dim < 0) for dim in x.flat], object).reshape(x.shape)


def _compare(op: ir.Op, x: np.ndarray, y: np.ndarray) -> np.ndarray:
  return _COMPARE[op.attrs.text("comparison_direction")](x, y)


def _is_equal(x: Any, y: Any) -> bool:
  # `==` of symbolic dimensions means "always equal". That they always differ is known only if they can be ordered.
  return bool(x == y) or not (x < y or x > y)


_equal_objects = np.frompyfunc(_is_equal, 2, 1)


def _equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  return np.asarray(_equal_objects(x, y), bool) if x.dtype == object or y.dtype == object else np.equal(x, y)


_COMPARE = {
  "EQ": _equal,
  "NE": lambda x, y: ~_equal(x, y),
  "LT": operator.lt,
  "LE": operator.le,
  "GT": operator.gt,
  "GE": operator.ge,
}


def _convert(op: ir.Op, x: np.ndarray) -> np.ndarray:
  dtype = op.type.dtype
  if x.dtype == object and dtype.kind != "b":
    return x
  return ~_equal(x, np.zeros_like(x)) if dtype.kind == "b" else x.astype(dtype)


def _broadcast_in_dim(op: ir.Op, x: np.ndarray) -> np.ndarray | None:
  result = op.type
  if not result.is_static or int(np.prod(result.static_shape, dtype=np.int64)) > MAX_FOLDED_SIZE:
    return None
  axes = op.attrs.integers("broadcast_dimensions")
  shape = [1] * result.rank
  for axis, dim in zip(axes, x.shape, strict=True):
    shape[axis] = dim
  in_order = np.transpose(x, np.argsort(axes))  # the axes may be in any order
  return np.array(np.broadcast_to(in_order.reshape(shape), result.static_shape))


def _reshape(op: ir.Op, x: np.ndarray) -> np.ndarray | None:
  return x.reshape(op.type.static_shape) if op.type.is_static else None


def _slice(op: ir.Op, x: np.ndarray) -> np.ndarray:
  bounds = zip(*map(op.attrs.integers, ("start_indices", "limit_indices", "strides")), strict=True)
  return x[tuple(slice(*bound) for bound in bounds)]


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
  def run(op: ir.Op, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    bits = x.dtype.itemsize * 8
    return function(x, y) if np.all((y >= 0) & (y < bits)) else None

  return run


def _shift_right_logical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  unsigned = np.dtype(f"u{x.dtype.itemsize}")
  return (x.astype(unsigned) >> y.astype(unsigned)).astype(x.dtype)


def _select(op: ir.Op, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
  return np.where(condition.astype(bool), x, y)


def _logical(bitwise: Callable[..., Any]) -> Callable[..., Any]:
  return lambda op, x, y: bitwise(x, y)


_BITS = frozenset({
    "stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.not", "stablehlo.shift_left",
    "stablehlo.shift_right_arithmetic", "stablehlo.shift_right_logical",
})  # fmt: skip

_RULES: dict[str, Callable[..., Any]] = {
  "stablehlo.add": lambda op, x, y: x | y if x.dtype.kind == "b" else x + y,
  "stablehlo.subtract": lambda op, x, y: None if x.dtype.kind == "b" else x - y,
  "stablehlo.multiply": lambda op, x, y: x & y if x.dtype.kind == "b" else x * y,
  "stablehlo.divide": _divide,
  "stablehlo.remainder": _remainder,
  "stablehlo.maximum": lambda op, x, y: np.maximum(x, y),
  "stablehlo.minimum": lambda op, x, y: np.minimum(x, y),
  "stablehlo.negate": lambda op, x: None if x.dtype.kind == "b" else 0 - x if x.dtype == object else np.negative(x),
  "stablehlo.abs": lambda op, x: np.abs(x),
  "stablehlo.sign": _sign,
  "stablehlo.and": _logical(np.bitwise_and),
  "stablehlo.or": _logical(np.bitwise_or),
  "stablehlo.xor": _logical(np.bitwise_xor),
  "stablehlo.not": lambda op, x: np.invert(x),
  "stablehlo.shift_left": _shift(np.left_shift),
  "stablehlo.shift_right_arithmetic": _shift(
    lambda x, y: np.right_shift(x.view(f"i{x.dtype.itemsize}"), y.view(f"i{x.dtype.itemsize}")).view(x.dtype)
  ),
  "stablehlo.shift_right_logical": _shift(_shift_right_logical),
  "stablehlo.compare": _compare,
  "stablehlo.select": _select,
  "stablehlo.clamp": lambda op, low, x, high: np.minimum(np.maximum(x, low), high),
  "stablehlo.convert": _convert,
  "stablehlo.broadcast_in_dim": _broadcast_in_dim,
  "stablehlo.reshape": _reshape,
  "stablehlo.slice": _slice,
  "stablehlo.concatenate": lambda op, *xs: np.concatenate(xs, op.attrs.integer("dimension")),
  "stablehlo.transpose": lambda op, x: np.transpose(x, op.attrs.integers("permutation")),
  "stablehlo.reverse": lambda op, x: np.flip(x, op.attrs.integers("dimensions")),
}
