"""Resizing of images: ResizeBilinear, ResizeBicubic, ResizeArea, ResizeNearestNeighbor and their gradients.

Each side is resized on its own, as a weighted sum of gathered pixels. Only a pixel's neighbors are read, so a NaN does
not spread, and gathering 2 or 4 pixels is many times faster than a product with a nearly empty matrix.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Namespace, StaticSizes

__all__ = [
  "resample",
  "resize_area",
  "resize_bicubic",
  "resize_bicubic_grad",
  "resize_bilinear",
  "resize_bilinear_grad",
  "resize_nearest_neighbor",
  "resize_nearest_neighbor_grad",
]

# (image, axis, output size) -> image with another size of one side; linear in the image.
_Side = Callable[[Array, int, int], Array]

# More neighbors than this are summed by a matrix product.
_MAX_GATHERED = 32

_TABLE_SIZE = 1024


def resample(images: Array, rows: Array, columns: Array, precision: Any = "highest") -> Array:
  """Multiplies both sides of `[batch, height, width, channels]` images by weights.

  Args:
    images: floating point.
    rows: `[out_height, height]`, same dtype.
    columns: `[out_width, width]`, same dtype.
    precision: of the products, as `jax.lax.Precision` takes it.
  """
  images = jnp.einsum("oh,nhwc->nowc", rows, images, precision=precision)
  return jnp.einsum("pw,nowc->nopc", columns, images, precision=precision)


def _namespace_for(*sizes: int) -> Namespace:
  # Weights of known sizes are constants; with symbolic sizes they are computed when the program runs.
  return np if all(isinstance(n, (int, np.integer)) for n in sizes) else jnp


def _scale(xp: Namespace, out_size: int, in_size: int, align_corners: bool) -> Array:
  # TensorFlow divides float32 numbers; another width gives other pixels at the boundaries.
  out, in_ = xp.asarray(out_size, xp.float32), xp.asarray(in_size, xp.float32)
  if not align_corners:
    return in_ / out
  safe = xp.where(out > 1, out - xp.float32(1), xp.float32(1))
  return xp.where(out > 1, (in_ - xp.float32(1)) / safe, in_ / out).astype(xp.float32)


def _centers(out_size: int, in_size: int, align_corners: bool, half_pixel_centers: bool) -> Array:
  """Returns the position of each output pixel in the input, `[out_size]` float32."""
  if align_corners and half_pixel_centers:
    raise InvalidInputError("resize: align_corners and half_pixel_centers exclude each other; set at most one.")
  xp = _namespace_for(out_size, in_size)
  scale = _scale(xp, out_size, in_size, align_corners)
  pixels = xp.arange(out_size).astype(xp.float32)
  if half_pixel_centers:
    half = xp.float32(0.5)
    return (pixels + half) * scale - half
  return pixels * scale


def _pixels(x: Array, axis: int, index: Array) -> Array:
  where: tuple[slice | Array, ...] = (slice(None),) * axis + (index,)
  return jnp.asarray(x).at[where].get(mode="promise_in_bounds", indices_are_sorted=True)


def _along(axis: int, weights: Array, x: Array) -> Array:
  return jnp.asarray(weights).astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _bilinear(align_corners: bool, half_pixel_centers: bool) -> _Side:
  def resized(x: Array, axis: int, out_size: int) -> Array:
    in_size = x.shape[axis]
    xp = _namespace_for(out_size, in_size)
    center = _centers(out_size, in_size, align_corners, half_pixel_centers)
    if _is_same(in_size, out_size):
      return x
    floor = xp.floor(center)
    lower = _pixels(x, axis, xp.clip(floor.astype(xp.int32), 0, in_size - 1))
    upper = _pixels(x, axis, xp.minimum(xp.ceil(center).astype(xp.int32), in_size - 1))
    return lower + (upper - lower) * _along(axis, center - floor, x)

  return resized


def _cubic_table(a: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns weights of the near and the far neighbors at each of the 1025 distances to which TensorFlow rounds."""
  x = (np.arange(_TABLE_SIZE + 1) / _TABLE_SIZE).astype(np.float32).astype(np.float64)
  near = ((a + 2) * x - (a + 3)) * x * x + 1
  x = x + 1
  far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
  return near.astype(np.float32), far.astype(np.float32)


