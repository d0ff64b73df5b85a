"""Windows of images at given places, with noise outside of the image: ExtractGlimpse, ExtractGlimpseV2."""

from typing import TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes

__all__ = ["extract_glimpse", "extract_glimpse_v2"]


class _Attrs(TypedDict, total=False):
  """Attributes of both versions.

  Attributes:
    centered: whether offsets count from the center of the image.
    normalized: whether offsets are in units of the image's size; -1 to 1 if centered, 0 to 1 otherwise.
    uniform_noise: the older name of uniform `noise`.
    noise: what is outside of the image: `"uniform"`, `"gaussian"` or `"zero"`.
  """

  centered: bool
  normalized: bool
  uniform_noise: bool
  noise: str


@register("ExtractGlimpse")
def extract_glimpse(ctx: Context, input: Array, size: StaticSizes, offsets: Array, **attrs: Unpack[_Attrs]) -> Array:
  """Returns a window of each image.

  Source op: `tf.raw_ops.ExtractGlimpse`.

  Args:
    ctx: the program, which has the random key.
    input: `[batch, height, width, channels]` float32.
    size: `[2]`, height and width of the windows.
    offsets: `[batch, 2]` float32, the place of the window's center; vertical first.
    **attrs: see `_Attrs`.

  Returns:
    `[batch, *size, channels]` float32. Positions are cut to integers, towards zero.

  Raises:
    InvalidInputError: the inputs' shapes do not fit, or both kinds of noise are asked for.
    UnsupportedAttrError: an unknown kind of noise.

  Differs from TF: another stream of noise.
  """
  image = jnp.asarray(input)
  places = _pixels(image, offsets, **attrs)
  if attrs.get("centered", True):
    places = places / 2 + _spatial(image) / 2
  return _windows("ExtractGlimpse", ctx, image, size, places - np.array(size, np.float32) / 2, **attrs)


@register("ExtractGlimpseV2")
def extract_glimpse_v2(ctx: Context, input: Array, size: StaticSizes, offsets: Array, **attrs: Unpack[_Attrs]) -> Array:
  """Computes `ExtractGlimpse`, except that offsets are of the upper left corner in most cases.

  They are those of the center if they are both centered and normalized. If they are centered but not normalized, the
  corner is at the center of the image plus the offset.
  """
  image = jnp.asarray(input)
  places = _pixels(image, offsets, **attrs)
  if attrs.get("centered", True):
    is_normalized = attrs.get("normalized", True)
    places = (
      places / 2 + (_spatial(image) - np.array(size, np.float32)) / 2 if is_normalized else places + _spatial(image) / 2
    )
  return _windows("ExtractGlimpseV2", ctx, image, size, places, **attrs)


def _spatial(image: jax.Array) -> np.ndarray:
  return np.array(image.shape[1:3], np.float32)


def _pixels(image: jax.Array, offsets: Array, **attrs: Unpack[_Attrs]) -> jax.Array:
  offsets = jnp.asarray(offsets)
  return offsets * _spatial(image) if attrs.get("normalized", True) else offsets


def _windows(
  op: str, ctx: Context, image: jax.Array, size: tuple[int, ...], corners: jax.Array, **attrs: Unpack[_Attrs]
) -> jax.Array:
  """Returns the windows with their first rows and columns at `corners`, `[batch, 2]`, cut to integers."""
  if image.ndim != 4 or len(size) != 2 or corners.shape != (image.shape[0], 2):
    raise InvalidInputError(
      f"{op}: images {image.shape}, size {size!r}, offsets {corners.shape}; expected [batch, height, width, channels], "
      "[2] and [batch, 2]."
    )
  start = corners.astype(np.int32)
  rows, columns = (start[:, axis, None] + np.arange(size[axis], dtype=np.int32) for axis in (0, 1))
  is_row, is_column = (rows >= 0) & (rows < image.shape[1]), (columns >= 0) & (columns < image.shape[2])
  is_inside = is_row[:, :, None, None] & is_column[:, None, :, None]
  batch = np.arange(image.shape[0])[:, None, None]
  window = image.at[batch, rows[:, :, None], columns[:, None, :]].get(mode="clip")
  noise = jnp.zeros((), image.dtype) if jnp.size(window) == 0 else _noise(op, ctx, image, window.shape, **attrs)
  return jnp.where(is_inside, window, noise)


def _noise(op: str, ctx: Context, image: jax.Array, shape: tuple[int, ...], **attrs: Unpack[_Attrs]) -> jax.Array:
  """Returns noise with the range, or the mean and deviation, of each image."""
  kind = attrs.get("noise", "uniform")
  if attrs.get("uniform_noise", True) and kind != "uniform":
    raise InvalidInputError(f"{op}: uniform_noise is set with noise={kind!r}; expected one of the two.")
  if kind == "zero":
    return jnp.zeros((), image.dtype)
  low, high = (f(image, axis=(1, 2, 3), keepdims=True) for f in (jnp.min, jnp.max))
  if kind == "uniform":
    return low + (high - low) * jax.random.uniform(ctx.rng(), shape, image.dtype)
  if kind != "gaussian":
    raise UnsupportedAttrError(f"{op}: noise={kind!r} is not supported; expected 'uniform', 'gaussian' or 'zero'.")
  mean, deviation = (f(image, axis=(1, 2, 3), keepdims=True) for f in (jnp.mean, jnp.std))
  return jnp.clip(mean + deviation * jax.random.normal(ctx.rng(), shape, image.dtype), low, high)
