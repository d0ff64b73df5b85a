"""Convolution of uniformly quantized integers: UniformQuantizedConvolution."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.quantization.uniform_quantized import along, multiplier, rescaled
from graftax.ops_jax.tf2xla.proto_fields import convolution_numbers

__all__ = ["uniform_quantized_convolution"]

# Field numbers in `UniformQuantizedConvolutionDimensionNumbersAttr`.
_FIELDS = ((1, 2, 3), (5, 4, 6), (7, 8, 9))


@register(
  "UniformQuantizedConvolution",
  ignores=(
    "Tin", "lhs_quantization_axis", "lhs_quantization_min_val", "lhs_quantization_max_val", "rhs_quantization_min_val",
    "rhs_quantization_max_val",
  ),
)  # fmt: skip
def uniform_quantized_convolution(
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
  padding: str,
  window_strides: tuple[int, ...] = (),
  explicit_padding: tuple[int, ...] = (),
  lhs_dilation: tuple[int, ...] = (),
  rhs_dilation: tuple[int, ...] = (),
  batch_group_count: int = 1,
  feature_group_count: int = 1,
  dimension_numbers: bytes = b"",
  rhs_quantization_axis: int = -1,
  output_quantization_axis: int = -1,
  output_quantization_min_val: int,
  output_quantization_max_val: int,
) -> Array:
  """Convolves two quantized arrays.

  Source op: `tf.raw_ops.UniformQuantizedConvolution`.

  Args:
    lhs: the input, int8; `[batch, features, *space]` unless `dimension_numbers` says otherwise.
    rhs: the kernel, int8; `[output features, input features, *space]` unless `dimension_numbers` says otherwise.
    lhs_scales: float32 scalar.
    lhs_zero_points: int32 scalar.
    rhs_scales: a scalar, or one entry per output feature.
    rhs_zero_points: as the scales, int32.
    output_scales: a scalar, or one entry per output feature.
    output_zero_points: as the scales, int32.
    Tout: integer type of the result.
    padding: `"SAME"`, `"VALID"` or `"EXPLICIT"`; padding cells represent 0.
    window_strides: one per spatial dimension, empty for ones, as the dilations.
    explicit_padding: two entries per spatial dimension, if `padding` is `"EXPLICIT"`.
    lhs_dilation: steps between the input's cells.
    rhs_dilation: steps between the kernel's.
    batch_group_count: number of groups of the batch.
    feature_group_count: number of groups of the features.
    dimension_numbers: serialized `UniformQuantizedConvolutionDimensionNumbersAttr`.
    rhs_quantization_axis: the kernel's dimension of output features, or -1.
    output_quantization_axis: the output's dimension of features, or -1.
    output_quantization_min_val: the lowest integer of the result.
    output_quantization_max_val: the highest.

  Raises:
    InvalidInputError: dimension numbers or padding do not fit the operands.

  Differs from TF: traced scales with 64-bit types off are divided in float32, so that a result may differ by 1.
  """
  rank = jnp.ndim(lhs)
  ones = (1,) * (rank - 2)
  numbers = lax.ConvDimensionNumbers(*[tuple(range(rank))] * 3)
  if dimension_numbers:
    numbers = convolution_numbers("UniformQuantizedConvolution", dimension_numbers, rank, _FIELDS)
  strides, lhs_dilation, rhs_dilation = (tuple(v) or ones for v in (window_strides, lhs_dilation, rhs_dilation))
  left = jnp.asarray(lhs).astype(jnp.int32) - jnp.asarray(lhs_zero_points)
  right = jnp.asarray(rhs).astype(jnp.int32) - along(rhs_zero_points, rank, rhs_quantization_axis)
  sizes = [
    [(array.shape[axis] - 1) * d + 1 for axis, d in zip(spec[2:], dilation, strict=True)]
    for array, spec, dilation in ((left, numbers.lhs_spec, lhs_dilation), (right, numbers.rhs_spec, rhs_dilation))
  ]
  pads = _padding(padding, explicit_padding, sizes[0], sizes[1], strides)
  product = lax.conv_general_dilated(
    left, right, strides, pads, lhs_dilation, rhs_dilation, numbers, feature_group_count, batch_group_count
  )
  # Scales of the kernel are along its output features, which are the output's features.
  features = numbers.out_spec[1]
  rhs_axis, out_axis = (features if axis >= 0 else -1 for axis in (rhs_quantization_axis, output_quantization_axis))
  scale = multiplier(lhs_scales, along(output_scales, rank, out_axis), along(rhs_scales, rank, rhs_axis))
  steps = rescaled(product, scale) + along(output_zero_points, rank, out_axis)
  return jnp.clip(steps, output_quantization_min_val, output_quantization_max_val).astype(Tout)


def _padding(
  padding: str, explicit: Sequence[int], lhs: Sequence[int], rhs: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
  if padding != "EXPLICIT":
    return list(lax.padtype_to_pads(lhs, rhs, strides, padding))
  if len(explicit) != 2 * len(strides):
    raise InvalidInputError(
      f"UniformQuantizedConvolution: explicit_padding={tuple(explicit)!r} has {len(explicit)} entries; expected "
      f"{2 * len(strides)}, two per spatial dimension."
    )
  return list(zip(explicit[::2], explicit[1::2], strict=True))
