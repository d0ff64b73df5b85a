"""Depthwise convolution, in a form that is fast on CPUs and a grouped one: DepthwiseConv2dNative."""

from typing import Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import Layout
from graftax.ops_jax.spatial.windows import Conv2DAttrs, Window, layout_and_window, window_views

__all__ = ["depthwise_conv2d_native", "depthwise_convolve", "grouped_form", "shifted_form"]


def grouped_form(x: jax.Array, kernel: jax.Array, window: Window, place: Layout) -> Array:
  """Computes a depthwise convolution as a convolution with one group per channel; see `depthwise_convolve`."""
  *size, channels, multiplier = kernel.shape
  space = "".join(str(i) for i in range(len(size)))
  return lax.conv_general_dilated(
    x,
    kernel.reshape(*size, 1, channels * multiplier),
    window.strides,
    window.lax_padding,
    rhs_dilation=window.dilations,
    dimension_numbers=(place.spec, space + "IO", place.spec),
    feature_group_count=channels,
  )


def shifted_form(x: Array, kernel: Array, window: Window, place: Layout) -> Array:
  """Computes a depthwise convolution as a sum of shifted inputs times filter cells; see `depthwise_convolve`."""
  *_, channels, multiplier = kernel.shape
  accumulator = jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4 else x.dtype
  axis = place.channel_axis
  trailing = place.rank - 1 - axis
  # [channels] or [channels, multiplier], followed by a 1 for each dimension after the channels.
  factors = kernel.astype(accumulator).reshape(
    *window.size, channels, *((multiplier,) if multiplier > 1 else ()), *(1,) * trailing
  )
  total = None
  for cell, view in window_views(x.astype(accumulator), window, place.spatial_axes, 0):
    view = view if multiplier == 1 else jnp.expand_dims(view, axis + 1)
    term = view * factors[cell]
    total = term if total is None else total + term
  if total is None:
    raise InvalidInputError(f"depthwise convolution: the filter of shape {kernel.shape} is empty.")
  if multiplier > 1:
    total = total.reshape(*total.shape[:axis], channels * multiplier, *total.shape[axis + 2 :])
  return total.astype(x.dtype)


def depthwise_convolve(x: Array, kernel: Array, window: Window, place: Layout) -> Array:
  """Convolves each channel of `x` with its own filters.

  Args:
    x: in layout `place`, with `channels` channels.
    kernel: `[*window.size, channels, multiplier]`, same dtype.
    window: how the kernel slides.
    place: layout of `x` and of the result.

  Returns:
    Same dtype, `channels * multiplier` channels, those of one input channel side by side.
  """
  # XLA:CPU runs a convolution with one group per channel 10 to 30 times slower than the equivalent sum.
  return lax.platform_dependent(
    x,
    kernel,
    cpu=lambda x, kernel: shifted_form(x, kernel, window, place),
    default=lambda x, kernel: grouped_form(x, kernel, window, place),
  )


@register("DepthwiseConv2dNative", ignores=("T",))
def depthwise_conv2d_native(
  input: Array,
  filter: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Convolves each channel with its own filters, over two spatial dimensions.

  Source op: `tf.raw_ops.DepthwiseConv2dNative`.

  Args:
    input: `[batch, height, width, channels]`, or channels second for `"NCHW"`; floating point.
    filter: `[height, width, channels, multiplier]`, same dtype.
    **attrs: see `Conv2DAttrs`; `data_format` is `"NHWC"` or `"NCHW"`.

  Returns:
    `[batch, out_height, out_width, channels * multiplier]` in the layout of `input`, same dtype.

  Raises:
    InvalidInputError: the shapes do not fit.
  """
  x, kernel = jnp.asarray(input), jnp.asarray(filter)
  place, window = layout_and_window("DepthwiseConv2dNative", x.shape, kernel.shape, **attrs)
  if kernel.ndim != 4 or kernel.shape[2] != x.shape[place.channel_axis]:
    raise InvalidInputError(
      f"DepthwiseConv2dNative: a filter of shape {kernel.shape} does not fit an input of shape {x.shape} "
      f"(data_format={place.name!r}); expected [height, width, channels, multiplier]."
    )
  return depthwise_convolve(x, kernel, window, place)
