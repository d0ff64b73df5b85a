"""Boxes cut out of images and resized: CropAndResize and its gradients for images and boxes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.numeric import round_half_away
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes

__all__ = ["crop_and_resize", "crop_and_resize_grad_boxes", "crop_and_resize_grad_image"]


def _positions(start: Array, end: Array, crop_size: int, image_size: Any) -> tuple[Array, Array]:
  """Returns image positions of each crop's rows (or columns), `[num_boxes, crop_size]`, and whether they are inside."""
  last = jnp.asarray(image_size - 1, jnp.float32)
  if crop_size > 1:
    # Rounded like TensorFlow, step by step, since the last position of a box that ends at the image's edge could
    # otherwise be outside. XLA would replace a division by a scalar by a product with its inverse, and fuse a product
    # with the sum; the maximum, which changes no finite number, separates them. XLA may compute a position several
    # times: if only some were fused, the position could be 6 and its floor 5.
    smallest = float(np.finfo(np.float32).min)
    intervals = jax.lax.optimization_barrier(jnp.full_like(start, crop_size - 1))
    step = (end - start) * last / intervals
    distance = jnp.arange(crop_size, dtype=jnp.float32) * step[:, None]
    position = jnp.maximum(start * last, smallest)[:, None] + jnp.maximum(distance, smallest)
  else:
    position = jnp.multiply(0.5 * (start + end), last)[:, None]
  return position, (position >= 0) & (position <= last)


def _crops(
  image: Array, boxes: Array, box_ind: Array, crop_size: tuple[int, ...], method: str, extrapolation_value: Any
) -> Array:
  if method not in ("bilinear", "nearest"):
    raise UnsupportedAttrError(f"CropAndResize: method={method!r} is not supported; expected 'bilinear' or 'nearest'.")
  if image.ndim != 4 or boxes.ndim != 2 or len(crop_size) != 2:
    raise InvalidInputError(
      f"CropAndResize: image {image.shape}, boxes {boxes.shape}, crop_size {crop_size!r}; expected "
      "[batch, height, width, channels], [num_boxes, 4] and two numbers."
    )
  height, width = image.shape[1:3]
  y, y_inside = _positions(boxes[:, 0], boxes[:, 2], crop_size[0], height)
  x, x_inside = _positions(boxes[:, 1], boxes[:, 3], crop_size[1], width)

  def pixels(rows: Array, columns: Array) -> Array:
    rows = jnp.clip(rows, 0, height - 1).astype(jnp.int32)
    columns = jnp.clip(columns, 0, width - 1).astype(jnp.int32)
    return image[box_ind[:, None, None], rows[:, :, None], columns[:, None, :]]

  if method == "nearest":
    crops = pixels(round_half_away(y), round_half_away(x))
  else:
    top, left, bottom, right = jnp.floor(y), jnp.floor(x), jnp.ceil(y), jnp.ceil(x)
    y_lerp, x_lerp = (y - top)[:, :, None, None], (x - left)[:, None, :, None]
    upper, lower = (pixels(rows, left) + (pixels(rows, right) - pixels(rows, left)) * x_lerp for rows in (top, bottom))
    crops = upper + (lower - upper) * y_lerp
  inside = (y_inside[:, :, None] & x_inside[:, None, :])[..., None]
  return jnp.where(inside, crops, jnp.asarray(extrapolation_value, crops.dtype))


@register("CropAndResize", ignores=("T",))
def crop_and_resize(
  image: Array,
  boxes: Array,
  box_ind: Array,
  crop_size: StaticSizes,
  *,
  method: str = "bilinear",
  extrapolation_value: float = 0.0,
) -> Array:
  """Cuts boxes out of images and resizes them.

  Source op: `tf.raw_ops.CropAndResize`.

  Args:
    image: `[batch, height, width, channels]`, any real dtype.
    boxes: `[num_boxes, 4]` float32: top, left, bottom and right, in units of the image's size less one pixel.
    box_ind: `[num_boxes]` int32, the image of each box.
    crop_size: height and width of the crops. Must be concrete.
    method: `"bilinear"` or `"nearest"`.
    extrapolation_value: value of positions outside the image.

  Returns:
    `[num_boxes, *crop_size, channels]` float32.

  Differs from TF: with `"nearest"` the derivative with respect to `boxes` is 0; TensorFlow uses that of `"bilinear"`.
  A `box_ind` out of range is clipped; TensorFlow's CPU kernel raises.
  """
  image = jnp.asarray(image).astype(jnp.float32)
  boxes, box_ind = jnp.asarray(boxes), jnp.asarray(box_ind)
  return _crops(image, boxes, box_ind, crop_size, method, extrapolation_value)


@register("CropAndResizeGradImage")
def crop_and_resize_grad_image(
  grads: Array,
  boxes: Array,
  box_ind: Array,
  image_size: StaticSizes,
  *,
  T: np.dtype,
  method: str = "bilinear",
) -> Array:
  """Computes the gradient of `CropAndResize` with respect to images of shape `image_size`, dtype `T`."""
  grads, boxes, box_ind = jnp.asarray(grads), jnp.asarray(boxes), jnp.asarray(box_ind)

  def crop(image: Array) -> Array:
    return _crops(image, boxes, box_ind, grads.shape[1:3], method, 0)

  (result,) = jax.linear_transpose(crop, jax.ShapeDtypeStruct(tuple(image_size), grads.dtype))(grads)
  return result.astype(T)


@register("CropAndResizeGradBoxes", ignores=("T", "method"))
def crop_and_resize_grad_boxes(grads: Array, image: Array, boxes: Array, box_ind: Array) -> Array:
  """Computes the gradient of bilinear `CropAndResize` with respect to its boxes, `[num_boxes, 4]` float32."""
  grads, boxes, box_ind = jnp.asarray(grads), jnp.asarray(boxes), jnp.asarray(box_ind)
  image = jnp.asarray(image).astype(jnp.float32)
  _, vjp = jax.vjp(lambda boxes: _crops(image, boxes, box_ind, grads.shape[1:3], "bilinear", 0), boxes)
  return vjp(grads)[0]
