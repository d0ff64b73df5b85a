"""Patches of images and volumes laid out as channels: ExtractImagePatches, ExtractVolumePatches."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.spatial.layouts import layout
from graftax.ops_jax.spatial.windows import spatial_window, window_views

__all__ = ["extract_image_patches", "extract_volume_patches"]


def _patches(
  op: str, x: Any, sizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> Array:
  x = jnp.asarray(x)
  place = layout(op, "NHWC" if x.ndim == 4 else "NDHWC", x.ndim)
  size = place.spatial(sizes)
  window = spatial_window(op, place, x.shape, size, strides=strides, padding=padding, dilations=rates)
  views = [view for _, view in window_views(x, window, place.spatial_axes, 0)]
  return jnp.concatenate(views, axis=-1)


@register("ExtractImagePatches", ignores=("T",))
def extract_image_patches(
  images: Array, *, ksizes: tuple[int, ...], strides: tuple[int, ...], rates: tuple[int, ...], padding: str
) -> Array:
  """Lays out the pixels of every window of an image side by side in the channels.

  Source op: `tf.raw_ops.ExtractImagePatches`.

  Args:
    images: `[batch, height, width, channels]`, any dtype.
    ksizes: window size, one entry per dimension, 1 for batch and channels; so are `strides` and `rates`.
    strides: step between windows.
    rates: step between the pixels of a window.
    padding: `"SAME"` (with zeros) or `"VALID"`.

  Returns:
    `[batch, out_height, out_width, ksize_rows * ksize_columns * channels]`, same dtype.
  """
  return _patches("ExtractImagePatches", images, ksizes, strides, rates, padding)


@register("ExtractVolumePatches", ignores=("T",))
def extract_volume_patches(
  input: Array,
  *,
  ksizes: tuple[int, ...],
  strides: tuple[int, ...],
  padding: str,
) -> Array:
  """Lays out the cells of every window of a `[batch, depth, height, width, channels]` volume in the channels."""
  return _patches("ExtractVolumePatches", input, ksizes, strides, (1,) * 5, padding)