def _bicubic(align_corners: bool, half_pixel_centers: bool) -> _Side:
  near, far = _cubic_table(-0.5 if half_pixel_centers else -0.75)

  def resized(x: Array, axis: int, out_size: int) -> Array:
    in_size = x.shape[axis]
    xp = _namespace_for(out_size, in_size)
    center = _centers(out_size, in_size, align_corners, half_pixel_centers)
    floor = xp.floor(center)
    offset = xp.rint((center - floor) * xp.float32(_TABLE_SIZE)).astype(xp.int32)
    tables = [(far, offset), (near, offset), (near, _TABLE_SIZE - offset), (far, _TABLE_SIZE - offset)]
    indices = [floor.astype(xp.int32) + shift for shift in (-1, 0, 1, 2)]
    weights = [xp.asarray(table)[position] for table, position in tables]
    if half_pixel_centers:
      inside = [(index >= 0) & (index < in_size) for index in indices]
      weights = [xp.where(i, weight, xp.float32(0)) for i, weight in zip(inside, weights, strict=True)]
      total = sum(weights[1:], weights[0])
      weights = [weight / total for weight in weights]
    terms = [
      _pixels(x, axis, xp.clip(index, 0, in_size - 1)) * _along(axis, weight, x)
      for index, weight in zip(indices, weights, strict=True)
    ]
    return sum(terms[1:], terms[0])

  return resized


def _area_weights(align_corners: bool) -> Callable[[int, int], Array]:
  """Returns `[output size, input size]` float32 weights of one side."""

  def weights(out_size: int, in_size: int) -> Array:
    xp = _namespace_for(out_size, in_size)
    if isinstance(in_size, int) and in_size == 1:
      return xp.ones((out_size, 1), xp.float32)  # with align_corners the scale is 0
    scale = _scale(xp, out_size, in_size, align_corners)
    start = (xp.arange(out_size).astype(xp.float32) * scale)[:, None]
    end = (xp.arange(1, out_size + 1).astype(xp.float32) * scale)[:, None]
    # With align_corners the last windows extend beyond the edge, and the last pixel is repeated; no window is wider
    # than the scale.
    beyond = 2 * in_size + 1
    cell = xp.arange(beyond).astype(xp.float32)[None, :]
    overlap = xp.clip(xp.minimum(cell + 1, end) - xp.maximum(cell, start), 0, 1).astype(xp.float32)
    inside = xp.concatenate(
      [overlap[:, : in_size - 1], xp.sum(overlap[:, in_size - 1 :], axis=1, keepdims=True)], axis=1
    )
    return inside / scale

  return weights


def _area(align_corners: bool) -> _Side:
  weights_of = _area_weights(align_corners)

  def resized(x: Array, axis: int, out_size: int) -> Array:
    if _is_same(x.shape[axis], out_size):
      return x
    weights = weights_of(out_size, x.shape[axis])
    num_gathered = np.max(np.sum(weights != 0, axis=1), initial=0) if isinstance(weights, np.ndarray) else None
    if num_gathered is None or num_gathered > _MAX_GATHERED:
      moved = jnp.tensordot(jnp.asarray(weights).astype(x.dtype), x, axes=(1, axis), precision="highest")
      return jnp.moveaxis(moved, 0, axis)
    total = jnp.zeros((*x.shape[:axis], out_size, *x.shape[axis + 1 :]), x.dtype)
    first = np.argmax(weights != 0, axis=1)
    for shift in range(num_gathered):
      index = np.minimum(first + shift, weights.shape[1] - 1)
      weight = np.where(first + shift == index, weights[np.arange(len(index)), index], np.float32(0))
      term = _pixels(x, axis, index) * _along(axis, weight, x)
      total = total + jnp.where(_along(axis, weight, x) != 0, term, jnp.zeros((), x.dtype))
    return total

  return resized


def _both_sides(images: Array, size: Sequence[int], side: _Side) -> Array:
  # In this order the gradient, whose scatters along the width are slow on XLA:CPU, takes a third of the time.
  for axis, out_size in ((1, size[0]), (2, size[1])):
    images = side(images, axis, out_size)
  return images


def _is_same(in_size: int, out_size: int) -> bool:
  return isinstance(in_size, int) and in_size == out_size


def _resized(images: Array, size: tuple[int, ...], side: _Side) -> Array:
  images = jnp.asarray(images)
  if images.ndim != 4 or len(size) != 2:
    raise InvalidInputError(
      f"resize: images of shape {images.shape} and size {tuple(size)!r}; expected [batch, height, width, channels] and "
      "two numbers."
    )
  return _both_sides(images.astype(jnp.float32), size, side)


def _resized_gradient(grads: Array, original_image: Array, side: _Side) -> Array:
  grads, original = jnp.asarray(grads), jnp.asarray(original_image)
  dtype = jnp.promote_types(jnp.float32, original.dtype)
  spec = jax.ShapeDtypeStruct(original.shape, dtype)
  transpose = jax.linear_transpose(lambda images: _both_sides(images, grads.shape[1:3], side), spec)
  (result,) = transpose(grads.astype(dtype))
  return result.astype(original.dtype)


@register("ResizeBilinear", ignores=("T",))
def resize_bilinear(
  images: Array,
  size: StaticSizes,
  *,
  align_corners: bool = False,
  half_pixel_centers: bool = False,
) -> Array:
  """Resizes images; each pixel is mixed from the four around it.

  Source op: `tf.raw_ops.ResizeBilinear`.

  Args:
    images: `[batch, height, width, channels]`, any real dtype.
    size: new height and width. Must be concrete.
    align_corners: whether the corner pixels keep their values.
    half_pixel_centers: whether pixels are counted by their centers.

  Returns:
    `[batch, *size, channels]`, float32.

  Raises:
    StaticInputError: `size` depends on traced data.
    InvalidInputError: both flags are set, or `images` is not of rank 4.
  """
  return _resized(images, size, _bilinear(align_corners, half_pixel_centers))


