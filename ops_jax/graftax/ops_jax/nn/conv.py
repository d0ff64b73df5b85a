"""Convolutions over one, two or three spatial dimensions, dense and grouped: Conv2D, Conv3D, Conv."""

from collections.abc import Sequence
from typing import Any, Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.nn.conv_forms import canonical_form, cpu_form
from graftax.ops_jax.nn.depthwise import depthwise_convolve
from graftax.ops_jax.spatial.layouts import Layout
from graftax.ops_jax.spatial.windows import Conv2DAttrs, ConvAttrs, SpatialWindow, layout_and_window
from graftax.xla_call_module.lax_extras import traced_once, uses_conv_forms

__all__ = ["check_channels", "conv", "conv2d", "conv3d", "convolve"]


def convolve(x: jax.Array, kernel: jax.Array, window: SpatialWindow, place: Layout) -> Array:
  """Convolves `x` with `kernel`, in groups if the kernel has fewer input channels than `x`.

  Args:
    x: in layout `place`.
    kernel: `[*window.size, in_channels / groups, out_channels]`, same dtype.
    window: how the kernel slides.
    place: layout of `x` and of the result.

  Returns:
    Same dtype; spatial dimensions as `window` gives them.

  Raises:
    InvalidInputError: the channels of `x` are not a multiple of the kernel's input channels, or its output channels
      are not a multiple of the number of groups.
  """
  groups = check_channels(x.shape, kernel.shape, place)
  if kernel.shape[-2] == 1 and groups > 1:
    multiplier = kernel.shape[-1] // groups
    return depthwise_convolve(x, kernel.reshape(*window.size, groups, multiplier), window, place)
  form = cpu_form(x, kernel, window, place, groups) if uses_conv_forms(x, kernel) else None
  if form is None:
    return canonical_form(x, kernel, window, place, groups)
  return lax.platform_dependent(
    x, kernel, cpu=form, default=traced_once(canonical_form, window=window, place=place, groups=groups)
  )


def check_channels(x_shape: Sequence[Any], kernel_shape: Sequence[Any], place: Layout) -> Any:
  """Returns the number of groups of a convolution; see `convolve`."""
  channels, kernel_channels = x_shape[place.channel_axis], kernel_shape[-2]
  if kernel_channels == 0 or channels % kernel_channels:
    raise InvalidInputError(
      f"convolution: the input has {channels} channels (shape {tuple(x_shape)}, data_format={place.name!r}), which is "
      f"not a multiple of the filter's {kernel_channels} (shape {kernel_shape})."
    )
  groups = channels // kernel_channels
  if kernel_shape[-1] % groups:
    raise InvalidInputError(
      f"convolution: the filter's {kernel_shape[-1]} output channels (shape {kernel_shape}) cannot be divided among "
      f"{groups} groups (an input of {channels} channels); expected a multiple of {groups}."
    )
  return groups


def _convolution(op: str, x: Any, kernel: Any, **attrs: Unpack[Conv2DAttrs]) -> Array:
  x, kernel = jnp.asarray(x), jnp.asarray(kernel)
  place, window = layout_and_window(op, x.shape, kernel.shape, **attrs)
  return convolve(x, kernel, window, place)


@register("Conv2D", ignores=("T", "use_cudnn_on_gpu"))
def conv2d(
  input: Array,
  filter: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Computes a 2-D convolution (cross-correlation, as everywhere in deep learning).

  Source op: `tf.raw_ops.Conv2D`.

  Args:
    input: `[batch, height, width, in_channels]`, or channels second for `"NCHW"`; floating point or int32.
    filter: `[height, width, in_channels / groups, out_channels]`, same dtype; the number of groups follows from it.
    **attrs: see `Conv2DAttrs`; `data_format` is `"NHWC"` or `"NCHW"`.

  Returns:
    `[batch, out_height, out_width, out_channels]` in the layout of `input`, same dtype.

  Raises:
    InvalidInputError: the shapes do not fit.
    UnsupportedAttrError: another layout.
  """
  return _convolution("Conv2D", input, filter, **attrs)


@register("Conv3D", ignores=("T",))
def conv3d(
  input: Array,
  filter: Array,
  **attrs: Unpack[ConvAttrs],
) -> Array:
  """Computes a 3-D convolution.

  Source op: `tf.raw_ops.Conv3D`.

  Args:
    input: `[batch, depth, height, width, in_channels]`, or channels second for `"NCDHW"`; floating point.
    filter: `[depth, height, width, in_channels / groups, out_channels]`, same dtype.
    **attrs: see `ConvAttrs`; `data_format` is `"NDHWC"` or `"NCDHW"`.

  Returns:
    In the layout and dtype of `input`.
  """
  return _convolution("Conv3D", input, filter, **attrs)


@register("Conv", ignores=("T", "groups"))
def conv(
  input: Array,
  filter: Array,
  *,
  batch_dims: int = 1,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Convolves over as many spatial dimensions as `filter` has, with any number of batch dimensions.

  Source op: `tf.raw_ops.Conv`.

  Args:
    input: `[*batch, *spatial, in_channels]`, or `[*batch, in_channels, *spatial]` for `"CHANNELS_FIRST"`.
    filter: `[*spatial, in_channels / groups, out_channels]`, same dtype.
    batch_dims: number of batch dimensions.
    **attrs: see `Conv2DAttrs`, with entries as for a single batch dimension; `data_format` is `"CHANNELS_LAST"` or
      `"CHANNELS_FIRST"`.
  """
  x = jnp.asarray(input)
  merged = x.reshape(_product(x.shape[:batch_dims]), *x.shape[batch_dims:])
  y = _convolution("Conv", merged, filter, **attrs)
  return y.reshape(*x.shape[:batch_dims], *y.shape[1:])


def _product(dims: Sequence[Any]) -> Any:
  result = 1
  for dim in dims:
    result = result * dim
  return result
