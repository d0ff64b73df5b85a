"""Functions of one or two numbers, element by element."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules import _error_functions as error_functions
from graftax.convert.jax2tf.tf_ops.rules._common import (
  at_least_float32,
  binary,
  cast,
  compare,
  full,
  joint_shape,
  select,
  through,
)
from graftax.convert.jax2tf.tf_ops.rules._special_functions import AT_EDGES
from graftax.convert.jax2tf.tf_ops.rules._traced import traced
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType

__all__ = ["complex_extreme"]

# primitive -> TensorFlow op of one input and one output.
_UNARY = {
  "acos": "Acos",
  "acosh": "Acosh",
  "asin": "Asin",
  "asinh": "Asinh",
  "atan": "Atan",
  "atanh": "Atanh",
  "bessel_i0e": "BesselI0e",
  "bessel_i1e": "BesselI1e",
  "ceil": "Ceil",
  "cos": "Cos",
  "cosh": "Cosh",
  "exp": "Exp",
  "floor": "Floor",
  "is_finite": "IsFinite",
  "lgamma": "Lgamma",
  "log": "Log",
  "logistic": "Sigmoid",
  "rsqrt": "Rsqrt",
  "sin": "Sin",
  "sinh": "Sinh",
  "sqrt": "Sqrt",
  "square": "Square",
  "tan": "Tan",
  "tanh": "Tanh",
}
_BINARY = {
  "add": "AddV2",
  "add_any": "AddV2",
  "igamma": "Igamma",
  "igamma_grad_a": "IgammaGradA",
  "igammac": "Igammac",
  "mul": "Mul",
  "polygamma": "Polygamma",
  "random_gamma_grad": "RandomGammaGrad",
  "sub": "Sub",
  "zeta": "Zeta",
}


def _register_unary(primitive: str, op: str) -> None:
  @rule(primitive)
  def unary(b: Builder, x: Tensor) -> Tensor:
    if op == "Tanh" and x.is_float and b.library.consumer == "tfjs":
      # The converter fuses a Tanh with the product and sum before it, which the CPU backend of TF.js does not have.
      return through(b, "Neg", [through(b, op, [through(b, "Neg", [x])])])
    return through(b, op, [x])


# TensorFlow's kernels for float32 are wrong below -7 (the first two), or lose digits from 1e4 on (TensorFlow 2.21).
_IN_FLOAT64 = ("Polygamma", "Zeta", "Igamma", "IgammaGradA", "Igammac")


def _register_binary(primitive: str, op: str) -> None:
  @rule(primitive)
  def of_two(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    wide = np.dtype(np.float64) if op in _IN_FLOAT64 else x.dtype
    found = cast(b, binary(b, op, cast(b, x, wide), cast(b, y, wide)), x.dtype)
    return traced(b, AT_EDGES[op], [x, y, found]) if op in AT_EDGES else found


for _primitive, _op in _UNARY.items():
  _register_unary(_primitive, _op)
for _primitive, _op in _BINARY.items():
  _register_binary(_primitive, _op)


@rule("atan2")
def atan2(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the angle of a point. TFLite does not broadcast the op."""
  if b.library.consumer == "tflite":
    shape = joint_shape(x, y)
    x, y = (b.op("BroadcastTo", operand, b.shape(shape), shape=shape) for operand in (x, y))
  return binary(b, "Atan2", x, y)


@rule("neg")
def neg(b: Builder, x: Tensor) -> Tensor:
  """Returns the negative; that of unsigned integers wraps around."""
  if x.dtype.kind == "u":
    # TensorFlow's optimizer makes `0 - x` a Neg, which has no unsigned integers.
    return b.op("AddV2", b.op("Invert", x, shape=x.shape), full(b, x, 1), shape=x.shape)
  return b.op("Neg", x, shape=x.shape)


