"""Bounding boxes drawn into images: DrawBoundingBoxes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["draw_bounding_boxes", "draw_bounding_boxes_v2"]

# Red, green, blue and opacity of successive boxes.
_COLORS = np.array(
  [
    [1, 1, 0, 1],
    [0, 0, 1, 1],
    [1, 0, 0, 1],
    [0, 1, 0, 1],
    [0.5, 0, 0.5, 1],
    [0.5, 0.5, 0, 1],
    [0.5, 0, 0, 1],
    [0, 0, 0.5, 1],
    [0, 1, 1, 1],
    [1, 0, 1, 1],
  ],
  np.float32,
)


@register("DrawBoundingBoxes", ignores=("T",))
def draw_bounding_boxes(images: Array, boxes: Array) -> Array:
  """Draws the borders of boxes over images, one pixel wide, in ten colors by turns.

  Source op: `tf.raw_ops.DrawBoundingBoxes`.

  Args:
    images: `[batch, height, width, depth]`, floating point, with depth 1, 3 or 4.
    boxes: `[batch, num_boxes, 4]` float32: top, left, bottom and right, in units of the image's size less one pixel.

  Returns:
    Same shape and dtype as `images`.
  """
  return draw_bounding_boxes_v2(images, boxes, np.zeros((0, 0), np.float32))


@register("DrawBoundingBoxesV2", ignores=("T",))
def draw_bounding_boxes_v2(images: Array, boxes: Array, colors: Array) -> Array:
  """Draws boxes like `DrawBoundingBoxes`, in the given `[num_colors, depth]` colors by turns, or its own if empty."""
  images, boxes, colors = jnp.asarray(images), jnp.asarray(boxes), jnp.asarray(colors)
  _, height, width, depth = images.shape
  if not boxes.shape[1]:
    return images
  if colors.size == 0:
    colors = jnp.asarray(_COLORS if depth > 1 else np.ones_like(_COLORS))
  row, column = jnp.arange(height)[None, :, None], jnp.arange(width)[None, None, :]

  def draw(i: Array, images: Array) -> Array:
    corners: Any = boxes[:, i] * jnp.asarray([height - 1, width - 1, height - 1, width - 1], jnp.float32)
    top, left, bottom, right = (v[:, None, None] for v in jnp.trunc(corners).astype(jnp.int32).T)
    is_drawn = (top <= bottom) & (left <= right) & (top < height) & (bottom >= 0) & (left < width) & (right >= 0)
    in_rows = (row >= jnp.maximum(top, 0)) & (row <= jnp.minimum(bottom, height - 1))
    in_columns = (column >= jnp.maximum(left, 0)) & (column <= jnp.minimum(right, width - 1))
    border = (in_rows & ((column == left) | (column == right))) | (in_columns & ((row == top) | (row == bottom)))
    color = colors[i % colors.shape[0], :depth].astype(images.dtype)
    return jnp.where((border & is_drawn)[..., None], color, images)

  return lax.fori_loop(0, boxes.shape[1], draw, images)
