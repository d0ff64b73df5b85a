"""Functions that JAX does not have with the same order of operations.

Parts of a program that are one of them become a function of its name. Those of `WRITTEN` are written as they are here,
and called.
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

__all__ = [
  "WRITTEN",
  "avg_pool",
  "batch_norm",
  "batch_norm_without_scale",
  "conv2d",
  "conv2d_1x1",
  "conv2d_as_product",
  "conv2d_of_patches",
  "depthwise_conv",
  "grouped_conv",
  "keras_layer_norm",
  "layer_norm",
  "shifted",
  "sum_pool",
  "window_cells",
]

WRITTEN = (
  *("conv2d", "shifted", "window_cells", "conv2d_1x1", "conv2d_of_patches", "conv2d_as_product"),
  *("grouped_conv", "depthwise_conv", "sum_pool", "avg_pool"),
)


Padding = str | tuple[tuple[int, int], ...]


def batch_norm(x: Array, mean: Array, variance: Array, scale: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes x by statistics of its channels."""
  scale = lax.rsqrt(variance + epsilon) * scale
  return x * scale + (offset - mean * scale)


def batch_norm_without_scale(x: Array, mean: Array, variance: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes as `batch_norm` with a scale of 1."""
  scale = lax.rsqrt(variance + epsilon)
  return x * scale + (offset - mean * scale)


def layer_norm(x: Array, scale: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes the last axis of x to mean 0 and variance 1."""
  mean = jnp.mean(x, axis=-1, keepdims=True)
  variance = jnp.mean(jnp.square(x - lax.stop_gradient(mean)), axis=-1, keepdims=True)
  scale = lax.rsqrt(variance + epsilon) * scale
  return x * scale + (offset - mean * scale)


def keras_layer_norm(x: Array, scale: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes as `layer_norm`, with the operations of Keras."""
  mean = jnp.mean(x, axis=-1, keepdims=True)
  centered = x - lax.stop_gradient(mean)
  variance = jnp.mean(centered * centered, axis=-1, keepdims=True)
  scale = lax.rsqrt(variance + epsilon) * scale
  return x * scale + (-mean * scale + offset)


def conv2d(x: Array, kernel: Array, strides: tuple[int, int] = (1, 1), padding: Padding = "SAME") -> Array:
  """Convolves images."""
  return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def shifted(
  x: Array,
  window: tuple[int, ...],
  strides: tuple[int, int],
  padding: tuple[tuple[int, int], ...],
  store: bool = False,
) -> Iterator[Array]:
  """Yields what each cell of a window sees in images, for all its positions."""
  x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
  if store:  # or XLA computes the images again for some of the cells
    x = lax.optimization_barrier(x)
  batch, height, width, channels = x.shape
  rows = (height - window[0]) // strides[0] * strides[0] + 1
  columns = (width - window[1]) // strides[1] * strides[1] + 1
  for i, j in np.ndindex(*window):
    yield lax.slice(x, (0, i, j, 0), (batch, i + rows, j + columns, channels), (1, *strides, 1))


def conv2d_1x1(x: Array, kernel: Array, strides: tuple[int, int] = (1, 1)) -> Array:
  """Convolves images with windows of one pixel. On CPUs, a product is faster."""

  def product() -> Array:
    (pixels,) = shifted(x, (1, 1), strides, ((0, 0), (0, 0)))
    channels, features = kernel.shape[2:]
    y = lax.dot(pixels.reshape(-1, channels), kernel.reshape(channels, features))
    return y.reshape(*pixels.shape[:3], features)

  return lax.platform_dependent(cpu=product, default=lambda: conv2d(x, kernel, strides))


def conv2d_of_patches(x: Array, kernel: Array) -> Array:
  """Convolves images with windows side by side. On CPUs, a product is faster."""
  height, width, channels, features = kernel.shape

  def product() -> Array:
    rows, columns = x.shape[1] // height, x.shape[2] // width
    whole = lax.slice(x, (0, 0, 0, 0), (x.shape[0], rows * height, columns * width, channels))
    patches = whole.reshape(-1, rows, height, columns, width, channels).transpose(0, 1, 3, 2, 4, 5)
    y = lax.dot(patches.reshape(-1, height * width * channels), kernel.reshape(-1, features))
    return y.reshape(-1, rows, columns, features)

  return lax.platform_dependent(cpu=product, default=lambda: conv2d(x, kernel, (height, width), "VALID"))


def window_cells(x: Array, window: tuple[int, ...], strides: tuple[int, int]) -> Array:
  """Returns the cells of all windows, `[batch, rows, columns, *window, channels]`."""

  @jax.custom_jvp
  def cells(x: Array) -> Array:
    rows, columns = ((n - k) // s + 1 for n, k, s in zip(x.shape[1:3], window, strides, strict=True))
    if rows * window[0] * columns * window[1] >= x.shape[1] * x.shape[2]:
      x = lax.optimization_barrier(x)  # or XLA computes the images again for each cell
    # Copies of an axis are cut into rows that are longer by one, so that each row starts one pixel later.
    for axis, size, stride in ((2, window[1], strides[1]), (1, window[0], strides[0])):
      before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
      copies = -(-size * (length + 1) // length)
      x = lax.broadcast_in_dim(x, (*before, copies, length, *after), [n for n in range(x.ndim + 1) if n != axis])
      x = x.reshape(*before, copies * length, *after)
      x = lax.slice_in_dim(x, 0, size * (length + 1), axis=axis).reshape(*before, size, length + 1, *after)
      x = lax.slice_in_dim(x, 0, (length - size) // stride * stride + 1, stride, axis + 1)
    return x.transpose(0, 2, 4, 1, 3, 5)

  def slices(x: Array) -> Array:  # the same cells; the transpose is faster
    for axis, size, stride in zip((1, 2), window, strides, strict=True):
      length = (x.shape[axis] - size) // stride * stride + 1
      x = jnp.stack([lax.slice_in_dim(x, i, i + length, stride, axis) for i in range(size)], -2)
    return x

  cells.defjvp(lambda primals, tangents: (cells(*primals), slices(*tangents)))
  return cells(x)


def conv2d_as_product(x: Array, kernel: Array, strides: tuple[int, int], padding: tuple[tuple[int, int], ...]) -> Array:
  """Convolves images. On CPUs, a product is faster if there are few windows."""

  def product() -> Array:
    cells = window_cells(jnp.pad(x, ((0, 0), *padding, (0, 0))), kernel.shape[:2], strides)
    pixels = cells.reshape(*cells.shape[:3], -1)
    y = lax.dot(pixels.reshape(-1, pixels.shape[-1]), kernel.reshape(-1, kernel.shape[-1]))
    return y.reshape(*cells.shape[:3], -1)

  return lax.platform_dependent(cpu=product, default=lambda: conv2d(x, kernel, strides, padding))


def grouped_conv(
  x: Array, kernel: Array, groups: int, strides: tuple[int, int], padding: tuple[tuple[int, int], ...]
) -> Array:
  """Convolves groups of channels. On CPUs, a convolution for each group is faster."""

  def separate() -> Array:
    parts = zip(jnp.split(x, groups, -1), jnp.split(kernel, groups, -1), strict=True)
    return jnp.concatenate([conv2d(part, filters, strides, padding) for part, filters in parts], -1)

  def together() -> Array:
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=layouts, feature_group_count=groups)

  return lax.platform_dependent(cpu=separate, default=together)


def depthwise_conv(x: Array, kernel: Array, strides: tuple[int, int], padding: tuple[tuple[int, int], ...]) -> Array:
  """Convolves each channel. On CPUs, a sum of shifted inputs is faster."""

  def added() -> Array:
    filters = kernel.reshape(*kernel.shape[:2], -1)
    inputs = shifted(x, kernel.shape[:2], strides, padding, store=True)
    terms = (pixels * filters[cell] for pixels, cell in zip(inputs, np.ndindex(*kernel.shape[:2]), strict=True))
    return sum(terms, next(terms))

  def grouped() -> Array:
    return lax.conv_general_dilated(
      x,
      kernel.reshape(*kernel.shape[:2], 1, -1),
      strides,
      padding,
      dimension_numbers=("NHWC", "HWIO", "NHWC"),
      feature_group_count=x.shape[-1],
    )

  return lax.platform_dependent(cpu=added, default=grouped)


def sum_pool(
  x: Array, window: tuple[int, int], strides: tuple[int, int], padding: tuple[tuple[int, int], ...]
) -> Array:
  """Adds up the elements in windows. On CPUs, a sum of shifted inputs is faster."""

  def added() -> Array:
    first, *others = shifted(x, window, strides, padding)
    return sum(others, first)

  def reduced() -> Array:
    return lax.reduce_window(x, 0.0, lax.add, (1, *window, 1), (1, *strides, 1), ((0, 0), *padding, (0, 0)))

  return lax.platform_dependent(cpu=added, default=reduced)


def avg_pool(
  x: Array, window: tuple[int, int], strides: tuple[int, int], padding: tuple[tuple[int, int], ...]
) -> Array:
  """Computes the means of windows, over the elements inside of x."""
  ones = jnp.ones((1, *x.shape[1:3], 1), x.dtype)
  return sum_pool(x, window, strides, padding) / sum_pool(ones, window, strides, padding)
