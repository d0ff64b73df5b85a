"""Evaluates ops on 64-bit integers in 32 bits while 64-bit types are disabled, if bounds prove that this is exact.

JAX uses 64-bit integers even in modules that are otherwise 32-bit (splitting a random key counts in ui64), so such
modules must be supported. Most of these values have bounds (`BoundedInt64`); an op raises if its result may not fit 32
bits. Bit casts, and products of unsigned integers, return all 64 bits (`Int64Pair`), which few ops accept.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jax import Array, lax

from graftax.xla_call_module import errors, ir, registry, values
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.jax_versions import mulhi
from graftax.xla_call_module.lax_extras.int64_pairs import Int64Pair

__all__ = ["BoundedInt64", "concerns", "evaluate", "uses_64_bits"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundedInt64:
  """A 64-bit integer array stored in 32 bits (`value`), whose entries lie between `low` and `high`."""

  value: Array | np.ndarray
  dtype: np.dtype
  low: int
  high: int

  @property
  def shape(self) -> tuple[int, ...]:
    return np.shape(self.value)


def _is_64_bit(kind: Any) -> bool:
  return isinstance(kind, ir.TensorType) and values.is_64_bit(kind.dtype)


def uses_64_bits(module_ir: ir.ModuleIR, types: Iterable[Any]) -> bool:
  """Returns whether any value of a module has a 64-bit type, given the types of the results of all ops."""
  given = (kind for function in module_ir.functions.values() for kind in function.types)
  return any(map(_is_64_bit, given)) or any(map(_is_64_bit, types))


def concerns(op: ir.Op, operands: Sequence[Any]) -> bool:
  """Returns whether `evaluate` must run the op, because an operand or a result is a 64-bit value."""
  if any(map(_is_64_bit, op.types)):
    return op.name not in ("stablehlo.constant", "func.call", "stablehlo.get_dimension_size")
  if op.name in _TAKE_SHAPES and not any(isinstance(value, (BoundedInt64, Int64Pair)) for value in operands):
    return False
  for value in operands:
    if isinstance(value, (BoundedInt64, Int64Pair)) or (
      isinstance(value, np.ndarray) and value.dtype.itemsize == 8 and value.dtype.kind in "iu"
    ):
      return op.name != "func.call"
  return False


_TAKE_SHAPES = frozenset({
    "stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_reshape", "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad", "stablehlo.real_dynamic_slice", "stablehlo.dynamic_gather", "stablehlo.dynamic_conv",
    "stablehlo.custom_call", "stablehlo.rng",
})  # fmt: skip


def evaluate(context: Context, op: ir.Op, operands: Sequence[Any]) -> Any:
  """Evaluates an op on 64-bit integers in 32 bits.

  Raises:
    X64Error: the bounds do not prove that this is exact, or the op is not supported in 32 bits.
  """
  rule = _RULES.get(op.name)
  if rule is None and op.name in _INDEX_OPS and not any(map(_is_64_bit, op.types)):
    indices = [_index(op, value) for value in operands]
    return registry.ops[op.name].function(context, op, *map(values.materialize, indices))
  if op.name == "stablehlo.rng_bit_generator" and isinstance(operands[0], Int64Pair) and not _is_64_bit(op.types[1]):
    return registry.ops[op.name].function(context, op, *operands)
  if any(isinstance(value, Int64Pair) for value in operands) and op.name not in _TAKE_WORDS:
    raise _error(op)
  if rule is None:
    raise _error(op)
  bounded = [_bounded(op, value) for value in operands]
  return rule(op, *bounded)


_TAKE_WORDS = ("stablehlo.bitcast_convert", "stablehlo.shift_right_logical")


def _error(op: ir.Op, why: str = "") -> errors.X64Error:
  made = ", ".join(map(str, op.types)) or "no results"
  return errors.X64Error(
    f"{op.place} computes in 64 bits (returns {made}){why} and 64-bit types are disabled in JAX. Set jax_enable_x64,"
    " or lift with x64='enable' to trace this module with 64-bit types enabled; values are never truncated."
  )


def _bounded(op: ir.Op, value: object) -> Any:
  """Converts a known 64-bit integer array to a `BoundedInt64`; returns other values unchanged."""
  if not isinstance(value, np.ndarray) or value.dtype.itemsize != 8 or value.dtype.kind not in "iu":
    return value
  low, high = (int(value.min()), int(value.max())) if value.size else (0, 0)
  return _checked(op, value, value.dtype, low, high)


def _checked(op: ir.Op, value: Any, dtype: np.dtype, low: int, high: int) -> BoundedInt64:
  """Returns a value with bounds that fit 32 bits; `value` is None if the caller fills it in."""
  narrow = np.dtype(f"{dtype.kind}4")
  limits = np.iinfo(narrow)
  if low < limits.min or high > limits.max:
    raise _error(op, f" with values between {low} and {high}, which do not fit {narrow.name},")
  if isinstance(value, np.ndarray) and not any(value.strides) and value.size:
    scalar = value.reshape(-1)[:1].astype(narrow) if value.ndim == 0 else value[(0,) * value.ndim].astype(narrow)
    value = np.broadcast_to(scalar.reshape(()), value.shape)
  elif isinstance(value, np.ndarray):
    value = value.astype(narrow)
  return BoundedInt64(value, dtype, low, high)


def _index(op: ir.Op, value: object) -> Any:
  bounded = _bounded(op, value)
  return bounded.value if isinstance(bounded, BoundedInt64) else value


_INDEX_OPS = frozenset({
    "stablehlo.gather", "stablehlo.scatter", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice",
})  # fmt: skip


def _structural(op: ir.Op, x: BoundedInt64, *rest: Any) -> BoundedInt64:
  """Applies the ordinary lowering of an op that only rearranges entries to the 32-bit array."""
  shapes = [value.value if isinstance(value, BoundedInt64) else value for value in rest]
  result = registry.ops[op.name].function(None, op, values.materialize(x.value), *shapes)
  return BoundedInt64(result, x.dtype, x.low, x.high)


def _iota(op: ir.Op) -> BoundedInt64:
  dtype = op.type.dtype
  size = op.type.static_shape[op.attrs.integer("iota_dimension")]
  checked = _checked(op, None, dtype, 0, max(size - 1, 0))
  value = lax.broadcasted_iota(np.dtype(f"{dtype.kind}4"), op.type.shape, op.attrs.integer("iota_dimension"))
  return dataclasses.replace(checked, value=value)


def _dynamic_iota(op: ir.Op, shape: Any) -> BoundedInt64:
  dims = values.as_dims(shape.value if isinstance(shape, BoundedInt64) else shape)
  if dims is None or not isinstance(dims[op.attrs.integer("iota_dimension")], int):
    raise _error(op)
  return _iota(dataclasses.replace(op, types=(ir.TensorType(dims, op.type.dtype),)))


def _arithmetic(function: Callable[..., Any], bound: Callable[..., int]) -> Callable[..., Any]:
  def run(op: ir.Op, x: BoundedInt64, y: BoundedInt64) -> BoundedInt64:
    corners = [bound(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    checked = _checked(op, None, x.dtype, min(corners), max(corners))
    return dataclasses.replace(checked, value=function(_operand(x), _operand(y)))

  return run


_small_product = _arithmetic(lax.mul, lambda a, b: a * b)


def _operand(x: BoundedInt64) -> Array:
  return values.materialize(x.value)


def _one(x: BoundedInt64 | Int64Pair) -> int | None:
  return x.low if isinstance(x, BoundedInt64) and x.low == x.high else None


def _multiply(op: ir.Op, x: BoundedInt64, y: BoundedInt64) -> BoundedInt64 | Int64Pair:
  """Multiplies; `jax.lax.mulhi`, for example, needs both words of a product of unsigned integers."""
  if x.dtype.kind == "u" and x.high * y.high > np.iinfo(np.uint32).max:
    a, b = _operand(x), _operand(y)
    return Int64Pair(lax.mul(a, b), mulhi(a, b), x.dtype)
  return _small_product(op, x, y)


def _shift_right_logical(op: ir.Op, x: BoundedInt64 | Int64Pair, y: BoundedInt64 | Int64Pair) -> BoundedInt64:
  shift = _one(y)
  if isinstance(x, Int64Pair):
    if shift != 32 or x.dtype.kind != "u":
      raise _error(op)
    return BoundedInt64(x.high, x.dtype, 0, np.iinfo(np.uint32).max)
  if x.low < 0 or shift is None or shift < 0:
    raise _error(op)
  narrow = np.dtype(f"{x.dtype.kind}4")
  if shift >= 32:
    return BoundedInt64(np.broadcast_to(np.zeros((), narrow), x.shape), x.dtype, 0, 0)
  value = lax.shift_right_logical(_operand(x), lax.full(x.shape, shift, narrow))
  return BoundedInt64(value, x.dtype, x.low >> shift, x.high >> shift)


def _and(op: ir.Op, x: BoundedInt64, y: BoundedInt64) -> BoundedInt64:
  if x.low < 0 or y.low < 0:
    raise _error(op)
  return BoundedInt64(lax.bitwise_and(_operand(x), _operand(y)), x.dtype, 0, min(x.high, y.high))


def _convert(op: ir.Op, x: Any) -> Any:
  dtype = op.type.dtype
  if isinstance(x, BoundedInt64) and not _is_64_bit(op.type):
    return lax.convert_element_type(_operand(x), dtype)
  if isinstance(x, BoundedInt64):
    return dataclasses.replace(_checked(op, None, dtype, x.low, x.high), value=_operand(x).astype(f"{dtype.kind}4"))
  if dtype.kind not in "iu" or x.dtype.kind not in "iub":
    raise _error(op)
  limits = np.iinfo(x.dtype) if x.dtype.kind != "b" else np.iinfo(np.int8)
  low = 0 if x.dtype.kind == "b" else int(limits.min)
  checked = _checked(op, None, dtype, low, int(limits.max))
  return dataclasses.replace(checked, value=lax.convert_element_type(x, np.dtype(f"{dtype.kind}4")))


def _compare(op: ir.Op, x: BoundedInt64, y: BoundedInt64) -> Any:
  return registry.ops[op.name].function(None, op, _operand(x), _operand(y))


def _select(op: ir.Op, condition: Any, x: BoundedInt64, y: BoundedInt64) -> BoundedInt64:
  value = lax.select_n(values.materialize(condition), _operand(y), _operand(x))
  return BoundedInt64(value, x.dtype, min(x.low, y.low), max(x.high, y.high))


def _concatenate(op: ir.Op, *xs: BoundedInt64) -> BoundedInt64:
  value = lax.concatenate([_operand(x) for x in xs], op.attrs.integer("dimension"))
  return BoundedInt64(value, xs[0].dtype, min(x.low for x in xs), max(x.high for x in xs))


def _bitcast(op: ir.Op, x: Any) -> Any:
  """Converts between two words of 32 bits and 64-bit integers."""
  if isinstance(x, Int64Pair) and op.type.dtype.itemsize == 4:
    return lax.bitcast_convert_type(x.words, op.type.dtype)
  if isinstance(x, (BoundedInt64, Int64Pair)) or x.dtype.itemsize != 4 or op.type.dtype.kind not in "iu":
    raise _error(op)
  return Int64Pair.from_words(lax.bitcast_convert_type(x, np.uint32), op.type.dtype)


_RULES: dict[str, Callable[..., Any]] = {
  "stablehlo.bitcast_convert": _bitcast,
  "stablehlo.iota": _iota,
  "stablehlo.dynamic_iota": _dynamic_iota,
  "stablehlo.dynamic_broadcast_in_dim": _structural,
  "stablehlo.dynamic_reshape": _structural,
  "stablehlo.add": _arithmetic(lax.add, lambda a, b: a + b),
  "stablehlo.subtract": _arithmetic(lax.sub, lambda a, b: a - b),
  "stablehlo.multiply": _multiply,
  "stablehlo.maximum": _arithmetic(lax.max, max),
  "stablehlo.minimum": _arithmetic(lax.min, min),
  "stablehlo.shift_right_logical": _shift_right_logical,
  "stablehlo.and": _and,
  "stablehlo.convert": _convert,
  "stablehlo.compare": _compare,
  "stablehlo.select": _select,
  "stablehlo.concatenate": _concatenate,
  "stablehlo.broadcast_in_dim": _structural,
  "stablehlo.reshape": _structural,
  "stablehlo.transpose": _structural,
  "stablehlo.slice": _structural,
  "stablehlo.reverse": _structural,
}
