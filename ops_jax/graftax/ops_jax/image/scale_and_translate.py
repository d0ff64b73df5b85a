"""Resampling of images at any scale and offset, with a choice of kernels: ScaleAndTranslate."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes
from graftax.ops_jax.image.resize import resample

__all__ = ["scale_and_translate", "scale_and_translate_grad"]


def _lanczos(radius: float) -> tuple[float, Callable[[Array], Array]]:
  def kernel(x: Array) -> Array:
    angle = np.float32(np.pi) * jnp.where(x <= 1e-3, 1.0, x)
    value = radius * jnp.sin(angle) * jnp.sin(angle / radius) / (angle * angle)
    return jnp.where(x > radius, 0.0, jnp.where(x <= 1e-3, 1.0, value))

  return radius, kernel


def _gaussian(x: Array) -> Array:
  sigma = 0.5
  return jnp.where(x >= 1.5, 0.0, jnp.exp(-x * x / (2.0 * sigma * sigma)))


def _box(x: Array) -> Array:
  return jnp.where(x < 0.5, 1.0, jnp.where(x == 0.5, 0.5, 0.0))


def _triangle(x: Array) -> Array:
  return jnp.maximum(1.0 - x, 0.0)


def _keys_cubic(x: Array) -> Array:
  outer = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
  inner = ((1.5 * x - 2.5) * x) * x + 1.0
  return jnp.where(x >= 2.0, 0.0, jnp.where(x >= 1.0, outer, inner))


def _mitchell_cubic(x: Array) -> Array:
  outer = (((-7.0 / 18.0) * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
  inner = (((7.0 / 6.0) * x - 2.0) * x) * x + 8.0 / 9.0
  return jnp.where(x >= 2.0, 0.0, jnp.where(x >= 1.0, outer, inner))


# Name -> radius in pixels, and weight by distance.
_KERNELS: Mapping[str, tuple[float, Callable[[Array], Array]]] = {
  "lanczos1": _lanczos(1.0),
  "lanczos3": _lanczos(3.0),
  "lanczos5": _lanczos(5.0),
  "gaussian": (1.5, _gaussian),
  "box": (1.0, _box),
  "triangle": (1.0, _triangle),
  "keyscubic": (2.0, _keys_cubic),
  "mitchellcubic": (2.0, _mitchell_cubic),
}


def _weights(
  op: str, kernel_type: str, out_size: Any, in_size: Any, scale: Array, offset: Array, antialias: bool
) -> Array:
  if kernel_type not in _KERNELS:
    raise UnsupportedAttrError(
      f"{op}: kernel_type={kernel_type!r} is not supported; expected one of {sorted(_KERNELS)!r}."
    )
  radius, kernel = _KERNELS[kernel_type]
  inverse = 1.0 / scale
  width = jnp.maximum(inverse, 1.0) if antialias else jnp.ones_like(inverse)
  sample = ((jnp.arange(out_size, dtype=jnp.float32) + 0.5) * inverse - inverse * offset)[:, None]
  pixel = jnp.arange(in_size, dtype=jnp.float32)[None, :]
  first = jnp.clip(jnp.ceil(sample - radius * width - 0.5), 0, in_size - 1)
  last = jnp.clip(jnp.floor(sample + radius * width - 0.5), 0, in_size - 1)
  weight = kernel(jnp.abs((pixel + 0.5 - sample) / width))
  weight = jnp.where((pixel >= first) & (pixel <= last), weight, 0.0).astype(jnp.float32)
  total = jnp.sum(weight, axis=1, keepdims=True)
  is_usable = (jnp.abs(total) >= 1000.0 * np.finfo(np.float32).tiny) & (sample >= 0) & (sample <= in_size)
  return jnp.where(is_usable, weight / jnp.where(is_usable, total, 1.0), 0.0)


def _both_weights(
  op: str, kernel_type: str, out_shape: Any, in_shape: Any, scale: Array, translation: Array, antialias: bool
) -> list[Array]:
  # TensorFlow has no derivative with respect to scale and translation.
  scale, translation = lax.stop_gradient((jnp.asarray(scale), jnp.asarray(translation)))
  return [_weights(op, kernel_type, out_shape[i], in_shape[i], scale[i], translation[i], antialias) for i in range(2)]


@register("ScaleAndTranslate", ignores=("T",))
def scale_and_translate(
  images: Array,
  size: StaticSizes,
  scale: Array,
  translation: Array,
  *,
  kernel_type: str = "lanczos3",
  antialias: bool = True,
) -> Array:
  """Scales, shifts and cuts images to `size`.

  Source op: `tf.raw_ops.ScaleAndTranslate`.

  Args:
    images: `[batch, height, width, channels]`, any real dtype.
    size: height and width of the result. Must be concrete.
    scale: `[2]` float32, output pixels per input pixel, down and across.
    translation: `[2]` float32, shift in output pixels, down and across.
    kernel_type: `"lanczos1"`, `"lanczos3"`, `"lanczos5"`, `"gaussian"`, `"box"`, `"triangle"`, `"keyscubic"` or
      `"mitchellcubic"`.
    antialias: whether the kernel is widened if the image shrinks.

  Returns:
    `[batch, *size, channels]` float32; 0 outside the image.

  Raises:
    UnsupportedAttrError: an unknown kernel.
  """
  images = jnp.asarray(images)
  rows, columns = _both_weights(
    "ScaleAndTranslate", kernel_type, size, images.shape[1:3], scale, translation, antialias
  )
  return resample(images.astype(jnp.float32), rows, columns)


@register("ScaleAndTranslateGrad", ignores=("T",))
def scale_and_translate_grad(
  grads: Array,
  original_image: Array,
  scale: Array,
  translation: Array,
  *,
  kernel_type: str = "lanczos3",
  antialias: bool = True,
) -> Array:
  """Returns the gradient of `ScaleAndTranslate`: shape of `original_image`, whose values are not used; float32."""
  grads, shape = jnp.asarray(grads), jnp.shape(original_image)
  rows, columns = _both_weights(
    "ScaleAndTranslateGrad", kernel_type, grads.shape[1:3], shape[1:3], scale, translation, antialias
  )
  return resample(grads, rows.T, columns.T)
