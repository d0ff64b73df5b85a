"""Random crops that keep enough of an object: SampleDistortedBoundingBox, SampleDistortedBoundingBoxV2.

Numbers are drawn with `jax.random` from the key of the node; the distribution is TensorFlow's.
"""

from typing import Any, NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["sample_distorted_bounding_box", "sample_distorted_bounding_box_v2"]


class _Attrs(TypedDict, total=False):
  """Attributes of both versions.

  Attributes:
    aspect_ratio_range: smallest and largest width divided by height.
    area_range: smallest and largest part of the image.
    max_attempts: after this number of attempts, the crop is the whole image.
    use_image_if_no_bounding_boxes: whether the whole image is the object if there are no boxes.
  """

  aspect_ratio_range: tuple[float, ...]
  area_range: tuple[float, ...]
  max_attempts: int
  use_image_if_no_bounding_boxes: bool


class _Rectangle(NamedTuple):
  """Rows from `top` to before `bottom`, columns from `left` to before `right`; integers, or arrays of them."""

  top: Any
  left: Any
  bottom: Any
  right: Any

  @property
  def area(self) -> Any:
    return (self.bottom - self.top) * (self.right - self.left)


_Crop = tuple[Array, Array, Array]


@register("SampleDistortedBoundingBox", ignores=("T", "seed", "seed2"))
def sample_distorted_bounding_box(
  ctx: Context,
  image_size: Array,
  bounding_boxes: Array,
  *,
  min_object_covered: float = 0.1,
  **attrs: Unpack[_Attrs],
) -> _Crop:
  """Computes `SampleDistortedBoundingBoxV2` with a covered part that is an attribute."""
  return sample_distorted_bounding_box_v2(ctx, image_size, bounding_boxes, np.float32(min_object_covered), **attrs)


@register("SampleDistortedBoundingBoxV2", ignores=("T", "seed", "seed2"))
def sample_distorted_bounding_box_v2(
  ctx: Context,
  image_size: Array,
  bounding_boxes: Array,
  min_object_covered: Array | np.float32,
  **attrs: Unpack[_Attrs],
) -> _Crop:
  """Returns a random crop of an image that covers enough of one of the boxes.

  Source op: `tf.raw_ops.SampleDistortedBoundingBoxV2`.

  Args:
    ctx: the program, which has the random key.
    image_size: `[3]`, height, width and channels; any integer dtype.
    bounding_boxes: `[batch, boxes, 4]` float32, `y1, x1, y2, x2` between 0 and 1.
    min_object_covered: scalar float32, the part of a box that the crop must cover.
    **attrs: see `_Attrs`.

  Returns:
    Begin `[3]` and size `[3]` for `tf.slice`, dtype of `image_size`, with all channels; the box `[1, 1, 4]` float32.

  Raises:
    InvalidInputError: there are no boxes, and the whole image is not allowed to be the object.

  Differs from TF: another stream of numbers.
  """
  size = jnp.asarray(image_size).astype(np.int32)
  height, width = size[0], size[1]
  objects = _objects(jnp.asarray(bounding_boxes), height, width, attrs.get("use_image_if_no_bounding_boxes", False))
  key, num_attempts = ctx.rng(), attrs.get("max_attempts", 100)
  whole = _Rectangle(jnp.zeros_like(height), jnp.zeros_like(width), height, width)

  def attempt(carry: Any) -> Any:
    index, _, crop = carry
    found, is_possible = _random_crop(jax.random.fold_in(key, index), height, width, **attrs)
    is_found = is_possible & _covers(found, objects, min_object_covered)
    return index + 1, is_found, jax.tree.map(lambda new, old: jnp.where(is_found, new, old), found, crop)

  def is_open(carry: Any) -> jax.Array:
    return ~carry[1] & (carry[0] < num_attempts)

  _, _, crop = jax.lax.while_loop(is_open, attempt, (jnp.int32(0), jnp.zeros((), bool), whole))
  begin = jnp.stack([crop.top, crop.left, jnp.zeros_like(crop.top)])
  extent = jnp.stack([crop.bottom - crop.top, crop.right - crop.left, jnp.full_like(crop.top, -1)])
  scale = jnp.stack([height, width, height, width]).astype(np.float32)
  dtype = jnp.asarray(image_size).dtype
  return begin.astype(dtype), extent.astype(dtype), (jnp.stack(crop).astype(np.float32) / scale)[None, None]


