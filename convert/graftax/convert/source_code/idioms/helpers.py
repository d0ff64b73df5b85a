"""Functions that JAX does not have with the same order of operations.

Parts of a program that are one of them become a function of its name. Those of `WRITTEN` are written as they are here,
and called.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

__all__ = [
  "WRITTEN",
  "avg_pool",
  "batch_norm",
  "batch_norm_without_scale",
  "conv2d",
  "depthwise_conv",
  "keras_layer_norm",
  "layer_norm",
  "sum_pool",
]

WRITTEN = ("conv2d", "depthwise_conv", "sum_pool", "avg_pool")


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


def conv2d(x: Array, kernel: Array, strides: tuple[int, int] = (1, 1), padding: str = "SAME") -> Array:
  """Convolves images."""
  return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def depthwise_conv(x: Array, kernel: Array, strides: tuple[int, int], padding: tuple[tuple[int, int], ...]) -> Array:
  """Convolves each channel. On CPUs, a sum of shifted inputs is faster."""

  def shifted() -> Array:
    filters = kernel.reshape(*kernel.shape[:2], -1)
    padded = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    sizes = (padded.shape[1] - kernel.shape[0], padded.shape[2] - kernel.shape[1])
    rows, columns = (n // step * step + 1 for n, step in zip(sizes, strides, strict=True))
    batch, _, _, channels = x.shape
    steps = (1, *strides, 1)
    terms = (
      lax.slice(padded, (0, i, j, 0), (batch, i + rows, j + columns, channels), steps) * filters[i, j]
      for i, j in np.ndindex(kernel.shape[:2])
    )
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

  return lax.platform_dependent(cpu=shifted, default=grouped)


def sum_pool(
  x: Array, window: tuple[int, int], strides: tuple[int, int], padding: tuple[tuple[int, int], ...]
) -> Array:
  """Adds up the elements in windows. On CPUs, a sum of shifted inputs is faster."""

  def shifted() -> Array:
    padded = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    sizes = (padded.shape[1] - window[0], padded.shape[2] - window[1])
    rows, columns = (n // step * step + 1 for n, step in zip(sizes, strides, strict=True))
    batch, _, _, channels = x.shape
    steps = (1, *strides, 1)
    first, *others = [
      lax.slice(padded, (0, i, j, 0), (batch, i + rows, j + columns, channels), steps) for i, j in np.ndindex(window)
    ]
    return sum(others, first)

  def reduced() -> Array:
    return lax.reduce_window(x, 0.0, lax.add, (1, *window, 1), (1, *strides, 1), ((0, 0), *padding, (0, 0)))

  return lax.platform_dependent(cpu=shifted, default=reduced)


def avg_pool(
  x: Array, window: tuple[int, int], strides: tuple[int, int], padding: tuple[tuple[int, int], ...]
) -> Array:
  """Computes the means of windows, over the elements inside of x."""
  ones = jnp.ones((1, *x.shape[1:3], 1), x.dtype)
  return sum_pool(x, window, strides, padding) / sum_pool(ones, window, strides, padding)
