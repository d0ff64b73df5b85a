"""Arithmetic on uniformly quantized integers: each stands for `(integer - zero point) * scale`."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax.registry import register
from graftax.ops_jax.values import Array

__all__ = [
  "uniform_quantized_add",
  "uniform_quantized_clip_by_value",
  "uniform_quantized_dot",
  "uniform_requantize",
]


def _along(v: Any, rank: int, axis: int) -> Array:
  """A scalar as it is, a vector along dimension `axis` of an array of `rank`."""
  v = jnp.asarray(v)
  return v if axis < 0 else v.reshape((-1,) + (1,) * (rank - 1 - axis))


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
  """The same numbers with another scale and zero point.

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

  Differs from TF: scaled in float32 instead of fixed-point arithmetic; a result may differ by 1.
  """
  x = jnp.asarray(input).astype(jnp.int32)
  factor = _along(input_scales, x.ndim, input_quantization_axis) / _along(
    output_scales, x.ndim, output_quantization_axis
  )
  steps = _requantized(x - _along(input_zero_points, x.ndim, input_quantization_axis), factor)
  steps = steps + _along(output_zero_points, x.ndim, output_quantization_axis)
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
  """`operand` clipped to `[min, max]`, which are scalars or have one entry per slice along `quantization_axis`."""
  del scales, zero_points
  operand = jnp.asarray(operand)
  return jnp.clip(operand, _along(min, operand.ndim, quantization_axis), _along(max, operand.ndim, quantization_axis))


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
  """The sum of two quantized arrays that broadcast against each other; scales and axes as for `UniformRequantize`.

  Differs from TF: scaled in float32 instead of fixed-point arithmetic; a result may differ by 1.
  """
  lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
  rank = max(lhs.ndim, rhs.ndim)
  out_scale = _along(output_scales, rank, output_quantization_axis)
  total = _along(output_zero_points, rank, output_quantization_axis)
  for x, scales, zeros, axis in (
    (lhs, lhs_scales, lhs_zero_points, lhs_quantization_axis),
    (rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis),
  ):
    steps = x.astype(jnp.int32) - _along(zeros, x.ndim, axis)
    factor = _along(scales, x.ndim, axis) / (out_scale if out_scale.ndim <= x.ndim else out_scale.reshape(-1))
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
  """The product of two quantized matrices, `[m, k]` and `[k, n]`; scales and axes as for `UniformRequantize`.

  Differs from TF: scaled in float32 instead of fixed-point arithmetic; a result may differ by 1.
  """
  left = jnp.asarray(lhs).astype(jnp.int32) - jnp.asarray(lhs_zero_points)
  right = jnp.asarray(rhs).astype(jnp.int32) - _along(rhs_zero_points, 2, rhs_quantization_axis)
  product = lax.dot_general(left, right, (((1,), (0,)), ((), ())))
  factor = jnp.asarray(lhs_scales) * _along(rhs_scales, 2, rhs_quantization_axis)
  steps = _requantized(product, factor / _along(output_scales, 2, output_quantization_axis))
  steps = steps + _along(output_zero_points, 2, output_quantization_axis)
  return jnp.clip(steps, output_quantization_min_val, output_quantization_max_val).astype(Tout)
