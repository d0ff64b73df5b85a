"""Gradients of convolutions: Conv2DBackpropInput, Conv2DBackpropFilter, and those of Conv3D and depthwise."""

from collections.abc import Callable, Sequence
from typing import Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes
from graftax.ops_jax.nn.conv import check_channels
from graftax.ops_jax.nn.conv_forms import canonical_form, cpu_form
from graftax.ops_jax.nn.depthwise import grouped_form, shifted_form
from graftax.ops_jax.spatial.layouts import Layout, layout
from graftax.ops_jax.spatial.windows import Conv2DAttrs, ConvAttrs, SpatialWindow, WindowAttrs, layout_and_window
from graftax.xla_call_module.lax_extras import (
  CONV_INPUT_GRADIENT_FORMS,
  CONV_INPUT_GRADIENT_VALUES,
  call_with_tangents,
  divided_axes,
)

__all__ = [
  "conv2d_backprop_filter",
  "conv2d_backprop_filter_v2",
  "conv2d_backprop_input",
  "conv2d_backprop_input_v2",
  "conv3d_backprop_filter",
  "conv3d_backprop_filter_v2",
  "conv3d_backprop_input",
  "conv3d_backprop_input_v2",
  "depthwise_conv2d_native_backprop_filter",
  "depthwise_conv2d_native_backprop_input",
]

_Shape = Sequence[int]
_Bilinear = Callable[[jax.Array, jax.Array], Array]
_Form = Callable[[jax.Array, jax.Array, SpatialWindow, Layout], Array]


def _transposed(
  op: str, linear: Callable[[jax.Array], Array], shape: _Shape, out_backprop: Array, *, has_batch: bool
) -> Array:
  """Applies the transpose of a linear function of an array of `shape` to `out_backprop`.

  Args:
    op: for messages.
    linear: the function.
    shape: of its argument.
    out_backprop: of the shape of its result.
    has_batch: whether the first axis of both is the batch, which a mesh with Explicit axes may divide.
  """
  sharding: jax.sharding.NamedSharding = jax.typeof(out_backprop).sharding
  if divided_axes(out_backprop):
    spec: jax.P = jax.P(*sharding.spec[:has_batch], *[None] * (len(shape) - has_batch))
    argument = jax.ShapeDtypeStruct(tuple(shape), out_backprop.dtype, sharding=sharding.update(spec=spec))
  else:
    argument = jax.ShapeDtypeStruct(tuple(shape), out_backprop.dtype)
  expected: jax.ShapeDtypeStruct = jax.eval_shape(linear, argument)
  if expected.shape != out_backprop.shape:
    raise InvalidInputError(
      f"{op}: out_backprop has shape {out_backprop.shape}; sizes {tuple(shape)}, strides and padding give "
      f"{expected.shape}."
    )
  if expected.sharding is not None and expected.sharding != sharding:
    out_backprop = jax.sharding.reshard(out_backprop, expected.sharding)
  (result,) = jax.linear_transpose(linear, argument)(out_backprop)
  return result


def _input_gradient(
  op: str, input_shape: _Shape, kernel: Array, out_backprop: Array, **attrs: Unpack[Conv2DAttrs]
) -> Array:
  kernel, out_backprop = jnp.asarray(kernel), jnp.asarray(out_backprop)
  if len(input_shape) == out_backprop.ndim - 2:
    place = layout(op, attrs.get("data_format", "CHANNELS_LAST"), out_backprop.ndim)
    input_shape = _full_shape(place, input_shape, out_backprop.shape[0], kernel.shape[-2])
  place, window = layout_and_window(op, input_shape, kernel.shape, **attrs)
  if jnp.issubdtype(kernel.dtype, jnp.integer):
    return _integer_input_gradient(input_shape, kernel, out_backprop, place, window)
  if kernel.shape[-2] == 1 and input_shape[place.channel_axis] != 1:
    kernel = kernel.reshape(*window.size, input_shape[place.channel_axis], -1)
    return _depthwise_input_gradient(op, input_shape, kernel, out_backprop, place, window)
  return _dense_input_gradient(op, input_shape, kernel, out_backprop, place, window)


