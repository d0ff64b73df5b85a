"""Resizing images: bilinear, bicubic and area as products with one matrix per side, nearest neighbour as indexing."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax.context import Context
from graftax.ops_jax.errors import InvalidInputError
from graftax.ops_jax.registry import register
from graftax.ops_jax.values import Array, Static

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

# (output size, input size) -> `[output size, input size]` float32 weights of one side.
_Weights = Callable[[Any, Any], Array]

_TABLE_SIZE = 1024


def resample(images: Array, rows: Array, columns: Array, precision: Any = "highest") -> Array:
  """`[batch, height, width, channels]` images with both sides multiplied by weights.

  Args:
    images: floating point.
    rows: `[out_height, height]`, same dtype.
    columns: `[out_width, width]`, same dtype.
    precision: of the products, as `jax.lax.Precision` takes it.
  """
  images = jnp.einsum("oh,nhwc->nowc", rows, images, precision=precision)
  return jnp.einsum("pw,nowc->nopc", columns, images, precision=precision)


def _namespace_for(*sizes: Any) -> ModuleType:
  # Weights of known sizes are constants; with symbolic sizes they are computed when the program runs.
  return np if all(isinstance(n, (int, np.integer)) for n in sizes) else jnp


def _scale(xp: ModuleType, out_size: Any, in_size: Any, align_corners: bool) -> Array:
  # TensorFlow divides float32 numbers; another width gives other pixels at the boundaries.
  out, in_ = xp.asarray(out_size, xp.float32), xp.asarray(in_size, xp.float32)
  if not align_corners:
    return in_ / out
  safe = xp.where(out > 1, out - xp.float32(1), xp.float32(1))
  return xp.where(out > 1, (in_ - xp.float32(1)) / safe, in_ / out).astype(xp.float32)


def _centers(out_size: Any, in_size: Any, align_corners: bool, half_pixel_centers: bool) -> Array:
  """Where each output pixel lies in the input, `[out_size]` float32."""
  if align_corners and half_pixel_centers:
    raise InvalidInputError("resize: align_corners and half_pixel_centers exclude each other; set at most one.")
  xp = _namespace_for(out_size, in_size)
  scale = _scale(xp, out_size, in_size, align_corners)
  pixels = xp.arange(out_size).astype(xp.float32)
  if half_pixel_centers:
    half = xp.float32(0.5)
    return (pixels + half) * scale - half
  return pixels * scale


def _one_hot(index: Array, size: Any, xp: ModuleType) -> Array:
  return (index[:, None] == xp.arange(size)[None, :]).astype(xp.float32)


def _bilinear_weights(align_corners: bool, half_pixel_centers: bool) -> _Weights:
  def weights(out_size: Any, in_size: Any) -> Array:
    xp = _namespace_for(out_size, in_size)
    center = _centers(out_size, in_size, align_corners, half_pixel_centers)
    floor = xp.floor(center)
    lerp = (center - floor)[:, None]
    lower = xp.maximum(floor.astype(xp.int32), 0)
    upper = xp.minimum(xp.ceil(center).astype(xp.int32), in_size - 1)
    return (1 - lerp) * _one_hot(lower, in_size, xp) + lerp * _one_hot(upper, in_size, xp)

  return weights


def _cubic_table(a: float) -> tuple[np.ndarray, np.ndarray]:
  """Weights of the near and the far neighbours at each of 1025 distances: TensorFlow rounds distances to these."""
  x = (np.arange(_TABLE_SIZE + 1) / _TABLE_SIZE).astype(np.float32).astype(np.float64)
  near = ((a + 2) * x - (a + 3)) * x * x + 1
  x = x + 1
  far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
  return near.astype(np.float32), far.astype(np.float32)


def _bicubic_weights(align_corners: bool, half_pixel_centers: bool) -> _Weights:
  near, far = _cubic_table(-0.5 if half_pixel_centers else -0.75)

  def weights(out_size: Any, in_size: Any) -> Array:
    xp = _namespace_for(out_size, in_size)
    center = _centers(out_size, in_size, align_corners, half_pixel_centers)
    floor = xp.floor(center)
    offset = xp.rint((center - floor) * xp.float32(_TABLE_SIZE)).astype(xp.int32)
    tables = [(far, offset), (near, offset), (near, _TABLE_SIZE - offset), (far, _TABLE_SIZE - offset)]
    total: Any = 0
    for shift, (table, position) in enumerate(tables, start=-1):
      index = floor.astype(xp.int32) + shift
      weight = xp.asarray(table)[position]
      if half_pixel_centers:
        weight = xp.where((index >= 0) & (index < in_size), weight, xp.float32(0))
      total = total + weight[:, None] * _one_hot(xp.clip(index, 0, in_size - 1), in_size, xp)
    return total / xp.sum(total, axis=1, keepdims=True) if half_pixel_centers else total

  return weights


def _area_weights(align_corners: bool) -> _Weights:
  def weights(out_size: Any, in_size: Any) -> Array:
    xp = _namespace_for(out_size, in_size)
    scale = _scale(xp, out_size, in_size, align_corners)
    start = (xp.arange(out_size).astype(xp.float32) * scale)[:, None]
    end = (xp.arange(1, out_size + 1).astype(xp.float32) * scale)[:, None]
    # With align_corners the last windows reach past the edge, where the last pixel is repeated; no window is wider
    # than the scale.
    beyond = 2 * in_size + 1
    cell = xp.arange(beyond).astype(xp.float32)[None, :]
    overlap = xp.clip(xp.minimum(cell + 1, end) - xp.maximum(cell, start), 0, 1).astype(xp.float32)
    inside = xp.concatenate(
      [overlap[:, : in_size - 1], xp.sum(overlap[:, in_size - 1 :], axis=1, keepdims=True)], axis=1
    )
    return inside / scale

  return weights


def _resized(images: Any, size: tuple[Any, ...], weights: _Weights, precision: Any = "highest") -> Array:
  images = jnp.asarray(images)
  if images.ndim != 4 or len(size) != 2:
    raise InvalidInputError(
      f"resize: images of shape {images.shape} and size {tuple(size)!r}; expected [batch, height, width, channels] and "
      "two numbers."
    )
  rows, columns = weights(size[0], images.shape[1]), weights(size[1], images.shape[2])
  return resample(images.astype(jnp.float32), rows, columns, precision)


def _resized_gradient(grads: Any, original_image: Any, weights: _Weights, precision: Any = "highest") -> Array:
  grads, original = jnp.asarray(grads), jnp.asarray(original_image)
  rows = weights(grads.shape[1], original.shape[1])
  columns = weights(grads.shape[2], original.shape[2])
  dtype = jnp.promote_types(jnp.float32, original.dtype)
  rows, columns = rows.T.astype(dtype), columns.T.astype(dtype)
  return resample(grads.astype(dtype), rows, columns, precision).astype(original.dtype)


@register("ResizeBilinear", ignores=("T",))
def resize_bilinear(
  ctx: Context,
  images: Array,
  size: Static[tuple[int, ...]],
  *,
  align_corners: bool = False,
  half_pixel_centers: bool = False,
) -> Array:
  """Images of another size, each pixel mixed from the four around it.

  Source op: `tf.raw_ops.ResizeBilinear`.

  Args:
    ctx: `options.resize_bilinear_precision` is the precision of the products.
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
  weights = _bilinear_weights(align_corners, half_pixel_centers)
  return _resized(images, size, weights, ctx.options.resize_bilinear_precision)


