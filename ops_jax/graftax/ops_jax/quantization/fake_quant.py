"""Fake quantization, whose gradients pass through: FakeQuantWithMinMaxArgs, FakeQuantWithMinMaxVars."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, namespace
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = [
  "fake_quant_with_min_max_args",
  "fake_quant_with_min_max_args_gradient",
  "fake_quant_with_min_max_vars",
  "fake_quant_with_min_max_vars_gradient",
  "fake_quant_with_min_max_vars_per_channel",
]


def _nudged(low: Array, high: Array, num_bits: int, narrow_range: bool) -> tuple[Array, Array, Array]:
  """Returns the range moved so that 0 is exact: its ends, and the size of a step."""
  xp = namespace(low, high)
  first, last = np.float32(narrow_range), np.float32(2**num_bits - 1)
  # XLA multiplies by the inverse of a constant, and turns a / (b / c) into (a * c) / b; either moves the range by a
  # step. A barrier prevents the first. XLA may remove barriers before the second, so a `where` that changes nothing
  # prevents that.
  count = last - first if xp is np else lax.optimization_barrier(jnp.asarray(last - first))
  step = (high - low) / count
  step = step if xp is np else jnp.where(jnp.isnan(step), np.float32(np.nan), step)
  zero = first - low / step
  zero = xp.clip(xp.floor(zero + np.float32(0.5)), first, last)
  return (first - zero) * step, (last - zero) * step, step


def _nonzero(is_empty: Array, high: Array) -> Array:
  xp = namespace(is_empty, high)
  return xp.where(is_empty, np.float32(1), high).astype(np.float32)


def _quantized(x: Array, low: Array, high: Array, num_bits: int, narrow_range: bool) -> Array:
  is_empty = (low == 0) & (high == 0)
  nudged_low, nudged_high, step = _nudged(low, _nonzero(is_empty, high), num_bits, narrow_range)
  inverse = 1 / step
  zero = jnp.floor(-nudged_low * inverse + 0.5)
  shifted = jnp.clip(x, nudged_low, nudged_high) - nudged_low
  result = jnp.floor(shifted * inverse - zero + 0.5) * step
  return jnp.where(is_empty, 0, result).astype(x.dtype)


def _masks(x: Array, low: Array, high: Array, num_bits: int, narrow_range: bool) -> tuple[Array, Array, Array]:
  """Returns where `x` is below, inside and above the range, as numbers."""
  is_empty = (low == 0) & (high == 0)
  nudged_low, nudged_high, _ = _nudged(low, _nonzero(is_empty, high), num_bits, narrow_range)
  below, above = (x < nudged_low) & ~is_empty, (x > nudged_high) & ~is_empty
  inside = ((x >= nudged_low) & (x <= nudged_high)) | is_empty
  return below.astype(x.dtype), inside.astype(x.dtype), above.astype(x.dtype)


def _fake_quant(x: Any, low: Any, high: Any, num_bits: int, narrow_range: bool) -> Array:
  # A known range stays known inside of the functions with a derivative.
  known = (low, high) if namespace(low, high) is np else None

  @jax.custom_jvp
  def quantize(x: Array, low: Array, high: Array) -> Array:
    low, high = known or (low, high)
    return _quantized(x, low, high, num_bits, narrow_range)

  @quantize.defjvp
  @default_promotion()
  def _jvp(primals: Any, tangents: Any) -> Any:
    x, low, high = primals
    below, inside, above = _masks(x, *(known or (low, high)), num_bits, narrow_range)
    x_dot, low_dot, high_dot = tangents
    return quantize(*primals), inside * x_dot + below * low_dot + above * high_dot

  return quantize(jnp.asarray(x), low, high)


def _gradients(
  gradients: Any, x: Any, low: Any, high: Any, num_bits: int, narrow_range: bool
) -> tuple[Array, Array, Array]:
  gradients, x = jnp.asarray(gradients), jnp.asarray(x)
  below, inside, above = _masks(x, low, high, num_bits, narrow_range)
  axes = tuple(range(x.ndim - jnp.ndim(low)))
  return gradients * inside, jnp.sum(gradients * below, axes), jnp.sum(gradients * above, axes)


@register("FakeQuantWithMinMaxArgs")
def fake_quant_with_min_max_args(
  inputs: Array, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8, narrow_range: bool = False
) -> Array:
  """Clips `inputs` to a range and rounds them to its `2 ** num_bits` steps.

  Source op: `tf.raw_ops.FakeQuantWithMinMaxArgs`.

  Args:
    inputs: any shape, float32.
    min: lower end of the range, which is then moved a little so that 0 is one of the steps.
    max: upper end.
    num_bits: 2 to 16.
    narrow_range: whether to drop the lowest step, so that the range is symmetric.

  Returns:
    Same shape, float32. Inside the range the derivative is 1, outside 0.
  """
  return _fake_quant(inputs, np.float32(min), np.float32(max), num_bits, narrow_range)


@register("FakeQuantWithMinMaxArgsGradient")
def fake_quant_with_min_max_args_gradient(
  gradients: Array,
  inputs: Array,
  *,
  min: float = -6.0,
  max: float = 6.0,
  num_bits: int = 8,
  narrow_range: bool = False,
) -> Array:
  """Returns `gradients` where `inputs` are inside the range of `FakeQuantWithMinMaxArgs`, else 0."""
  return _gradients(gradients, inputs, np.float32(min), np.float32(max), num_bits, narrow_range)[0]


@register("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_with_min_max_vars(
  inputs: Array, min: Array, max: Array, *, num_bits: int = 8, narrow_range: bool = False
) -> Array:
  """Computes `FakeQuantWithMinMaxArgs` with a range that can be learned.

  Source op: `tf.raw_ops.FakeQuantWithMinMaxVars`, and `FakeQuantWithMinMaxVarsPerChannel`.

  Args:
    inputs: `[..., channels]` float32.
    min: scalar or `[channels]`, lower end of the range.
    max: likewise, upper end.
    num_bits: as for `FakeQuantWithMinMaxArgs`.
    narrow_range: see there.

  Returns:
    Same shape, float32; 0 if the range is empty. The derivative with respect to `min` sums over the inputs below
    the range, the derivative with respect to `max` over the inputs above.
  """
  return _fake_quant(inputs, min, max, num_bits, narrow_range)


fake_quant_with_min_max_vars_per_channel = fake_quant_with_min_max_vars


@register("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
def fake_quant_with_min_max_vars_gradient(
  gradients: Array, inputs: Array, min: Array, max: Array, *, num_bits: int = 8, narrow_range: bool = False
) -> tuple[Array, Array, Array]:
  """Computes the gradients of `FakeQuantWithMinMaxVars` with respect to `inputs`, `min` and `max`."""
  return _gradients(gradients, inputs, min, max, num_bits, narrow_range)