def _dense_input_gradient(
  op: str, input_shape: _Shape, kernel: jax.Array, out_backprop: jax.Array, place: Layout, window: SpatialWindow
) -> Array:
  x = jax.ShapeDtypeStruct(tuple(input_shape), kernel.dtype)
  groups = check_channels(x.shape, kernel.shape, place)

  def of(form: _Bilinear) -> _Bilinear:
    return lambda kernel, dy: _transposed(op, lambda x: form(x, kernel), input_shape, dy, has_batch=True)

  default = of(lambda x, kernel: canonical_form(x, kernel, window, place, groups))
  form = cpu_form(x, kernel, window, place, groups, CONV_INPUT_GRADIENT_FORMS)
  form_of_value = cpu_form(x, kernel, window, place, groups, CONV_INPUT_GRADIENT_VALUES)
  if (form is form_of_value is None) or divided_axes(kernel) or divided_axes(out_backprop):
    return default(kernel, out_backprop)
  on_cpu = default if form is None else of(form)
  if form_of_value is not None:
    on_cpu = _with_derivatives_of(on_cpu, of(form_of_value))
  return lax.platform_dependent(kernel, out_backprop, cpu=on_cpu, default=default)


def _with_derivatives_of(differentiated: _Bilinear, computed: _Bilinear) -> _Bilinear:
  """Returns `computed` with the derivatives of `differentiated`, the same function in another form."""

  def rule(
    operands: Sequence[jax.Array], results: Sequence[jax.Array], tangents: Sequence[jax.Array | None]
  ) -> list[jax.Array | None]:
    (kernel, dy), (kernel_tangent, dy_tangent) = operands, tangents
    parts = [] if kernel_tangent is None else [differentiated(kernel_tangent, dy)]
    parts += [] if dy_tangent is None else [differentiated(kernel, dy_tangent)]
    return [jnp.asarray(sum(parts[1:], parts[0])) if parts else None]

  return lambda kernel, dy: call_with_tangents(lambda kernel, dy: [computed(kernel, dy)], rule, (kernel, dy))[0]


def _integer_input_gradient(
  input_shape: _Shape, kernel: jax.Array, out_backprop: jax.Array, place: Layout, window: SpatialWindow
) -> Array:
  # jax.linear_transpose does not support integers, so the transposed convolution is written out.
  groups = input_shape[place.channel_axis] // kernel.shape[-2]
  grouped = jnp.flip(kernel, range(kernel.ndim - 2)).reshape(*kernel.shape[:-1], groups, -1)
  swapped = jnp.swapaxes(grouped, -1, -3).reshape(*window.size, -1, input_shape[place.channel_axis])
  padding = []
  for i, axis in enumerate(place.spatial_axes):
    extent = (window.size[i] - 1) * window.dilations[i] + 1
    spread = (out_backprop.shape[axis] - 1) * window.strides[i] + 1
    before = extent - 1 - window.padding[i][0]
    padding.append((before, input_shape[axis] + extent - 1 - spread - before))
  space = "".join(str(i) for i in range(len(window.size)))
  return lax.conv_general_dilated(
    out_backprop,
    swapped,
    (1,) * len(window.size),
    padding,
    lhs_dilation=window.strides,
    rhs_dilation=window.dilations,
    dimension_numbers=(place.spec, space + "IO", place.spec),
    feature_group_count=groups,
  )


def _full_shape(place: Layout, spatial: _Shape, batch: int, channels: int) -> _Shape:
  # TensorFlow also accepts the spatial sizes alone.
  shape: list[int] = [batch] * place.rank
  shape[place.channel_axis] = channels
  for axis, size in zip(place.spatial_axes, spatial, strict=True):
    shape[axis] = size
  return shape