@register("ResizeBilinearGrad", ignores=("T",))
def resize_bilinear_grad(
  ctx: Context,
  grads: Array,
  original_image: Array,
  *,
  align_corners: bool = False,
  half_pixel_centers: bool = False,
) -> Array:
  """Gradient of `ResizeBilinear`: shape and dtype of `original_image`, whose values are not used."""
  weights = _bilinear_weights(align_corners, half_pixel_centers)
  return _resized_gradient(grads, original_image, weights, ctx.options.resize_bilinear_precision)


@register("ResizeBicubic", ignores=("T",))
def resize_bicubic(
  images: Array, size: Static[tuple[int, ...]], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Images of another size, each pixel mixed from the 16 around it; arguments and result as for `ResizeBilinear`."""
  return _resized(images, size, _bicubic_weights(align_corners, half_pixel_centers))


@register("ResizeBicubicGrad", ignores=("T",))
def resize_bicubic_grad(
  grads: Array, original_image: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Gradient of `ResizeBicubic`: shape and dtype of `original_image`, whose values are not used."""
  return _resized_gradient(grads, original_image, _bicubic_weights(align_corners, half_pixel_centers))


@register("ResizeArea", ignores=("T",))
def resize_area(images: Array, size: Static[tuple[int, ...]], *, align_corners: bool = False) -> Array:
  """Images of another size, each pixel the mean of the area it covers; otherwise as `ResizeBilinear`.

  Differs from TF: it has a derivative here.
  """
  return _resized(images, size, _area_weights(align_corners))


def _nearest_index(out_size: Any, in_size: Any, align_corners: bool, half_pixel_centers: bool) -> Array:
  xp = _namespace_for(out_size, in_size)
  scale = _scale(xp, out_size, in_size, align_corners)
  pixels = xp.arange(out_size).astype(xp.float32)
  if half_pixel_centers:
    position = xp.floor((pixels + xp.float32(0.5)) * scale)
  elif align_corners:
    # Halves go up, unlike in numpy's rounding.
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


def _nearest(images: Any, size: tuple[Any, ...], align_corners: bool, half_pixel_centers: bool) -> Array:
  images = jnp.asarray(images)
  for axis, out_size in ((1, size[0]), (2, size[1])):
    index = _nearest_index(out_size, images.shape[axis], align_corners, half_pixel_centers)
    images = _take(images, axis, index)
  return images


@register("ResizeNearestNeighbor", ignores=("T",))
def resize_nearest_neighbor(
  images: Array, size: Static[tuple[int, ...]], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Images of another size, each pixel copied from the nearest one.

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
  grads: Array, size: Static[tuple[int, ...]], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
  """Gradient of `ResizeNearestNeighbor` for images of `size`: each entry of `grads` added where it was copied from."""
  grads = jnp.asarray(grads)
  for axis, in_size in ((1, size[0]), (2, size[1])):
    index = _nearest_index(grads.shape[axis], in_size, align_corners, half_pixel_centers)
    shape = (*grads.shape[:axis], in_size, *grads.shape[axis + 1 :])
    where: Any = (slice(None),) * axis + (index,)
    grads = jnp.zeros(shape, grads.dtype).at[where].add(grads)
  return grads
