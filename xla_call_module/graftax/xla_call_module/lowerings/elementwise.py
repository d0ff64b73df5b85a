"""Elementwise ops: arithmetic, comparison, conversion, bits."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import primitives

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.jax_versions import mulhi
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import is_known, materialize

__all__: list[str] = []


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
  return lambda context, op, *operands: function(*operands)


_PLAIN: dict[str, Callable[..., Array]] = {
    "stablehlo.atan2": lax.atan2, "stablehlo.ceil": lax.ceil, "stablehlo.complex": lax.complex,
    "stablehlo.count_leading_zeros": lax.clz, "stablehlo.divide": lax.div, "stablehlo.floor": lax.floor,
    "stablehlo.is_finite": lax.is_finite, "stablehlo.maximum": lax.max, "stablehlo.minimum": lax.min,
    "stablehlo.negate": lax.neg, "stablehlo.not": lax.bitwise_not, "stablehlo.or": lax.bitwise_or,
    "stablehlo.and": lax.bitwise_and, "stablehlo.popcnt": lax.population_count, "stablehlo.remainder": lax.rem,
    "stablehlo.shift_left": lax.shift_left, "stablehlo.shift_right_arithmetic": lax.shift_right_arithmetic,
    "stablehlo.shift_right_logical": lax.shift_right_logical, "stablehlo.sign": lax.sign,
    "stablehlo.subtract": lax.sub, "stablehlo.xor": lax.bitwise_xor,
    "chlo.atan": lax.atan, "chlo.bessel_i1e": lax.bessel_i1e, "chlo.digamma": lax.digamma,
    "chlo.erf_inv": lax.erf_inv, "chlo.erfc": lax.erfc, "chlo.lgamma": lax.lgamma, "chlo.next_after": lax.nextafter,
    "chlo.polygamma": lax.polygamma, "chlo.square": lax.square, "chlo.tan": lax.tan, "chlo.zeta": lax.zeta,
}  # fmt: skip

# TensorFlow's compiler writes the ops of `mhlo` that HLO has and StableHLO does not.
_CHLO_AND_MHLO: dict[str, Callable[..., Array]] = {
    "acos": lax.acos, "acosh": lax.acosh, "asin": lax.asin, "asinh": lax.asinh, "atanh": lax.atanh, "cosh": lax.cosh,
    "erf": lax.erf, "mulhi": mulhi, "sinh": lax.sinh,
}  # fmt: skip

for _name, _function in _PLAIN.items():
  register(_name)(_plain(_function))
for _name, _function in _CHLO_AND_MHLO.items():
  register(f"chlo.{_name}", f"mhlo.{_name}")(_plain(_function))


_ACCURATE = {
    "stablehlo.cbrt": lax.cbrt, "stablehlo.cosine": lax.cos, "stablehlo.exponential": lax.exp,
    "stablehlo.exponential_minus_one": lax.expm1, "stablehlo.log": lax.log, "stablehlo.log_plus_one": lax.log1p,
    "stablehlo.rsqrt": lax.rsqrt, "stablehlo.sine": lax.sin,
    "stablehlo.sqrt": lax.sqrt, "stablehlo.tan": lax.tan, "stablehlo.tanh": lax.tanh,
    "mhlo.tan": lax.tan,
}  # fmt: skip


def _accurate(function: Callable[..., Array]) -> Callable[..., Array]:
  def run(context: Context, op: ir.Op, x: Array) -> Array:
    accuracy = _accuracy(op.attrs.get("result_accuracy"))
    return function(x) if accuracy is None else function(x, accuracy=accuracy)

  return run


def _accuracy(attr: Any) -> Any:
  """Returns `result_accuracy` as `lax.AccuracyMode` or `lax.Tolerance`, or None for the default."""
  if not isinstance(attr, dict):
    return None
  mode = attr.get("mode", "DEFAULT")
  if mode == "HIGHEST":
    return lax.AccuracyMode.HIGHEST
  if mode == "TOLERANCE":
    return lax.Tolerance(float(attr.get("atol", 0)), float(attr.get("rtol", 0)), int(attr.get("ulps", 0)))
  return None


for _name, _function in _ACCURATE.items():
  register(_name, attributes=("result_accuracy",))(_accurate(_function))


@register("stablehlo.logistic", attributes=("result_accuracy",))
def _logistic(context: Context, op: ir.Op, x: Array) -> Array:
  if x.dtype.itemsize > 1:
    return _accurate(lax.logistic)(context, op, x)
  # JAX computes it from exponentials, which overflow in 8-bit types.
  return lax.convert_element_type(lax.logistic(lax.convert_element_type(x, np.float32)), x.dtype)


@register("stablehlo.add")
def _add(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  return lax.bitwise_or(x, y) if op.type.dtype == np.bool_ else lax.add(x, y)


@register("stablehlo.multiply")
def _multiply(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  return lax.bitwise_and(x, y) if op.type.dtype == np.bool_ else lax.mul(x, y)


@register("stablehlo.abs")
def _abs(context: Context, op: ir.Op, x: Array) -> Array:
  if x.dtype == np.bool_ or jnp.issubdtype(x.dtype, jnp.unsignedinteger):
    return jnp.asarray(x)
  if jnp.issubdtype(x.dtype, jnp.integer):  # lax.abs does not support 4-bit integers
    return lax.select(lax.lt(x, lax.full_like(x, 0)), lax.neg(x), jnp.asarray(x))
  return lax.abs(x)


@register("chlo.conj")
def _conj(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.conj(x) if x.dtype.kind == "c" else jnp.asarray(x)  # lax.conj converts real numbers to complex ones


@register("stablehlo.real")
def _real(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.real(x) if x.dtype.kind == "c" else jnp.asarray(x)


@register("stablehlo.imag")
def _imag(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.imag(x) if x.dtype.kind == "c" else lax.full_like(x, 0)


@register("stablehlo.round_nearest_even")
def _round_nearest_even(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@register("stablehlo.round_nearest_afz")
def _round_nearest_afz(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


@register("stablehlo.power")
def _power(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  if jnp.issubdtype(x.dtype, jnp.integer):
    return _integer_power(x, y)
  return lax.pow(x, y)


def _integer_power(x: Array, y: Array) -> Array:
  """Computes `x ** y` in wrapping integers. As in StableHLO, negative exponents give 0 except for bases 1 and -1."""
  x, y = jnp.asarray(x), jnp.asarray(y)
  one, zero = lax.full_like(x, 1), lax.full_like(x, 0)
  is_signed = jnp.issubdtype(y.dtype, jnp.signedinteger)
  exponent = lax.max(y, zero) if is_signed else y
  result, square = one, x
  for bit in range(jnp.iinfo(x.dtype).bits - is_signed):
    taken = lax.ne(lax.bitwise_and(lax.shift_right_logical(exponent, lax.full_like(y, bit)), one), zero)
    result = lax.select(taken, lax.mul(result, square), result)
    square = lax.mul(square, square)
  if not is_signed:
    return result
  odd = lax.ne(lax.bitwise_and(y, one), zero)
  unit = lax.select(lax.eq(x, one), one, lax.select(lax.eq(x, -one), lax.select(odd, -one, one), zero))
  return lax.select(lax.lt(y, zero), unit, result)


_COMPARE = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}


@register("stablehlo.compare", attributes=("compare_type", "comparison_direction"))
def _compare(context: Context, op: ir.Op, x: Array, y: Array) -> Array:
  direction = op.attrs.text("comparison_direction")
  if op.attrs.get("compare_type") == "TOTALORDER" and jnp.issubdtype(x.dtype, jnp.floating):
    return _total_order(direction, x, y)
  return _COMPARE[direction](x, y)


def _total_order(direction: str, x: Array, y: Array) -> Array:
  """Compares in the IEEE total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
  match direction:
    case "LT":
      return primitives.lt_to_p.bind(x, y)
    case "GT":
      return primitives.lt_to_p.bind(y, x)
    case "LE":
      return primitives.le_to_p.bind(x, y)
    case "GE":
      return primitives.le_to_p.bind(y, x)
    case "EQ":
      return primitives.eq_to_p.bind(x, y)
    case _:
      return lax.bitwise_not(primitives.eq_to_p.bind(x, y))