def _filter_gradient(
  op: str, x: Array, filter_shape: _Shape, out_backprop: Array, **attrs: Unpack[Conv2DAttrs]
) -> Array:
  x, out_backprop = jnp.asarray(x), jnp.asarray(out_backprop)
  place, window = layout_and_window(op, x.shape, filter_shape, **attrs)
  channels = x.shape[place.channel_axis]
  if filter_shape[-2] == 1 and channels != 1:
    by_channel = (*window.size, channels, filter_shape[-1] // channels)
    return _depthwise_filter_gradient(op, x, by_channel, out_backprop, place, window).reshape(tuple(filter_shape))
  return _dense_filter_gradient(op, x, filter_shape, out_backprop, place, window)


def _dense_filter_gradient(
  op: str, x: jax.Array, filter_shape: _Shape, out_backprop: jax.Array, place: Layout, window: SpatialWindow
) -> Array:
  kernel = jax.ShapeDtypeStruct(tuple(filter_shape), x.dtype)
  groups = check_channels(x.shape, kernel.shape, place)

  def of(form: Callable[[jax.Array, jax.Array], Array]) -> Callable[[jax.Array, jax.Array], Array]:
    return lambda x, dy: _transposed(op, lambda kernel: form(x, kernel), filter_shape, dy, has_batch=False)

  default = of(lambda x, kernel: canonical_form(x, kernel, window, place, groups))
  form = cpu_form(x, kernel, window, place, groups)
  if form is None or divided_axes(x) or divided_axes(out_backprop):
    return default(x, out_backprop)
  return lax.platform_dependent(x, out_backprop, cpu=of(form), default=default)


def _depthwise_input_gradient(
  op: str, input_shape: _Shape, kernel: jax.Array, out_backprop: jax.Array, place: Layout, window: SpatialWindow
) -> Array:
  def of(form: _Form) -> Callable[[jax.Array, jax.Array], Array]:
    return lambda kernel, dy: _transposed(op, lambda x: form(x, kernel, window, place), input_shape, dy, has_batch=True)

  if divided_axes(kernel) or divided_axes(out_backprop):
    return of(grouped_form)(kernel, out_backprop)
  return lax.platform_dependent(kernel, out_backprop, cpu=of(shifted_form), default=of(grouped_form))


def _depthwise_filter_gradient(
  op: str, x: jax.Array, filter_shape: _Shape, out_backprop: jax.Array, place: Layout, window: SpatialWindow
) -> Array:
  def of(form: _Form) -> Callable[[jax.Array, jax.Array], Array]:
    return lambda x, dy: _transposed(
      op, lambda kernel: form(x, kernel, window, place), filter_shape, dy, has_batch=False
    )

  if divided_axes(x) or divided_axes(out_backprop):
    return of(grouped_form)(x, out_backprop)
  return lax.platform_dependent(x, out_backprop, cpu=of(shifted_form), default=of(grouped_form))


@register("Conv2DBackpropInput", ignores=("T", "use_cudnn_on_gpu"))
def conv2d_backprop_input(
  input_sizes: StaticSizes,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Computes the gradient of `Conv2D` with respect to its input; `tf.nn.conv2d_transpose` uses it as well.

  Source op: `tf.raw_ops.Conv2DBackpropInput`.

  Args:
    input_sizes: shape of the result, or its height and width alone. Must be concrete.
    filter: `[height, width, in_channels / groups, out_channels]`.
    out_backprop: gradient of the convolution's result, same dtype.
    **attrs: as for `Conv2D`.

  Returns:
    Shape `input_sizes`, same dtype.

  Raises:
    StaticInputError: `input_sizes` depends on traced data.
    InvalidInputError: the shapes do not fit each other.
  """
  return _input_gradient("Conv2DBackpropInput", input_sizes, filter, out_backprop, **attrs)


@register("Conv2DBackpropInputV2", ignores=("T", "use_cudnn_on_gpu"))
def conv2d_backprop_input_v2(
  input: Array,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Computes `Conv2DBackpropInput` with the shape taken from `input`."""
  return _input_gradient("Conv2DBackpropInputV2", jnp.shape(input), filter, out_backprop, **attrs)


@register("Conv2DBackpropFilter", ignores=("T", "use_cudnn_on_gpu"))
def conv2d_backprop_filter(
  input: Array,
  filter_sizes: StaticSizes,
  out_backprop: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Returns the gradient of `Conv2D` with respect to its filter.

  Source op: `tf.raw_ops.Conv2DBackpropFilter`.

  Args:
    input: input of the convolution.
    filter_sizes: shape of the filter. Must be concrete.
    out_backprop: gradient of the convolution's result, same dtype.
    **attrs: as for `Conv2D`.

  Returns:
    Shape `filter_sizes`, same dtype.
  """
  return _filter_gradient("Conv2DBackpropFilter", input, filter_sizes, out_backprop, **attrs)


@register("Conv2DBackpropFilterV2", ignores=("T", "use_cudnn_on_gpu"))
def conv2d_backprop_filter_v2(
  input: Array,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Computes `Conv2DBackpropFilter` with the shape taken from `filter`."""
  return _filter_gradient("Conv2DBackpropFilterV2", input, jnp.shape(filter), out_backprop, **attrs)


@register("Conv3DBackpropInputV2", ignores=("T", "Tshape"))
def conv3d_backprop_input_v2(
  input_sizes: StaticSizes,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[ConvAttrs],
) -> Array:
  """Returns the gradient of `Conv3D` with respect to its input, of shape `input_sizes`; see `Conv2DBackpropInput`."""
  return _input_gradient("Conv3DBackpropInputV2", input_sizes, filter, out_backprop, **attrs)


@register("Conv3DBackpropInput", ignores=("T",))
def conv3d_backprop_input(
  input: Array,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[WindowAttrs],
) -> Array:
  """Computes `Conv3DBackpropInputV2` with the shape taken from `input`."""
  return _input_gradient("Conv3DBackpropInput", jnp.shape(input), filter, out_backprop, **attrs)


@register("Conv3DBackpropFilterV2", ignores=("T",))
def conv3d_backprop_filter_v2(
  input: Array,
  filter_sizes: StaticSizes,
  out_backprop: Array,
  **attrs: Unpack[ConvAttrs],
) -> Array:
  """Returns the gradient of `Conv3D` for its filter, of shape `filter_sizes`; see `Conv2DBackpropFilter`."""
  return _filter_gradient("Conv3DBackpropFilterV2", input, filter_sizes, out_backprop, **attrs)


@register("Conv3DBackpropFilter", ignores=("T",))
def conv3d_backprop_filter(
  input: Array,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[WindowAttrs],
) -> Array:
  """Computes `Conv3DBackpropFilterV2` with the shape taken from `filter`."""
  return _filter_gradient("Conv3DBackpropFilter", input, jnp.shape(filter), out_backprop, **attrs)


@register("DepthwiseConv2dNativeBackpropInput", ignores=("T",))
def depthwise_conv2d_native_backprop_input(
  input_sizes: StaticSizes,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Returns the gradient of `DepthwiseConv2dNative` with respect to its input, of shape `input_sizes`.

  Source op: `tf.raw_ops.DepthwiseConv2dNativeBackpropInput`. Arguments as for `Conv2DBackpropInput`, but `filter` is
  `[height, width, channels, multiplier]`.
  """
  op = "DepthwiseConv2dNativeBackpropInput"
  kernel, out_backprop = jnp.asarray(filter), jnp.asarray(out_backprop)
  place, window = layout_and_window(op, input_sizes, kernel.shape, **attrs)
  return _depthwise_input_gradient(op, input_sizes, kernel, out_backprop, place, window)


@register("DepthwiseConv2dNativeBackpropFilter", ignores=("T",))
def depthwise_conv2d_native_backprop_filter(
  input: Array,
  filter_sizes: StaticSizes,
  out_backprop: Array,
  **attrs: Unpack[Conv2DAttrs],
) -> Array:
  """Returns the gradient of `DepthwiseConv2dNative` with respect to its filter, of shape `filter_sizes`.

  Source op: `tf.raw_ops.DepthwiseConv2dNativeBackpropFilter`. Arguments as for `Conv2DBackpropFilter`.
  """
  op = "DepthwiseConv2dNativeBackpropFilter"
  x, out_backprop = jnp.asarray(input), jnp.asarray(out_backprop)
  place, window = layout_and_window(op, x.shape, filter_sizes, **attrs)
  return _depthwise_filter_gradient(op, x, filter_sizes, out_backprop, place, window)