@register("ResizeBilinearGrad", ignores=("T",))
def resize_bilinear_grad(
  grads: Array,
  original_image: Array,
  *,
  align_corners: bool = False,
  half_pixel_centers: bool = False,
) -> Array:
  """Returns the gradient of `ResizeBilinear`: shape and dtype of `original_image`, whose values are not used."""
  return _resized_gradient(grads, original_image, _bilinear(align_corners, half_pixel_centers))


@register("ResizeBicubic", ignores=("T",))
def resize_bicubic(
  images: Array, size: StaticSizes, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Resizes images; each pixel is mixed from the 16 around it. Arguments and result as for `ResizeBilinear`."""
  return _resized(images, size, _bicubic(align_corners, half_pixel_centers))


@register("ResizeBicubicGrad", ignores=("T",))
def resize_bicubic_grad(
  grads: Array, original_image: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Returns the gradient of `ResizeBicubic`: shape and dtype of `original_image`, whose values are not used."""
  return _resized_gradient(grads, original_image, _bicubic(align_corners, half_pixel_centers))


@register("ResizeArea", ignores=("T",))
def resize_area(images: Array, size: StaticSizes, *, align_corners: bool = False) -> Array:
  """Resizes images; each pixel is the mean of the area it covers. Otherwise as `ResizeBilinear`.

  Differs from TF: it has a derivative here. If an area is wider than 32 pixels or a size is symbolic, NaN and infinity
  spread over all pixels of their row or column.
  """
  return _resized(images, size, _area(align_corners))


def _nearest_index(out_size: int, in_size: int, align_corners: bool, half_pixel_centers: bool) -> Array:
  xp = _namespace_for(out_size, in_size)
  scale = _scale(xp, out_size, in_size, align_corners)
  pixels = xp.arange(out_size).astype(xp.float32)
  if half_pixel_centers:
    position = xp.floor((pixels + xp.float32(0.5)) * scale)
  elif align_corners:
    # Halves are rounded up, unlike in numpy.
    position = xp.floor(pixels * scale + xp.float32(0.5))
  else:
    position = xp.floor(pixels * scale)
  return xp.clip(position.astype(xp.int32), 0, in_size - 1)


def _take(x: Array, axis: int, index: Array) -> Array:
  size = x.shape[axis]
  if isinstance(index, np.ndarray) and size:
    if np.array_equal(index, np.arange(size)):
      return x
    # A whole factor repeats every pixel: a broadcast, much faster than a gather.
    factor = len(index) // size
    if len(index) == factor * size and np.array_equal(index, np.repeat(np.arange(size), factor)):
      wide = jnp.broadcast_to(jnp.expand_dims(x, axis + 1), (*x.shape[: axis + 1], factor, *x.shape[axis + 1 :]))
      return wide.reshape(*x.shape[:axis], len(index), *x.shape[axis + 1 :])
  return jnp.take(x, index, axis=axis, mode="clip")


def _nearest(images: Array, size: tuple[int, ...], align_corners: bool, half_pixel_centers: bool) -> Array:
  images = jnp.asarray(images)
  for axis, out_size in ((1, size[0]), (2, size[1])):
    index = _nearest_index(out_size, images.shape[axis], align_corners, half_pixel_centers)
    images = _take(images, axis, index)
  return images


@register("ResizeNearestNeighbor", ignores=("T",))
def resize_nearest_neighbor(
  images: Array, size: StaticSizes, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Resizes images; each pixel is copied from the nearest one.

  Source op: `tf.raw_ops.ResizeNearestNeighbor`.

  Args:
    images: `[batch, height, width, channels]`, any real dtype.
    size: new height and width. Must be concrete.
    align_corners: whether the corner pixels keep their places.
    half_pixel_centers: whether pixels are counted by their centers.

  Returns:
    `[batch, *size, channels]`, same dtype.
  """
  return _nearest(images, size, align_corners, half_pixel_centers)


@register("ResizeNearestNeighborGrad", ignores=("T",))
def resize_nearest_neighbor_grad(
  grads: Array, size: StaticSizes, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Computes the gradient of `ResizeNearestNeighbor` for images of `size`: `grads` summed at their source pixels."""
  grads = jnp.asarray(grads)
  for axis, in_size in ((1, size[0]), (2, size[1])):
    index = _nearest_index(grads.shape[axis], in_size, align_corners, half_pixel_centers)
    shape = (*grads.shape[:axis], in_size, *grads.shape[axis + 1 :])
    where: tuple[slice | Array, ...] = (slice(None),) * axis + (index,)
    grads = jnp.zeros(shape, grads.dtype).at[where].add(grads)
  return grads