@rule("max")
def maximum(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the larger of two values; NaN if one is."""
  return _extreme(b, "Maximum", "LogicalOr", x, y)


@rule("min")
def minimum(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the smaller of two values; NaN if one is."""
  return _extreme(b, "Minimum", "LogicalAnd", x, y)


def _extreme(b: Builder, op: str, of_bools: str, x: Tensor, y: Tensor) -> Tensor:
  if x.dtype.kind == "c":
    return complex_extreme(b, op, x, y)
  if op == "Maximum" and b.library.consumer == "tflite" and x.dtype.kind in "iu":
    # With a minimum with 6, TFLite's converter makes a Relu6 of it, which it does not have for integers.
    for zero, other in ((x, y), (y, x)):
      value = (zero.narrow or zero).value
      if value is not None and not np.any(value) and other.shape == joint_shape(x, y):
        return select(b, compare(b, "Greater", other, 0), other, full(b, other, 0), other.shape)
  return binary(b, of_bools if x.dtype == np.bool_ else op, x, y)


def complex_extreme(b: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
  """Returns the extremes of complex numbers in the order of their real parts, then of their imaginary parts."""
  is_first = jnp.greater if op == "Maximum" else jnp.less

  def extreme(x: jax.Array, y: jax.Array) -> jax.Array:
    of_imaginary, of_real = is_first(x.imag, y.imag), is_first(x.real, y.real)
    return jnp.where(jnp.where(x.real == y.real, of_imaginary, of_real), x, y)

  return traced(b, extreme, [x, y])


@rule("clamp")
def clamp(b: Builder, low: Tensor, x: Tensor, high: Tensor) -> Tensor:
  """Returns `x` between bounds, which may be scalars."""
  at_least = b.op("Maximum", x, low, shape=x.shape)
  return b.op("Minimum", at_least, high, shape=x.shape)


@rule("complex")
def complex_(b: Builder, x: Tensor, y: Tensor, *, out: Any) -> Tensor:
  """Returns complex numbers of real and imaginary parts."""
  return b.op("Complex", x, y, shape=out.shape, Tout=DType.from_numpy(out.dtype))


@rule("conj", ignores=("input_dtype",))
def conj(b: Builder, x: Tensor, *, out: Any) -> Tensor:
  """Returns the complex conjugate; of a real number, the complex number."""
  return b.op("Conj", x, shape=x.shape) if x.dtype.kind == "c" else cast(b, x, out.dtype)


@rule("real")
def real(b: Builder, x: Tensor, *, out: Any) -> Tensor:
  """Returns the real part."""
  return b.op("Real", x, shape=x.shape, Tout=DType.from_numpy(out.dtype))


@rule("imag")
def imag(b: Builder, x: Tensor, *, out: Any) -> Tensor:
  """Returns the imaginary part."""
  return b.op("Imag", x, shape=x.shape, Tout=DType.from_numpy(out.dtype))


@rule("abs")
def absolute(b: Builder, x: Tensor, *, out: Any) -> Tensor:
  """Returns the absolute value."""
  if x.dtype.kind == "c":
    return b.op("ComplexAbs", x, shape=x.shape, Tout=DType.from_numpy(out.dtype))
  return x if x.dtype.kind in "ub" else b.op("Abs", x, shape=x.shape)


@rule("sign")
def sign(b: Builder, x: Tensor) -> Tensor:
  """Returns -1, 0 or 1."""
  if x.dtype.kind == "u":
    return cast(b, b.op("NotEqual", x, np.zeros((), x.dtype), shape=x.shape), x.dtype)
  return b.op("Sign", x, shape=x.shape)


@rule("exp2")
def exp2(b: Builder, x: Tensor) -> Tensor:
  """Returns two to the power of `x`."""
  wide = at_least_float32(b, x)
  return cast(b, b.op("Pow", full(b, wide, 2), wide, shape=x.shape), x.dtype)


@rule("digamma")
def digamma(b: Builder, x: Tensor) -> Tensor:
  """Returns the derivative of lgamma. At zero, TensorFlow has NaN, and JAX -inf since 0.12."""
  found = through(b, "Digamma", [x])
  with jax.ensure_compile_time_eval():
    at_zero = np.asarray(jax.lax.digamma(jnp.zeros((), np.float32)))
  if np.isnan(at_zero):
    return found
  return select(b, compare(b, "Equal", x, 0), full(b, x, at_zero), found, x.shape)


@rule("log2")
def log2(b: Builder, x: Tensor) -> Tensor:
  """Returns the logarithm to base 2, which is a primitive since JAX 0.12."""
  return b.op("Mul", through(b, "Log", [x]), full(b, x, 1 / np.log(2)), shape=x.shape)


@rule("polynomial", ignores=("unroll",))
def polynomial(b: Builder, x: Tensor, *coefficients: Tensor) -> Tensor:
  """Returns a polynomial by Horner's rule; a primitive since JAX 0.12, with the constant coefficient first.

  JAX begins with zero, so that infinite `x` give NaN. Operands may be scalars, or have axes of size 1.
  """
  found = full(b, x, 0)
  for coefficient in reversed(coefficients):
    product = b.op("Mul", found, x, shape=joint_shape(found, x))
    found = b.op("AddV2", product, coefficient, shape=joint_shape(product, coefficient))
  return found


@rule("cbrt")
def cbrt(b: Builder, x: Tensor) -> Tensor:
  """Returns the real cube root."""
  wide = at_least_float32(b, x)  # 1/3 has too few bits in 16 bits
  root = b.op("Pow", b.op("Abs", wide, shape=x.shape), full(b, wide, 1 / 3), shape=x.shape)
  return cast(b, b.op("Mul", b.op("Sign", wide, shape=x.shape), root, shape=x.shape), x.dtype)


@rule("erf")
def erf(b: Builder, x: Tensor) -> Tensor:
  """Returns the error function."""
  if b.lacks("Erf") and x.dtype != np.float64:
    return cast(b, error_functions.erf(b, at_least_float32(b, x)), x.dtype)
  if x.dtype == np.float64:
    # TensorFlow's kernel returns NaN for infinity. From 6 on the result is 1.
    x = b.op("Minimum", b.op("Maximum", x, full(b, x, -6), shape=x.shape), full(b, x, 6), shape=x.shape)
  return through(b, "Erf", [x])


@rule("erfc")
def erfc(b: Builder, x: Tensor) -> Tensor:
  """Returns one minus the error function."""
  if b.lacks("Erfc") and x.dtype != np.float64:
    return cast(b, error_functions.erfc(b, at_least_float32(b, x)), x.dtype)
  return through(b, "Erfc", [x])


@rule("expm1")
def expm1(b: Builder, x: Tensor) -> Tensor:
  """Returns the exponential minus one."""
  if not b.lacks("Expm1"):
    return through(b, "Expm1", [x])
  wide = at_least_float32(b, x)
  # The errors of `u - 1` and `log(u)` are those of the same rounded `u`, so they cancel out.
  u = b.op("Exp", wide, shape=x.shape)
  less = b.op("Sub", u, full(b, u, 1), shape=x.shape)
  near = b.op("LessEqual", b.op("Abs", wide, shape=x.shape), full(b, u, 1), shape=x.shape)
  exact = b.op("LogicalAnd", near, compare(b, "NotEqual", u, 1), shape=x.shape)
  logarithm = b.op("Log", select(b, exact, u, full(b, u, 2), x.shape), shape=x.shape)
  found = b.op("Mul", less, b.op("RealDiv", wide, logarithm, shape=x.shape), shape=x.shape)
  rest = select(b, near, wide, less, x.shape)
  return cast(b, select(b, exact, found, rest, x.shape), x.dtype)


@rule("log1p")
def log1p(b: Builder, x: Tensor) -> Tensor:
  """Returns the logarithm of one plus `x`."""
  if not b.lacks("Log1p"):
    return through(b, "Log1p", [x])
  wide = at_least_float32(b, x)
  # The errors of `log(u)` and `u - 1` are those of the same rounded `u`, so they cancel out.
  u = b.op("AddV2", wide, full(b, wide, 1), shape=x.shape)
  less = b.op("Sub", u, full(b, u, 1), shape=x.shape)
  near = b.op("LessEqual", b.op("Abs", wide, shape=x.shape), full(b, u, 1), shape=x.shape)
  exact = b.op("LogicalAnd", near, compare(b, "NotEqual", u, 1), shape=x.shape)
  logarithm = b.op("Log", u, shape=x.shape)
  ratio = b.op("RealDiv", wide, select(b, exact, less, full(b, u, 1), x.shape), shape=x.shape)
  found = b.op("Mul", logarithm, ratio, shape=x.shape)
  rest = select(b, compare(b, "Equal", u, 1), wide, logarithm, x.shape)
  return cast(b, select(b, exact, found, rest, x.shape), x.dtype)


@rule("erf_inv")
def erf_inv(b: Builder, x: Tensor) -> Tensor:
  """Returns the inverse of the error function."""
  if b.lacks("Erfinv") and x.dtype != np.float64:
    return cast(b, traced(b, error_functions.erf_inv, [at_least_float32(b, x)]), x.dtype)
  # TensorFlow computes it from (x + 1) / 2, which leaves a float32 near 0 or 1 few correct bits.
  return cast(b, b.op("Erfinv", cast(b, x, np.float64), shape=x.shape), x.dtype)


@rule("nextafter")
def nextafter(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns the next float after `x` on the way to `y`."""
  if x.dtype.itemsize < 4:  # TensorFlow has no kernel
    return traced(b, _next_after, [x, y])
  return b.op("NextAfter", x, y, shape=joint_shape(x, y))


def _next_after(x: jax.Array, y: jax.Array) -> jax.Array:
  """Returns the next float of 16 bits, which as an integer is one larger or smaller."""
  bits = jax.lax.bitcast_convert_type(x, np.int16)
  is_away = (y > x) == (x > 0)
  moved = jax.lax.bitcast_convert_type(bits + jnp.where(is_away, 1, -1).astype(np.int16), x.dtype)
  least = jax.lax.bitcast_convert_type(jnp.where(y > 0, 1, -0x7FFF).astype(np.int16), x.dtype)
  found = jnp.where(x == y, y, jnp.where(x == 0, least, moved))
  return jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.nan, found)


@rule("pow")
def power(b: Builder, x: Tensor, y: Tensor) -> Tensor:
  """Returns `x` to the power of `y`, which may be an integer."""
  return binary(b, "Pow", x, cast(b, y, x.dtype) if y.dtype != x.dtype else y)


@rule("one_minus_square")
def one_minus_square(b: Builder, x: Tensor) -> Tensor:
  """Returns `1 - x * x`, which the derivative of tanh is since JAX 0.12."""
  return b.op("Sub", full(b, x, 1), b.op("Square", x, shape=x.shape), shape=x.shape)


@rule("integer_pow")
def integer_pow(b: Builder, x: Tensor, *, y: int) -> Tensor:
  """Returns a power with a known exponent, by repeated squaring."""
  if y == 0:
    return b.op("BroadcastTo", full(b, x, 1), b.shape(x.shape), shape=x.shape)
  result, square, left = None, x, abs(y)
  while True:
    if left & 1:
      result = square if result is None else b.op("Mul", result, square, shape=x.shape)
    left >>= 1
    if not left:
      break
    square = b.op("Square", square, shape=x.shape)
  assert result is not None, "internal: a power without factors."
  return result if y > 0 else b.op("RealDiv", full(b, x, 1), result, shape=x.shape)


@rule("round")
def round_(b: Builder, x: Tensor, *, rounding_method: Any) -> Tensor:
  """Returns the nearest integer as a float; of halves, the even one, or the one farther from zero."""
  if rounding_method.name == "TO_NEAREST_EVEN":
    return b.op("Round", x, shape=x.shape)
  size = b.op("Abs", x, shape=x.shape)
  floor = b.op("Floor", size, shape=x.shape)
  # size + 0.5 would round up for the float below 0.5.
  upper = b.op("GreaterEqual", b.op("Sub", size, floor, shape=x.shape), full(b, x, 0.5), shape=x.shape)
  rounded = b.op("AddV2", floor, cast(b, upper, x.dtype), shape=x.shape)
  return b.op("Mul", b.op("Sign", x, shape=x.shape), rounded, shape=x.shape)


@rule("reduce_precision")
def reduce_precision(b: Builder, x: Tensor, *, exponent_bits: int, mantissa_bits: int) -> Tensor:
  """Returns the values rounded to fewer bits, by casts if a dtype of TensorFlow has as many."""
  if x.dtype.name not in _FLOAT_BITS:
    raise Unsupported(f"numbers of dtype {x.dtype}")
  own, narrow = _FLOAT_BITS[x.dtype.name], _BY_BITS.get((exponent_bits, mantissa_bits))
  if own[0] <= exponent_bits and own[1] <= mantissa_bits:
    return x
  if narrow is None or own[0] < exponent_bits or own[1] < mantissa_bits:
    return traced(b, lambda x: _with_fewer_bits(x, own, exponent_bits, mantissa_bits), [x])
  found = cast(b, cast(b, x, narrow), x.dtype)
  # XLA has no subnormal numbers here.
  is_small = compare(b, "Less", b.op("Abs", found, shape=x.shape), float(jnp.finfo(narrow).tiny))
  return select(b, is_small, b.op("Mul", found, full(b, x, 0), shape=x.shape), found, x.shape)


def _with_fewer_bits(x: jax.Array, own: tuple[int, int], exponent_bits: int, mantissa_bits: int) -> jax.Array:
  """Returns values rounded as XLA does: of halves to the even one; too large ones are infinite, subnormal ones zero."""
  of_exponent, of_mantissa = own
  integer = np.dtype(f"u{x.dtype.itemsize}").type
  bits = jax.lax.bitcast_convert_type(x, integer)
  dropped = of_mantissa - mantissa_bits
  if dropped > 0:
    odd = (bits >> integer(dropped)) & integer(1)
    bits = (bits + odd + integer((1 << dropped - 1) - 1)) & ~integer((1 << dropped) - 1)
  if exponent_bits < of_exponent:
    bias, reduced_bias = (1 << of_exponent - 1) - 1, (1 << exponent_bits - 1) - 1
    infinite = integer((1 << of_exponent) - 1 << of_mantissa)
    sign, exponent = bits & integer(1 << of_exponent + of_mantissa), bits & infinite
    bits = jnp.where(exponent > integer(bias + reduced_bias << of_mantissa), sign | infinite, bits)
    bits = jnp.where(exponent <= integer(bias - reduced_bias << of_mantissa), sign, bits)
  found = jax.lax.bitcast_convert_type(bits, x.dtype)
  return jnp.where(jnp.isnan(x), x, found)


@rule("regularized_incomplete_beta")
def betainc(b: Builder, a: Tensor, y: Tensor, x: Tensor) -> Tensor:
  """Returns the regularized incomplete beta function."""
  found = through(b, "Betainc", [cast(b, operand, np.float64) for operand in (a, y, x)])  # that of float32 loses digits
  return traced(b, AT_EDGES["Betainc"], [a, y, x, cast(b, found, x.dtype)])


_FLOAT_BITS = {"bfloat16": (8, 7), "float16": (5, 10), "float32": (8, 23), "float64": (11, 52)}
_BY_BITS = {bits: name for name, bits in _FLOAT_BITS.items()}
