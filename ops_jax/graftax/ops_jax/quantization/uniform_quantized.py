"""Arithmetic on uniformly quantized integers: UniformQuantizedAdd, UniformQuantizedDot, UniformRequantize."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, namespace
from graftax.xla_call_module.lax_extras import mulhi

__all__ = [
  "along",
  "multiplier",
  "rescaled",
  "uniform_quantized_add",
  "uniform_quantized_clip_by_value",
  "uniform_quantized_dot",
  "uniform_requantize",
]


def along(v: Any, rank: int, axis: int) -> Array:
  """Returns a scalar unchanged, or a vector along dimension `axis` of an array of `rank`; known if it is."""
  return v if axis < 0 else v.reshape((-1,) + (1,) * (rank - 1 - axis))


def multiplier(factors: Array, divisors: Array, *more_factors: Array) -> tuple[Array, Array]:
  """Returns a ratio of scales in fixed-point form, rounded like TensorFlow: `integer * 2 ** (exponent - 31)`.

  Args:
    factors: float32.
    divisors: float32, of a shape that broadcasts against the others.
    *more_factors: float32.

  Returns:
    The integers from `2 ** 30` on and below `2 ** 31`, and the exponents, int32.

  Differs from TF: scales that are traced while 64-bit types are off are divided in float32, whose last bit may differ.
  """
  scales = [factors, divisors, *more_factors]
  xp = namespace(*scales)
  product, divisors, *more = (
    xp.asarray(scale).astype(np.float64 if xp is np else canonical_dtype(np.float64)) for scale in scales
  )
  for scale in more:
    product = product * scale
  mantissa, exponent = xp.frexp(product / divisors)
  if mantissa.dtype == np.float64:
    integer = xp.floor(mantissa * 2.0**31 + 0.5)
    exponent = xp.where(integer == 2.0**31, exponent + 1, exponent)
    integer = xp.where(integer == 2.0**31, 2.0**30, integer).astype(np.int32)
  else:
    integer = (mantissa * 2.0**24).astype(np.int32) << 7
  integer = xp.where(exponent < -31, 0, xp.where(exponent > 30, 2**31 - 1, integer))
  exponent = xp.where(exponent < -31, 0, xp.minimum(exponent, 30))
  return jnp.asarray(integer, np.int32), jnp.asarray(exponent, np.int32)


def rescaled(steps: Array, scale: tuple[Array, Array]) -> Array:
  """Multiplies int32 numbers by a multiplier and rounds half up; results beyond 32 bits wrap."""
  integer, exponent = scale
  steps, integer, shift = jnp.broadcast_arrays(steps, integer, (31 - exponent).astype(np.uint32))
  # A 64-bit product in two words: the integers are the same with 64-bit types off.
  low = lax.bitcast_convert_type(steps * integer, np.uint32)
  high = mulhi(steps, integer)
  one = jnp.uint32(1)
  half_low = jnp.where(shift <= 32, one << jnp.minimum(shift - 1, 31), 0).astype(np.uint32)
  half_high = jnp.where(shift > 32, one << jnp.where(shift > 32, shift - 33, 0), 0).astype(np.int32)
  rounded = low + half_low
  high = high + half_high + (rounded < low)
  near = (rounded >> jnp.minimum(shift, 31)) | (
    lax.bitcast_convert_type(high, np.uint32) << jnp.where(shift < 32, 32 - shift, 0)
  )
  far = high >> jnp.where(shift >= 32, shift - 32, 0).astype(np.int32)
  return jnp.where(shift < 32, lax.bitcast_convert_type(near, np.int32), far)


def _requantized(steps: Array, factor: Array) -> Array:
  return jnp.floor(steps.astype(jnp.float32) * factor + np.float32(0.5)).astype(jnp.int32)


@register("UniformRequantize", ignores=("Tin", "input_quantization_min_val", "input_quantization_max_val"))
def uniform_requantize(
  input: Array,
  input_scales: Array,
  input_zero_points: Array,
  output_scales: Array,
  output_zero_points: Array,
  *,
  Tout: np.dtype,
  input_quantization_axis: int = -1,
  output_quantization_axis: int = -1,
  output_quantization_min_val: int,
  output_quantization_max_val: int,
) -> Array:
  """Converts quantized numbers to another scale and zero point.

  Source op: `tf.raw_ops.UniformRequantize`.

  Args:
    input: any shape, integers.
    input_scales: a scalar, or one entry per slice along `input_quantization_axis`, like the others.
    input_zero_points: int32.
    output_scales: float32.
    output_zero_points: int32.
    Tout: integer type of the result.
    input_quantization_axis: a dimension, or -1.
    output_quantization_axis: a dimension, or -1.
    output_quantization_min_val: the lowest integer of the result.
    output_quantization_max_val: the highest.

  Differs from TF: traced scales with 64-bit types off are divided in float32, so that a result may differ by 1.
  """
  x = jnp.asarray(input).astype(jnp.int32)
  scale = multiplier(
    along(input_scales, x.ndim, input_quantization_axis), along(output_scales, x.ndim, output_quantization_axis)
  )
  steps = rescaled(x - along(input_zero_points, x.ndim, input_quantization_axis), scale)
  steps = steps + along(output_zero_points, x.ndim, output_quantization_axis)
  return jnp.clip(steps, output_quantization_min_val, output_quantization_max_val).astype(Tout)


@register("UniformQuantizedClipByValue", ignores=("T", "quantization_min_val", "quantization_max_val"))
def uniform_quantized_clip_by_value(
  operand: Array,
  min: Array,
  max: Array,
  scales: Array,
  zero_points: Array,
  *,
  quantization_axis: int = -1,
) -> Array:
  """Clips `operand` to `[min, max]`, which are scalars or have one entry per slice along `quantization_axis`."""
  del scales, zero_points
  operand = jnp.asarray(operand)
  return jnp.clip(operand, along(min, operand.ndim, quantization_axis), along(max, operand.ndim, quantization_axis))


@register(
  "UniformQuantizedAdd",
  ignores=(
    "T",
    "lhs_quantization_min_val",
    "lhs_quantization_max_val",
    "rhs_quantization_min_val",
    "rhs_quantization_max_val",
  ),
)
def uniform_quantized_add(
  lhs: Array,
  rhs: Array,
  lhs_scales: Array,
  lhs_zero_points: Array,
  rhs_scales: Array,
  rhs_zero_points: Array,
  output_scales: Array,
  output_zero_points: Array,
  *,
  lhs_quantization_axis: int = -1,
  rhs_quantization_axis: int = -1,
  output_quantization_axis: int = -1,
  output_quantization_min_val: int,
  output_quantization_max_val: int,
) -> Array:
  """Adds two quantized arrays that broadcast against each other; scales and axes as for `UniformRequantize`.

  Differs from TF: both scale in float32, though not in the same order, so a result may differ by 2 or, if it needs
  more bits than float32 has, in its last bit.
  """
  lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
  rank = max(lhs.ndim, rhs.ndim)
  out_scale = jnp.asarray(along(output_scales, rank, output_quantization_axis))
  total = along(output_zero_points, rank, output_quantization_axis)
  for x, scales, zeros, axis in (
    (lhs, lhs_scales, lhs_zero_points, lhs_quantization_axis),
    (rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis),
  ):
    steps = x.astype(jnp.int32) - along(zeros, x.ndim, axis)
    factor = along(scales, x.ndim, axis) / (out_scale if out_scale.ndim <= x.ndim else out_scale.reshape(-1))
    total = total + _requantized(steps, factor)
  return jnp.clip(total, output_quantization_min_val, output_quantization_max_val).astype(lhs.dtype)


@register(
  "UniformQuantizedDot",
  ignores=(
    "Tin",
    "lhs_quantization_axis",
    "lhs_quantization_min_val",
    "lhs_quantization_max_val",
    "rhs_quantization_min_val",
    "rhs_quantization_max_val",
  ),
)
def uniform_quantized_dot(
  lhs: Array,
  rhs: Array,
  lhs_scales: Array,
  lhs_zero_points: Array,
  rhs_scales: Array,
  rhs_zero_points: Array,
  output_scales: Array,
  output_zero_points: Array,
  *,
  Tout: np.dtype,
  rhs_quantization_axis: int = -1,
  output_quantization_axis: int = -1,
  output_quantization_min_val: int,
  output_quantization_max_val: int,
) -> Array:
  """Multiplies two quantized matrices, `[m, k]` and `[k, n]`; scales and axes as for `UniformRequantize`.

  Differs from TF: traced scales with 64-bit types off are divided in float32, so that a result may differ by 1.
  """
  left = jnp.asarray(lhs).astype(jnp.int32) - jnp.asarray(lhs_zero_points)
  right = jnp.asarray(rhs).astype(jnp.int32) - along(rhs_zero_points, 2, rhs_quantization_axis)
  product = lax.dot_general(left, right, (((1,), (0,)), ((), ())))
  scale = multiplier(
    lhs_scales,
    along(output_scales, 2, output_quantization_axis),
    along(rhs_scales, 2, rhs_quantization_axis),
  )
  steps = rescaled(product, scale) + along(output_zero_points, 2, output_quantization_axis)
  return jnp.clip(steps, output_quantization_min_val, output_quantization_max_val).astype(Tout)
