"""Projective transforms of images: ImageProjectiveTransformV2, ImageProjectiveTransformV3."""

from typing import Any

import jax
import jax.numpy as jnp

from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.numeric import round_half_away
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["image_projective_transform_v2", "image_projective_transform_v3"]

_INTERPOLATIONS = ("NEAREST", "BILINEAR")
_FILL_MODES = ("CONSTANT", "REFLECT", "WRAP", "NEAREST")


def _reflected(x: Array, size: int) -> Array:
  period = 2 * size
  below = period * jnp.trunc(-x / period) + x
  below = jnp.where(below < -size, below + period, -below - 1)
  above = x - period * jnp.trunc(x / period)
  above = jnp.where(above >= size, period - above - 1, above)
  return jnp.clip(jnp.where(x < 0, below, jnp.where(x > size - 1, above, x)), 0, size - 1)


def _wrapped(x: Array, size: int) -> Array:
  if size <= 1:
    return jnp.clip(x, 0, size - 1)
  below = x + size * (jnp.trunc(-x / (size - 1)) + 1)
  above = x - size * jnp.trunc(x / (size - 1))
  return jnp.clip(jnp.where(x < 0, below, jnp.where(x > size - 1, above, x)), 0, size - 1)


def _filled(x: Array, size: int, fill_mode: str) -> Array:
  match fill_mode:
    case "REFLECT":
      return _reflected(x, size)
    case "WRAP":
      return _wrapped(x, size)
    case "NEAREST":
      return jnp.clip(x, 0, size - 1)
  return x


def _transformed(
  images: Array, transforms: Array, output_shape: Any, fill_value: Array, interpolation: str, fill_mode: str
) -> Array:
  batch, height, width, _ = images.shape
  a0, a1, a2, b0, b1, b2, c0, c1 = (v[:, None, None] for v in jnp.broadcast_to(transforms, (batch, 8)).T)
  row = jnp.arange(output_shape[0], dtype=jnp.float32)[None, :, None]
  column = jnp.arange(output_shape[1], dtype=jnp.float32)[None, None, :]
  projection = c0 * column + c1 * row + 1
  is_finite = projection != 0
  safe = jnp.where(is_finite, projection, 1)
  x = _filled((a0 * column + a1 * row + a2) / safe, width, fill_mode)
  y = _filled((b0 * column + b1 * row + b2) / safe, height, fill_mode)
  image_index = jnp.arange(batch)[:, None, None]

  def read(rows: Array, columns: Array) -> Array:
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width) & is_finite
    row_index = jnp.clip(rows, 0, height - 1).astype(jnp.int32)
    column_index = jnp.clip(columns, 0, width - 1).astype(jnp.int32)
    return jnp.where(inside[..., None], images[image_index, row_index, column_index], fill_value)

  if interpolation == "NEAREST":
    return read(round_half_away(y), round_half_away(x))
  top, left = jnp.floor(y), jnp.floor(x)
  y_lerp, x_lerp = (y - top)[..., None], (x - left)[..., None]
  upper, lower = ((1 - x_lerp) * read(rows, left) + x_lerp * read(rows, left + 1) for rows in (top, top + 1))
  mixed = (1 - y_lerp) * upper + y_lerp * lower
  return jnp.where(is_finite[..., None], mixed, fill_value)


def _inverse(transforms: Array) -> Array:
  matrices = jnp.concatenate([transforms, jnp.ones_like(transforms[:, :1])], axis=1).reshape(-1, 3, 3)
  inverse = jnp.linalg.inv(matrices).reshape(-1, 9)
  return (inverse / inverse[:, 8:])[:, :8]


@register("ImageProjectiveTransformV3", ignores=("dtype",))
def image_projective_transform_v3(
  images: Array,
  transforms: Array,
  output_shape: StaticSizes,
  fill_value: Array,
  *,
  interpolation: str,
  fill_mode: str = "CONSTANT",
) -> Array:
  """Transforms images projectively.

  Source op: `tf.raw_ops.ImageProjectiveTransformV3`.

  Args:
    images: `[batch, height, width, channels]`, any real dtype.
    transforms: `[batch or 1, 8]` float32: `a0, a1, a2, b0, b1, b2, c0, c1` map the output's `(x, y)` to the input's
      `((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)` with `k = c0 x + c1 y + 1`.
    output_shape: height and width of the result. Must be concrete.
    fill_value: scalar float32, value of positions outside the image.
    interpolation: `"NEAREST"` or `"BILINEAR"`.
    fill_mode: `"CONSTANT"` (`fill_value`), `"REFLECT"`, `"WRAP"` or `"NEAREST"`.

  Returns:
    `[batch, *output_shape, channels]`, same dtype. The derivative is that of TensorFlow: the gradient is
    transformed by the inverse transforms, and there is none with respect to `transforms`.

  Raises:
    UnsupportedAttrError: an unknown interpolation or fill mode.
  """
  op = "ImageProjectiveTransformV3"
  if interpolation not in _INTERPOLATIONS or fill_mode not in _FILL_MODES:
    raise UnsupportedAttrError(
      f"{op}: interpolation={interpolation!r}, fill_mode={fill_mode!r} are not supported; expected one of "
      f"{_INTERPOLATIONS!r} and one of {_FILL_MODES!r}."
    )
  images = jnp.asarray(images)
  transforms, fill_value = jax.lax.stop_gradient((jnp.asarray(transforms), jnp.asarray(fill_value)))
  if not jnp.issubdtype(images.dtype, jnp.floating):
    wide = jnp.float64 if images.dtype == jnp.int64 and jax.config.jax_enable_x64 else jnp.float32
    result = _transformed(images.astype(wide), transforms, output_shape, fill_value, interpolation, fill_mode)
    return result.astype(images.dtype)
  size = images.shape[1:3]
  wide_images = images.astype(jnp.float32) if jnp.finfo(images.dtype).bits < 32 else images
  fill_value = fill_value.astype(wide_images.dtype)

  # All arrays are arguments, because a rule that closes over traced values cannot run after their trace has ended.
  @jax.custom_jvp
  def transform(images: Array, transforms: Array, fill_value: Array) -> Array:
    return _transformed(images, transforms, output_shape, fill_value, interpolation, fill_mode).astype(images.dtype)

  @transform.defjvp
  @default_promotion()
  def _jvp(primals: Any, tangents: Any) -> Any:
    result, transforms = transform(*primals), primals[1]

    # TensorFlow's gradient is the linear map below, so its transpose maps tangents forward.
    def pulled_back(cotangent: Array) -> Array:
      zero = jnp.zeros((), cotangent.dtype)
      return _transformed(cotangent, _inverse(transforms), size, zero, interpolation, fill_mode).astype(cotangent.dtype)

    spec = jax.ShapeDtypeStruct(result.shape, result.dtype)
    return result, jax.linear_transpose(pulled_back, spec)(tangents[0])[0]

  return transform(wide_images, transforms, fill_value).astype(images.dtype)


@register("ImageProjectiveTransformV2", ignores=("dtype",))
def image_projective_transform_v2(
  images: Array,
  transforms: Array,
  output_shape: StaticSizes,
  *,
  interpolation: str,
  fill_mode: str = "CONSTANT",
) -> Array:
  """Computes `ImageProjectiveTransformV3` with 0 outside the images."""
  return image_projective_transform_v3(
    images, transforms, output_shape, jnp.float32(0), interpolation=interpolation, fill_mode=fill_mode
  )