@register("stablehlo.clamp", takes_known=True)
def _clamp(context: Context, op: ir.Op, low: Any, x: Any, high: Any) -> Array:
  operand = materialize(x)
  return lax.clamp(_bound(low, operand), operand, _bound(high, operand))


def _bound(bound: Any, x: Array) -> Array:
  """Returns a bound of `clamp` that JAX can differentiate with respect to.

  JAX's derivatives of a scalar bound raise if the operand has dimensions. A bound that is known has no derivative and
  remains a scalar.
  """
  array = materialize(bound)
  return array if is_known(bound) or np.ndim(array) == np.ndim(x) else jnp.broadcast_to(array, np.shape(x))


@register("stablehlo.select")
def _select(context: Context, op: ir.Op, condition: Array, x: Array, y: Array) -> Array:
  return lax.select_n(condition, y, x)


@register("stablehlo.convert")
def _convert(context: Context, op: ir.Op, x: Array) -> Array:
  dtype = op.type.dtype
  if x.dtype.kind == "c" and dtype.kind != "c":
    x = lax.real(x)
  return lax.convert_element_type(x, dtype)


@register("stablehlo.bitcast_convert")
def _bitcast_convert(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.bitcast_convert_type(x, op.type.dtype)


@register("stablehlo.reduce_precision", attributes=("exponent_bits", "mantissa_bits"))
def _reduce_precision(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.reduce_precision(x, op.attrs.integer("exponent_bits"), op.attrs.integer("mantissa_bits"))


@register("chlo.is_inf")
def _is_inf(context: Context, op: ir.Op, x: Array) -> Array:
  return jnp.isinf(x)


@register("chlo.is_pos_inf")
def _is_pos_inf(context: Context, op: ir.Op, x: Array) -> Array:
  return jnp.isposinf(x)


@register("chlo.is_neg_inf")
def _is_neg_inf(context: Context, op: ir.Op, x: Array) -> Array:
  return jnp.isneginf(x)


@register("chlo.constant", "chlo.constant_like", attributes=("value",))
def _constant_like(context: Context, op: ir.Op, *operands: Array) -> Array:
  value = op.attrs["value"]
  if not isinstance(value, int | float | complex | np.ndarray):
    raise context.unsupported(op, f"its value is {value!r}.")
  return lax.full_like(operands[0], value) if operands else jnp.asarray(value)