def _objects(boxes: jax.Array, height: jax.Array, width: jax.Array, may_be_image: bool) -> _Rectangle:
  boxes = boxes.reshape(-1, 4)
  if not boxes.shape[0]:
    if not may_be_image:
      raise InvalidInputError(
        "SampleDistortedBoundingBox: no bounding boxes; expected at least one, or use_image_if_no_bounding_boxes."
      )
    boxes = jnp.array([[0, 0, 1, 1]], np.float32)
  scale = jnp.stack([height, width, height, width]).astype(np.float32)
  return _Rectangle(*(boxes * scale).astype(np.int32).T)


def _covers(crop: _Rectangle, objects: _Rectangle, least: Array | np.float32) -> jax.Array:
  """Returns whether the crop covers at least this part of an object that is not empty."""
  rows = jnp.minimum(crop.bottom, objects.bottom) - jnp.maximum(crop.top, objects.top)
  columns = jnp.minimum(crop.right, objects.right) - jnp.maximum(crop.left, objects.left)
  covered = jnp.maximum(rows, 0) * jnp.maximum(columns, 0)
  is_object = objects.area >= 1
  part = covered.astype(np.float32) / jnp.where(is_object, objects.area, 1).astype(np.float32)
  return jnp.any(is_object & (part >= least)) & (crop.area >= 1)


def _random_crop(
  key: jax.Array, height: jax.Array, width: jax.Array, **attrs: Unpack[_Attrs]
) -> tuple[_Rectangle, jax.Array]:
  """Returns one random crop, and whether it fits into the image and the range of areas."""
  keys = jax.random.split(key, 4)
  low, high = attrs.get("aspect_ratio_range", (0.75, 1.33))
  ratio = low + (high - low) * jax.random.uniform(keys[0])
  total = (height * width).astype(np.float32)
  least, most = (np.float32(part) * total for part in attrs.get("area_range", (0.05, 1.0)))
  largest = _rounded(jnp.sqrt(most / ratio))
  # The largest height whose width, rounded, is not larger than the image.
  fitting = ((width + 0.5 - 1e-7) / ratio).astype(np.int32)
  fitting = fitting - (_rounded(fitting * ratio) > width)
  largest = jnp.minimum(jnp.where(_rounded(largest * ratio) > width, fitting, largest), height)
  smallest = jnp.minimum(_rounded(jnp.sqrt(least / ratio)), largest)
  rows = smallest + _below(keys[1], largest - smallest + 1)
  # Rounding may leave the range of areas by one row.
  rows = rows + ((rows * _rounded(rows * ratio)) < least)
  rows = rows - ((rows * _rounded(rows * ratio)) > most)
  columns = _rounded(rows * ratio)
  area = (rows * columns).astype(np.float32)
  is_possible = (area >= least) & (area <= most) & (rows <= height) & (columns <= width) & (rows > 0) & (columns > 0)
  top, left = _below(keys[2], height - rows), _below(keys[3], width - columns)
  return _Rectangle(top, left, top + rows, left + columns), is_possible


def _rounded(x: jax.Array) -> jax.Array:
  return jnp.round(x).astype(np.int32)


def _below(key: jax.Array, count: jax.Array) -> jax.Array:
  """Returns an integer from 0 to before `count`; 0 if that is not positive."""
  return jax.random.randint(key, (), 0, jnp.maximum(count, 1), jnp.int32)
