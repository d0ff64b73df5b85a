"""Colors of images: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrastv2."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["adjust_contrast_v2", "adjust_hue", "adjust_saturation", "hsv_to_rgb", "rgb_to_hsv"]


def _in_float32(op: str, function: Callable[[Array], Array], images: Any) -> Array:
  images = jnp.asarray(images)
  if images.ndim < 1 or images.shape[-1] != 3:
    raise InvalidInputError(f"{op}: images of shape {images.shape}; expected 3 channels in the last dimension.")
  wide = images.astype(jnp.float32) if jnp.finfo(images.dtype).bits < 32 else images
  return function(wide).astype(images.dtype)


def _hue_and_range(rgb: Array) -> tuple[Array, Array, Array, Array]:
  """Returns hue in [0, 6), smallest and largest channel, and their difference, each without the channel dimension."""
  red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
  # Selected instead of computed by `maximum`, whose derivative splits ties. If channels tie, TensorFlow differentiates
  # with respect to the first of red, green and blue that is largest, and the first of blue, green and red that is
  # smallest.
  largest = jnp.where((red >= green) & (red >= blue), red, jnp.where(green >= blue, green, blue))
  smallest = jnp.where((blue <= red) & (blue <= green), blue, jnp.where(green <= red, green, red))
  spread = largest - smallest
  safe = jnp.where(spread > 0, spread, 1)
  hue = jnp.where(
    red == largest,
    (green - blue) / safe,
    jnp.where(green == largest, (blue - red) / safe + 2, (red - green) / safe + 4),
  )
  hue = jnp.where(spread > 0, hue, 0)
  return jnp.where(hue < 0, hue + 6, hue), smallest, largest, spread


def _hue_weights(hue: Array) -> Array:
  """Returns each channel's share of the largest channel, by hue in [0, 6]; `[..., 3]`."""
  red = jnp.abs(hue - 3) - 1
  green = 2 - jnp.abs(hue - 2)
  blue = 2 - jnp.abs(hue - 4)
  return jnp.clip(jnp.stack([red, green, blue], axis=-1), 0, 1)


def _to_hsv(rgb: Array) -> Array:
  hue, _, largest, spread = _hue_and_range(rgb)
  saturation = jnp.where(largest > 0, spread / jnp.where(largest > 0, largest, 1), 0)
  return jnp.stack([hue / 6, saturation, largest], axis=-1)


def _to_rgb(hsv: Array) -> Array:
  hue, saturation, value = hsv[..., 0], hsv[..., 1:2], hsv[..., 2:3]
  return ((1 - saturation) + saturation * _hue_weights(hue * 6)) * value


@register("RGBToHSV", ignores=("T",))
def rgb_to_hsv(images: Array) -> Array:
  """Converts red, green and blue in [0, 1] to hue, saturation and value, each in [0, 1].

  Source op: `tf.raw_ops.RGBToHSV`.

  Args:
    images: `[..., 3]`, floating point.

  Returns:
    Same shape and dtype. Grays have hue 0.

  Differs from TF: where the smallest channel is 0, TensorFlow's gradient of the saturation is 0.
  """
  return _in_float32("RGBToHSV", _to_hsv, images)


@register("HSVToRGB", ignores=("T",))
def hsv_to_rgb(images: Array) -> Array:
  """Converts hue, saturation and value to red, green and blue: the inverse of `RGBToHSV`. Same shape and dtype."""
  return _in_float32("HSVToRGB", _to_rgb, images)


@register("AdjustHue", ignores=("T",))
def adjust_hue(images: Array, delta: Array) -> Array:
  """Adds `delta` to the hue of images; hue wraps around at 1.

  Source op: `tf.raw_ops.AdjustHue`.

  Args:
    images: `[..., 3]` red, green and blue, floating point.
    delta: scalar float32, in turns of the color wheel.

  Returns:
    Same shape and dtype.
  """

  def adjusted(rgb: Array) -> Array:
    hue, smallest, _, spread = _hue_and_range(rgb)
    turned = jnp.mod(hue + jnp.asarray(delta, rgb.dtype) * 6, 6)
    return smallest[..., None] + spread[..., None] * _hue_weights(turned)

  return _in_float32("AdjustHue", adjusted, images)


@register("AdjustSaturation", ignores=("T",))
def adjust_saturation(images: Array, scale: Array) -> Array:
  """Multiplies the saturation of images by `scale` and clips it to [0, 1].

  Source op: `tf.raw_ops.AdjustSaturation`.

  Args:
    images: `[..., 3]` red, green and blue, floating point.
    scale: scalar float32.

  Returns:
    Same shape and dtype.
  """

  def adjusted(rgb: Array) -> Array:
    hsv = _to_hsv(rgb)
    saturation = jnp.clip(hsv[..., 1:2] * jnp.asarray(scale, rgb.dtype), 0, 1)
    return _to_rgb(jnp.concatenate([hsv[..., :1], saturation, hsv[..., 2:]], axis=-1))

  return _in_float32("AdjustSaturation", adjusted, images)


@register("AdjustContrastv2", ignores=("T",))
def adjust_contrast_v2(images: Array, contrast_factor: Array) -> Array:
  """Returns `(images - mean) * contrast_factor + mean`, with each channel's mean over height and width.

  Source op: `tf.raw_ops.AdjustContrastv2`.

  Args:
    images: `[..., height, width, channels]`, floating point.
    contrast_factor: scalar float32.

  Returns:
    Same shape and dtype.
  """
  images = jnp.asarray(images)
  if images.ndim < 3:
    raise InvalidInputError(f"AdjustContrastv2: images of shape {images.shape}; expected height, width and channels.")
  wide = images.astype(jnp.float32)
  mean = jnp.mean(wide, axis=(-3, -2), keepdims=True)
  return ((wide - mean) * jnp.asarray(contrast_factor, np.float32) + mean).astype(images.dtype)
