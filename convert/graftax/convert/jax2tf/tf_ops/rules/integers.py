"""Division, wide products, shifts and bits of integers."""

from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import binary, cast, compare, full, joint_shape, same_shape, select
from graftax.convert.jax2tf.tf_ops.tensors import MAX_FOLDED_SIZE, Tensor
from graftax.convert.jax2tf.tf_ops.words import lacks_uint32
from graftax.graphdef_ir import DType
from graftax.xla_call_module.lax_extras import lowest

__all__ = ["bitcast"]

_BOOL_OPS = {"BitwiseAnd": "LogicalAnd", "BitwiseOr": "LogicalOr", "BitwiseXor": "NotEqual"}


@rule("div")
def div(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the quotient; of integers rounded towards zero, and -1 (all bits set) if the divisor is zero."""
  if x.is_inexact:
    reciprocals = _reciprocals(y.narrow if y.narrow is not None and same_shape(x.shape, y.shape) else y)
    return binary(b, "RealDiv", x, y) if reciprocals is None else binary(b, "Mul", x, b.constant(reciprocals))
  shape = joint_shape(x, y)
  quotient = _truncated(b, x, _safe_divisor(b, x, y))
  if _is_nonzero(y):
    return quotient
  of_zero = full(b, x, -1 if x.is_signed else np.iinfo(x.dtype).max)
  return select(b, compare(b, "Equal", y, 0), of_zero, quotient, shape)


def _reciprocals(y: Tensor) -> np.ndarray | None:
  """Returns the reciprocals of several known divisors, with which XLA multiplies; None if the quotient would differ.

  TensorFlow's optimizer multiplies with them, too. It computes 8 and more in a way that makes 1 / 1 less than 1.
  """
  value = y.value
  if value is None or value.dtype not in (np.float32, np.float64) or not 1 < value.size <= MAX_FOLDED_SIZE:
    return None
  with np.errstate(all="ignore"):
    reciprocals = np.reciprocal(value)
  least = np.finfo(y.dtype).tiny
  is_normal = (np.abs(value) >= least) & (np.abs(reciprocals) >= least) & np.isfinite(value) & np.isfinite(reciprocals)
  return reciprocals if np.all(is_normal) else None


@rule("rem")
def rem(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the remainder of `div`, which has the sign of `x`; `x` itself if an integer divisor is zero."""
  shape = joint_shape(x, y)
  if x.is_float:
    wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    if b.library.consumer == "onnx":
      return cast(b, _remainder_by_steps(b, x, y), x.dtype)
    if b.lacks("TruncateMod"):
      return cast(b, _float_remainder(b, cast(b, x, wide), cast(b, y, wide)), x.dtype)
    return cast(b, b.op("TruncateMod", cast(b, x, wide), cast(b, y, wide), shape=shape), x.dtype)
  divisor = _safe_divisor(b, x, y)
  if x.dtype in (np.int32, np.int64) and not b.lacks("TruncateMod"):
    found = b.op("TruncateMod", x, divisor, shape=shape)
  else:
    quotient = _truncated(b, x, divisor)
    found = b.op("Sub", x, b.op("Mul", quotient, divisor, shape=shape), shape=shape)
  return found if _is_nonzero(y) else select(b, compare(b, "Equal", y, 0), x, found, shape)


def _truncated(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the quotient of integers, rounded towards zero; the divisor is not zero, and the quotient fits."""
  shape = joint_shape(x, y)
  if not b.lacks("TruncateDiv"):
    return b.op("TruncateDiv", x, y, shape=shape)
  down = b.op("FloorDiv", x, y, shape=shape)
  rest = b.op("Sub", x, b.op("Mul", down, y, shape=shape), shape=shape)
  # Rounded down, the remainder has the sign of the divisor; rounded towards zero, that of the dividend.
  other_sign = b.op("NotEqual", compare(b, "Less", x, 0), compare(b, "Less", y, 0), shape=shape)
  inexact = b.op("LogicalAnd", compare(b, "NotEqual", rest, 0), other_sign, shape=shape)
  return select(b, inexact, b.op("AddV2", down, full(b, down, 1), shape=shape), down, shape)


def _float_remainder(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the remainder by FloorMod of absolute values, for which it equals TruncateMod."""
  shape = joint_shape(x, y)
  is_negative = compare(b, "Less", x, 0)
  # Unlike Abs this keeps the sign of zero.
  size = select(b, is_negative, b.op("Neg", x, shape=x.shape), x, x.shape)
  found = b.op("FloorMod", size, b.op("Abs", y, shape=y.shape), shape=shape)
  return select(b, is_negative, b.op("Neg", found, shape=shape), found, shape)


# The quotient of two numbers of float32 has less than 278 bits before the point, and a step takes 26 of them.
_BITS, _NUM_STEPS = 26, 11


def _remainder_by_steps(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the remainder by long division in float64.

  tf2onnx writes FloorMod as `x - floor(x / y) * y`, which is wrong if the quotient has more digits than the dtype, and
  NaN if the divisor is infinite. A digit of `_BITS` bits times a divisor of 24 bits is exact in float64.
  """
  if x.dtype == np.float64:
    raise Unsupported("the converter to onnx computes remainders of float64 wrongly")
  shape, wide = joint_shape(x, y), np.dtype(np.float64)
  is_negative = compare(b, "Less", x, 0)
  # Unlike Abs this keeps the sign of zero.
  size = select(b, is_negative, b.op("Neg", x, shape=x.shape), x, x.shape)
  dividend = cast(b, size, wide)
  divisor = cast(b, b.op("Abs", y, shape=y.shape), wide)
  rest = dividend
  for step in reversed(range(_NUM_STEPS)):
    scaled = b.op("Mul", divisor, np.float64(2.0 ** (step * _BITS)), shape=y.shape)
    digit = b.op("Floor", b.op("RealDiv", rest, scaled, shape=shape), shape=shape)
    rest = b.op("Sub", rest, b.op("Mul", digit, scaled, shape=shape), shape=shape)
  # Also if the divisor is infinite, or the dividend is -0.
  is_smaller = b.op("Less", dividend, divisor, shape=shape)
  found = select(b, is_smaller, size, cast(b, rest, x.dtype), shape)
  return select(b, is_negative, b.op("Neg", found, shape=shape), found, shape)


def _safe_divisor(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the divisor, or 1 where it is zero or the quotient would overflow; the processor stops at both."""
  if _is_nonzero(y) and not (x.is_signed and np.any(y.value == -1)):
    return y
  shape = joint_shape(x, y)
  unsafe = compare(b, "Equal", y, 0)
  if x.is_signed:
    overflow = b.op("LogicalAnd", compare(b, "Equal", y, -1), compare(b, "Equal", x, lowest(x.dtype)), shape=shape)
    unsafe = b.op("LogicalOr", unsafe, overflow, shape=shape)
  return select(b, unsafe, full(b, y, 1), y, shape)


def _is_nonzero(y: Tensor) -> bool:
  return y.value is not None and bool(np.all(y.value != 0))


@rule("mulhi")
def mulhi(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the high words of the products of integers, a primitive since JAX 0.10.2."""
  unsigned = np.dtype(f"u{x.dtype.itemsize}")
  shape = joint_shape(x, y)
  first, second = bitcast(b, x, unsigned), bitcast(b, y, unsigned)
  high = _unsigned_mulhi(b, first, second)
  if x.is_signed:
    # As unsigned numbers, negative ones are larger by 2**bits.
    for number, other in ((x, second), (y, first)):
      term = select(b, compare(b, "Less", number, 0), other, full(b, other, 0), shape)
      high = b.op("Sub", high, term, shape=shape)
  return bitcast(b, high, x.dtype)


def _unsigned_mulhi(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns high words of products of two words, or put together from products of half words if there are no two."""
  bits = 8 * x.dtype.itemsize
  shape = joint_shape(x, y)
  if bits < 64 and not lacks_uint32(b.library.consumer):
    wide = np.dtype(f"u{2 * x.dtype.itemsize}")
    product = b.op("Mul", cast(b, x, wide), cast(b, y, wide), shape=shape)
    return cast(b, b.op("RightShift", product, full(b, product, bits), shape=shape), x.dtype)

  def low(z: Tensor) -> Tensor:
    return b.op("BitwiseAnd", z, full(b, z, (1 << bits // 2) - 1), shape=z.shape)

  def high(z: Tensor) -> Tensor:
    return b.op("RightShift", z, full(b, z, bits // 2), shape=z.shape)

  def multiply_add(m: Tensor, n: Tensor, z: Tensor) -> Tensor:
    return b.op("AddV2", b.op("Mul", m, n, shape=shape), z, shape=shape)

  # No sum exceeds a word: (2**h - 1)**2 + 2**h - 1 < 2**(2 * h).
  first = multiply_add(high(x), low(y), high(b.op("Mul", low(x), low(y), shape=shape)))
  second = multiply_add(low(x), high(y), low(first))
  return b.op("AddV2", multiply_add(high(x), high(y), high(first)), high(second), shape=shape)


@rule("and")
def bitwise_and(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the bits that are set in both, or the conjunction."""
  return _bitwise(b, "BitwiseAnd", x, y)


@rule("or")
def bitwise_or(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the bits that are set in one of two, or the disjunction."""
  return _bitwise(b, "BitwiseOr", x, y)


@rule("xor")
def bitwise_xor(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the bits that differ."""
  return _bitwise(b, "BitwiseXor", x, y)


def _bitwise(b: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
  return binary(b, _BOOL_OPS[op] if x.dtype == np.bool_ else op, x, y)


@rule("not")
def bitwise_not(b: Builder, x: Tensor) -> Tensor:
  """Returns the complement of the bits, or the negation."""
  return b.op("LogicalNot" if x.dtype == np.bool_ else "Invert", x, shape=x.shape)


@rule("shift_left")
def shift_left(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the bits moved up; zero if they are moved by their number or more."""
  return _shift(b, "LeftShift", x, y)


@rule("shift_right_logical")
def shift_right_logical(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the bits moved down, with zeros above."""
  unsigned = np.dtype(f"u{x.dtype.itemsize}")
  return bitcast(b, _shift(b, "RightShift", bitcast(b, x, unsigned), bitcast(b, y, unsigned)), x.dtype)


@rule("shift_right_arithmetic")
def shift_right_arithmetic(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the bits moved down, with copies of the sign above."""
  signed = np.dtype(f"i{x.dtype.itemsize}")
  return bitcast(b, _shift(b, "RightShift", bitcast(b, x, signed), bitcast(b, y, signed)), x.dtype)


def _shift(b: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
  """Returns a shift. TensorFlow shifts by at most the number of bits minus one, and by negative numbers not at all."""
  bits = 8 * x.dtype.itemsize
  if y.value is not None and np.all((y.value >= 0) & (y.value < bits)):
    return binary(b, op, x, y)
  shape = joint_shape(x, y)
  if y.value is not None:
    is_inside = (y.value >= 0) & (y.value < bits)
    inside, limited = b.constant(is_inside), b.constant(np.where(is_inside, y.value, y.value.dtype.type(bits - 1)))
  else:
    inside = compare(b, "Less", y, bits)
    if y.is_signed:
      inside = b.op("LogicalAnd", inside, compare(b, "GreaterEqual", y, 0), shape=y.shape)
    limited = select(b, inside, y, full(b, y, bits - 1), y.shape)
  shifted = b.op(op, x, limited, shape=shape)
  if op == "RightShift" and x.is_signed:
    return shifted
  return select(b, inside, shifted, full(b, x, 0), shape)


@rule("population_count")
def population_count(b: Builder, x: Tensor) -> Tensor:
  """Returns the number of bits that are set."""
  return cast(b, b.op("PopulationCount", x, shape=x.shape), x.dtype)


@rule("clz")
def clz(b: Builder, x: Tensor) -> Tensor:
  """Returns the number of zeros above the highest bit that is set."""
  unsigned = np.dtype(f"u{x.dtype.itemsize}")
  bits = 8 * x.dtype.itemsize
  filled = bitcast(b, x, unsigned)
  distance = 1
  while distance < bits:  # sets all bits below the highest one
    moved = b.op("RightShift", filled, full(b, filled, distance), shape=x.shape)
    filled = b.op("BitwiseOr", filled, moved, shape=x.shape)
    distance *= 2
  ones = cast(b, b.op("PopulationCount", filled, shape=x.shape), x.dtype)
  return b.op("Sub", full(b, x, bits), ones, shape=x.shape)


@rule("bitcast_convert_type")
def bitcast_convert_type(b: Builder, x: Tensor, *, new_dtype: Any, out: Any) -> Tensor:
  """Returns the same bits as another dtype; if it has another size, the last axis changes."""
  dtype = np.dtype(new_dtype)
  if dtype.itemsize == x.dtype.itemsize:
    return bitcast(b, x, dtype)
  return b.op("Bitcast", x, shape=out.shape, type=DType.from_numpy(dtype))


def bitcast(b: Builder, x: Tensor, dtype: "np.dtype[Any]") -> Tensor:
  """Returns the same bits as a dtype of the same size."""
  if x.dtype == dtype:
    return x
  if x.value is not None:
    return b.constant(x.value.view(dtype))
  if b.lacks("Bitcast") and x.is_integer:
    if dtype.kind in "iu":
      return cast(b, x, dtype)  # integers wrap around
    if dtype == np.float32:
      return _float_of_bits(b, cast(b, x, np.uint32))
  return b.op("Bitcast", x, shape=x.shape, type=DType.from_numpy(dtype))


def _float_of_bits(b: Builder, bits: Tensor) -> Tensor:
  """Returns the float32 whose bits are integers: a product of its sign, its power of two and its fraction.

  All NaN are one.
  """
  shape, mantissa_bits, infinite = bits.shape, 23, 255

  def field(first: int, width: int) -> Tensor:
    moved = b.op("RightShift", bits, full(b, bits, first), shape=shape) if first else bits
    return b.op("BitwiseAnd", moved, full(b, bits, (1 << width) - 1), shape=shape)

  sign = cast(b, cast(b, field(31, 1), np.int32), np.float32)
  exponent = cast(b, field(mantissa_bits, 8), np.int32)
  mantissa = cast(b, cast(b, field(0, mantissa_bits), np.int32), np.float32)
  with np.errstate(over="ignore"):
    powers = np.float32(2) ** np.maximum(np.arange(infinite + 1) - 127, -126).astype(np.float32)
  scale = b.op("GatherV2", powers, exponent, np.int32(0), shape=shape)
  is_normal = cast(b, b.op("Minimum", exponent, np.int32(1), shape=shape), np.float32)
  fraction = b.op("Mul", mantissa, np.float32(2.0**-mantissa_bits), shape=shape)
  size = b.op("Mul", scale, b.op("AddV2", is_normal, fraction, shape=shape), shape=shape)
  signs = b.op("Sub", np.float32(1), b.op("Mul", sign, np.float32(2), shape=shape), shape=shape)
  number = b.op("Mul", signs, size, shape=shape)
  is_nan = b.op("LogicalAnd", compare(b, "Equal", exponent, infinite), compare(b, "Greater", mantissa, 0), shape=shape)
  return select(b, is_nan, np.float32(np.nan), number, shape)
