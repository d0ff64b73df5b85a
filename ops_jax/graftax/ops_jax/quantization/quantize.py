"""Conversion between floats and quantized integers: QuantizeV2, Dequantize, UniformQuantize, UniformDequantize."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.known import FLOAT32
from graftax.ops_jax._core.numeric import round_half_away
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["dequantize", "quantize_v2", "uniform_dequantize", "uniform_quantize"]

_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def _along_axis(v: jax.Array, x: Array, axis: int) -> jax.Array:
  return v if axis < 0 else v.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _limits(dtype: np.dtype) -> tuple[float, float]:
  info = np.iinfo(dtype)
  return float(info.min), float(info.max)


def _check_mode(op: str, mode: str, axis: int) -> None:
  if mode not in _MODES or (axis >= 0 and mode == "MIN_FIRST"):
    raise UnsupportedAttrError(
      f"{op}: mode={mode!r} with axis={axis} is not supported; expected one of {_MODES!r}, 'MIN_FIRST' without an axis."
    )


@register("QuantizeV2")
def quantize_v2(
  input: Array,
  min_range: Array,
  max_range: Array,
  *,
  T: np.dtype,
  mode: str = "MIN_COMBINED",
  round_mode: str = "HALF_AWAY_FROM_ZERO",
  narrow_range: bool = False,
  axis: int = -1,
  ensure_minimum_range: float = 0.01,
) -> tuple[Array, Array, Array]:
  """Quantizes floats to integers, and returns the range that the integers represent.

  Source op: `tf.raw_ops.QuantizeV2`.

  Args:
    input: any shape, float32.
    min_range: lower end of the range: a scalar, or one entry per slice along `axis`.
    max_range: upper end, likewise.
    T: integer type of the result.
    mode: `"MIN_COMBINED"` (integers count from the lower end), `"MIN_FIRST"` (the same, with 0 exact) or `"SCALED"` (0
      is 0).
    round_mode: `"HALF_AWAY_FROM_ZERO"`, or, with `"SCALED"`, `"HALF_TO_EVEN"`.
    narrow_range: with `"SCALED"`, leave out the lowest integer.
    axis: the dimension whose slices each have a range, or -1.
    ensure_minimum_range: minimum size of the range, relative to its ends if they are larger than 1.

  Returns:
    output: same shape, dtype `T`.
    output_min: lower end of the range that was used, shaped like `min_range`.
    output_max: upper end.
  """
  _check_mode("QuantizeV2", mode, axis)
  x, low, high = (jnp.asarray(v, jnp.float32) for v in (input, min_range, max_range))
  least = jnp.maximum(1, jnp.maximum(jnp.abs(low), jnp.abs(high))) * np.float32(ensure_minimum_range)
  # The range always includes 0.
  used_low = jnp.minimum(low, 0)
  used_high = jnp.maximum(jnp.maximum(high, low + least), 0)
  first, last = _limits(T)
  if mode == "SCALED":
    return _quantize_scaled(x, used_low, used_high, T, round_mode, narrow_range, axis)
  if mode == "MIN_FIRST":
    scale = np.float32(last - first) / (used_high - used_low)
    values = round_half_away(x * scale) - round_half_away(used_low * scale) + first
  else:
    low_along, high_along = _along_axis(used_low, x, axis), _along_axis(used_high, x, axis)
    values = (jnp.clip(x, low_along, high_along) - low_along) * (np.float32(last - first) / (high_along - low_along))
    values = round_half_away(values - (last - first + 1) / 2 if first < 0 else values)
  return _to_integers(values, first, last, T), used_low, used_high


def _quantize_scaled(
  x: Array, low: Array, high: Array, dtype: np.dtype, round_mode: str, narrow_range: bool, axis: int
) -> tuple[Array, Array, Array]:
  first, last = _limits(dtype)
  first += narrow_range
  largest = np.finfo(np.float32).max
  from_low = jnp.where(first * low > 0, first / jnp.where(low == 0, 1, low), largest)
  from_high = jnp.where(last * high > 0, last / jnp.where(high == 0, 1, high), largest)
  scale = jnp.minimum(from_low, from_high)
  used_low, used_high = (first / scale).astype(jnp.float32), (last / scale).astype(jnp.float32)
  clipped = jnp.clip(x, _along_axis(used_low, x, axis), _along_axis(used_high, x, axis))
  steps = clipped * _along_axis(scale, x, axis)
  values = jnp.rint(steps) if round_mode == "HALF_TO_EVEN" else round_half_away(steps)
  return _to_integers(values, first, last, dtype), used_low, used_high


def _to_integers(values: Array, first: float, last: float, dtype: np.dtype) -> Array:
  # Beyond 2 ** 24 the bounds of the integers are not float32 numbers; the conversion saturates.
  return jnp.clip(values, first, last).astype(dtype)


@register("Dequantize", ignores=("T",))
def dequantize(
  input: Array,
  min_range: Array,
  max_range: Array,
  *,
  mode: str = "MIN_COMBINED",
  narrow_range: bool = False,
  axis: int = -1,
  dtype: np.dtype = FLOAT32,
) -> Array:
  """Converts integers and their range to floats: the inverse of `QuantizeV2`, with the same attributes.

  Source op: `tf.raw_ops.Dequantize`.

  Args:
    input: any shape, integers.
    min_range: lower end of the range, float32: a scalar, or one entry per slice along `axis`.
    max_range: upper end, likewise.
    mode: as for `QuantizeV2`, like the following two.
    narrow_range: see there.
    axis: see there.
    dtype: dtype of the result, float32 or bfloat16.
  """
  _check_mode("Dequantize", mode, axis)
  x, low, high = jnp.asarray(input), jnp.asarray(min_range), jnp.asarray(max_range)
  first, last = _limits(np.dtype(x.dtype))
  low, high = _along_axis(low, x, axis), _along_axis(high, x, axis)
  wide = x.astype(jnp.float32)
  if mode == "SCALED":
    scale = high / last if first == 0 else jnp.maximum(low / (first + narrow_range), high / last)
    return (wide * scale).astype(dtype)
  if mode == "MIN_COMBINED":
    half = (last - first + 1) / 2 if first < 0 else 0.0
    return ((wide + half) * ((high - low) / np.float32(last - first)) + low).astype(dtype)
  steps = last - first + 1
  step = (high - low) / np.float32(steps - 1)
  safe = jnp.where(step == 0, 1, step)
  start = jnp.where(step == 0, low, round_half_away(low / safe) * step)
  return (start + (wide - first) * step).astype(dtype)


@register("UniformQuantize", ignores=("Tin",))
def uniform_quantize(
  input: Array,
  scales: Array,
  zero_points: Array,
  *,
  Tout: np.dtype,
  quantization_axis: int = -1,
  quantization_min_val: int,
  quantization_max_val: int,
) -> Array:
  """Returns `input / scales + zero_points`, rounded and clipped, as integers.

  Source op: `tf.raw_ops.UniformQuantize`.

  Args:
    input: any shape, float32.
    scales: size of a step: a scalar, or one entry per slice along `quantization_axis`.
    zero_points: int32, the integer that represents 0, likewise.
    Tout: integer type of the result.
    quantization_axis: the dimension whose slices each have a grid, or -1.
    quantization_min_val: the lowest integer.
    quantization_max_val: the highest.
  """
  x, scales, zeros = _prepared(input, scales, zero_points, quantization_axis)
  steps = jnp.floor(x * (1 / scales) + np.float32(0.5)) + zeros
  return jnp.clip(steps, quantization_min_val, quantization_max_val).astype(Tout)


@register("UniformDequantize", ignores=("Tin", "quantization_min_val", "quantization_max_val"))
def uniform_dequantize(
  input: Array,
  scales: Array,
  zero_points: Array,
  *,
  Tout: np.dtype,
  quantization_axis: int = -1,
) -> Array:
  """Returns `(input - zero_points) * scales`: the inverse of `UniformQuantize`, with the same attributes."""
  x, scales, zeros = _prepared(input, scales, zero_points, quantization_axis)
  return ((x - zeros) * scales).astype(Tout)


def _prepared(x: Any, scales: Any, zero_points: Any, axis: int) -> tuple[Array, Array, Array]:
  x, scales = jnp.asarray(x), _along_axis(jnp.asarray(scales), jnp.asarray(x), axis)
  zeros = _along_axis(jnp.asarray(zero_points), x, axis)
  if jnp.issubdtype(x.dtype, jnp.integer):
    x, zeros = x.astype(jnp.int32), zeros.astype(jnp.int32)
  return x, scales, zeros
