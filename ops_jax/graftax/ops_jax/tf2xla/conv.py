"""tf2xla's general convolution."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.tf2xla.dot import precisions
from graftax.ops_jax.tf2xla.proto_fields import convolution_numbers

__all__ = ["xla_conv", "xla_conv_v2"]

# Field numbers in `xla.ConvolutionDimensionNumbers`.
_FIELDS = ((7, 8, 11), (4, 3, 6), (9, 10, 12))


@register("XlaConv", ignores=("T", "Tindices"))
def xla_conv(
  lhs: Array,
  rhs: Array,
  window_strides: Static[tuple[int, ...]],
  padding: Static[tuple[int, ...]],
  lhs_dilation: Static[tuple[int, ...]],
  rhs_dilation: Static[tuple[int, ...]],
  feature_group_count: Static[int],
  *,
  dimension_numbers: bytes,
  precision_config: bytes,
) -> Array:
  """Computes a general convolution; arguments as for `xla_conv_v2`.

  Source op: `XlaConv` (tf2xla).

  Returns:
    dtype of `lhs`.
  """
  return _conv(
    lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count,
    dimension_numbers, precision_config, lhs.dtype, 1,
  )  # fmt: skip


@register("XlaConvV2", ignores=("LhsT", "RhsT", "Tindices"))
def xla_conv_v2(
  lhs: Array,
  rhs: Array,
  window_strides: Static[tuple[int, ...]],
  padding: Static[tuple[int, ...]],
  lhs_dilation: Static[tuple[int, ...]],
  rhs_dilation: Static[tuple[int, ...]],
  feature_group_count: Static[int],
  *,
  dimension_numbers: bytes,
  precision_config: bytes,
  preferred_element_type: np.dtype,
  batch_group_count: int = 1,
) -> Array:
  """Computes a general convolution with sums in the dtype of the result.

  Source op: `XlaConvV2` (tf2xla).

  Args:
    lhs: the input, any numeric dtype; `dimension_numbers` defines the layout.
    rhs: the kernel, any numeric dtype.
    window_strides: one per spatial dimension, like the dilations.
    padding: `[n, 2]`, cells before and after, for each spatial dimension; negative numbers crop.
    lhs_dilation: distance between cells of the input.
    rhs_dilation: distance between cells of the kernel.
    feature_group_count: number of groups of features.
    dimension_numbers: serialized `xla.ConvolutionDimensionNumbers`.
    precision_config: serialized `xla.PrecisionConfig`.
    preferred_element_type: dtype of the result.
    batch_group_count: number of groups of the batch.

  Raises:
    InvalidInputError: the dimension numbers do not fit the operands.
  """
  return _conv(
    lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count,
    dimension_numbers, precision_config, preferred_element_type, batch_group_count,
  )  # fmt: skip


def _conv(
  lhs: Array,
  rhs: Array,
  strides: Sequence[int],
  padding: Sequence[int],
  lhs_dilation: Sequence[int],
  rhs_dilation: Sequence[int],
  feature_group_count: int,
  dimension_numbers: bytes,
  precision_config: bytes,
  dtype: np.dtype,
  batch_group_count: int,
) -> Array:
  dtype = canonical_dtype(dtype)
  lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
  # XLA multiplies in the result's dtype if an operand is narrower; JAX requires operands of the same dtype.
  if lhs.dtype != rhs.dtype or (jnp.issubdtype(dtype, jnp.integer) and lhs.dtype != dtype):
    lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
  result = jax.lax.conv_general_dilated(
    lhs,
    rhs,
    strides,
    list(zip(padding[::2], padding[1::2], strict=True)),
    lhs_dilation,
    rhs_dilation,
    convolution_numbers("XlaConv", dimension_numbers, lhs.ndim, _FIELDS),
    feature_group_count,
    batch_group_count,
    precisions("XlaConv", precision_config),
    preferred_element_type=dtype,
  )
  return result.astype(dtype)
