"""Depthwise convolution, in a form that is fast on CPUs and a grouped one: DepthwiseConv2dNative."""

from functools import partial
from typing import Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import Layout
from graftax.ops_jax.spatial.windows import Conv2DAttrs, SpatialWindow, layout_and_window, window_views
from graftax.xla_call_module.lax_extras import (
  ConvShapes,
  accumulation_dtype,
  depthwise_conv,
  depthwise_sum,
  traced_once,
  uses_conv_forms,
)

__all__ = ["depthwise_conv2d_native", "depthwise_convolve", "grouped_form", "shifted_form"]


def grouped_form(x: jax.Array, kernel: jax.Array, window: SpatialWindow, place: Layout) -> Array:
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


def shifted_form(x: Array, kernel: Array, window: SpatialWindow, place: Layout) -> Array:
  """Computes a depthwise convolution as a sum of shifted inputs times filter cells; see `depthwise_convolve`."""
  _check(kernel, window)
  by_group = (*window.size, 1, kernel.shape[-2] * kernel.shape[-1])
  groups = x.shape[place.channel_axis]
  last = (*(x.shape[axis] for axis in (0, *place.spatial_axes)), groups)
  if ConvShapes.of(last, by_group, window.strides, window.dilations, window.padding, groups) is not None:
    over_all_axes = window.over_all_axes(place.spatial_axes, x.ndim)
    return depthwise_conv(jnp.asarray(x), jnp.asarray(kernel), over_all_axes, place.channel_axis)
  dtype = accumulation_dtype(x.dtype)
  views = window_views(x.astype(dtype), window, place.spatial_axes, 0, is_stored=True)
  total = depthwise_sum(views, kernel.astype(dtype), place.rank, place.channel_axis)
  assert total is not None, "internal: a window without cells"
  return total.astype(x.dtype)


def _check(kernel: Array, window: SpatialWindow) -> None:
  if not kernel.size:
    raise InvalidInputError(f"depthwise convolution: the filter of shape {kernel.shape} is empty.")
  window.check()


def depthwise_convolve(x: Array, kernel: Array, window: SpatialWindow, place: Layout) -> Array:
  """Convolves each channel of `x` with its own filters.

  Args:
    x: in layout `place`, with `channels` channels.
    kernel: `[*window.size, channels, multiplier]`, same dtype.
    window: how the kernel slides.
    place: layout of `x` and of the result.

  Returns:
    Same dtype, `channels * multiplier` channels, those of one input channel side by side.
  """
  x, kernel = jnp.asarray(x), jnp.asarray(kernel)
  if not uses_conv_forms(x, kernel):
    _check(kernel, window)
    return grouped_form(x, kernel, window, place)
  is_known = all(isinstance(n, int) for pair in window.padding for n in pair)
  cpu, default = (
    (traced_once if is_known else partial)(f, window=window, place=place) for f in (shifted_form, grouped_form)
  )
  return lax.platform_dependent(x, kernel, cpu=cpu, default=default)


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
