"""Grayscale dilation (max pooling of the input plus a filter) and its gradients: Dilation2D."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import layout
from graftax.ops_jax.spatial.windows import SpatialWindow, spatial_window, window_views
from graftax.xla_call_module.lax_extras import default_promotion, lowest

__all__ = ["dilation2d", "dilation2d_backprop_filter", "dilation2d_backprop_input"]

_SPATIAL = (1, 2)


class _DilationAttrs(TypedDict):
  """Attributes of all three ops.

  Attributes:
    strides: one entry per dimension of the input, 1 for batch and channels.
    rates: step between the cells of the window; entries as in `strides`.
    padding: `"SAME"` or `"VALID"`. A padding cell is never the maximum.
  """

  strides: tuple[int, ...]
  rates: tuple[int, ...]
  padding: str


def _window(x: Array, kernel: Array, *, strides: Sequence[int], rates: Sequence[int], padding: str) -> SpatialWindow:
  place = layout("Dilation2D", "NHWC", x.ndim)
  return spatial_window(
    "Dilation2D", place, x.shape, kernel.shape[:2], strides=strides, padding=padding, dilations=rates
  )


def _first_maximum(x: Array, kernel: Array, window: SpatialWindow) -> tuple[Array, Array]:
  """Returns the maximum over the window's cells, and the number of the first cell that reaches it."""
  is_inside = jnp.ones(x.shape[:3] + (1,), bool)
  best = jnp.asarray(lowest(x.dtype))
  index: Array = jnp.zeros((), jnp.int32)
  views = zip(window_views(x, window, _SPATIAL, 0), window_views(is_inside, window, _SPATIAL, False), strict=True)
  for number, ((cell, view), (_, inside)) in enumerate(views):
    value = view + kernel[cell]
    is_better = inside & (value > best)
    best, index = jnp.where(is_better, value, best), jnp.where(is_better, number, index)
  return best, index


def _selected(index: Array, x_dot: Array, kernel_dot: Array, window: SpatialWindow) -> Array:
  """Adds, for each window, the entries of `x_dot` and `kernel_dot` at cell number `index`; linear in both."""
  total: Any = 0
  for number, (cell, view) in enumerate(window_views(x_dot, window, _SPATIAL, 0)):
    total = total + jnp.where(index == number, view + kernel_dot[cell], jnp.zeros((), x_dot.dtype))
  return total


@register("Dilation2D", ignores=("T",))
def dilation2d(
  input: Array,
  filter: Array,
  **attrs: Unpack[_DilationAttrs],
) -> Array:
  """Computes the maximum over each window of `input + filter`.

  Source op: `tf.raw_ops.Dilation2D`.

  Args:
    input: `[batch, height, width, channels]`, any real dtype.
    filter: `[height, width, channels]`, same dtype.
    **attrs: see `_DilationAttrs`.

  Returns:
    `[batch, out_height, out_width, channels]`, same dtype. Among equal maxima the first gets the gradient.
  """
  x, kernel = jnp.asarray(input), jnp.asarray(filter)
  window = _window(x, kernel, **attrs)

  @jax.custom_jvp
  def dilate(x: Array, kernel: Array) -> Array:
    return _first_maximum(x, kernel, window)[0]

  @dilate.defjvp
  @default_promotion()
  def _jvp(primals: Any, tangents: Any) -> Any:
    x, kernel = lax.stop_gradient(primals)
    x_dot, kernel_dot = tangents
    _, index = _first_maximum(x, kernel, window)
    return dilate(*primals), _selected(index, x_dot, kernel_dot, window)

  return dilate(x, kernel)


def _backprops(x: Any, kernel: Any, out_backprop: Any, **attrs: Unpack[_DilationAttrs]) -> tuple[Array, Array]:
  x, kernel, out_backprop = jnp.asarray(x), jnp.asarray(kernel), jnp.asarray(out_backprop)
  window = _window(x, kernel, **attrs)
  _, index = _first_maximum(lax.stop_gradient(x), lax.stop_gradient(kernel), window)
  x_backprop, kernel_backprop = jax.linear_transpose(lambda x, kernel: _selected(index, x, kernel, window), x, kernel)(
    out_backprop
  )
  return x_backprop, kernel_backprop


@register("Dilation2DBackpropInput", ignores=("T",))
def dilation2d_backprop_input(
  input: Array,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[_DilationAttrs],
) -> Array:
  """Returns the gradient of `Dilation2D` with respect to its input."""
  return _backprops(input, filter, out_backprop, **attrs)[0]


@register("Dilation2DBackpropFilter", ignores=("T",))
def dilation2d_backprop_filter(
  input: Array,
  filter: Array,
  out_backprop: Array,
  **attrs: Unpack[_DilationAttrs],
) -> Array:
  """Returns the gradient of `Dilation2D` with respect to its filter."""
  return _backprops(input, filter, out_backprop, **attrs)[1]
