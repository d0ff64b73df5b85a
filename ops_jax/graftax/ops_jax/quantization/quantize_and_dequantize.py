"""Floats rounded to a grid of integers and scaled back: QuantizeAndDequantize in all versions."""

from collections.abc import Callable
from typing import TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = [
  "quantize_and_dequantize",
  "quantize_and_dequantize_v2",
  "quantize_and_dequantize_v3",
  "quantize_and_dequantize_v4",
  "quantize_and_dequantize_v4_grad",
]


class _Attrs(TypedDict, total=False):
  """Attributes of versions 2 and 4.

  Attributes:
    signed_input: whether the integers are signed.
    num_bits: 1 to 63.
    range_given: whether the range is given; otherwise it is that of the input.
    round_mode: `"HALF_TO_EVEN"` or `"HALF_UP"`.
    narrow_range: whether the lowest integer is left out.
    axis: the dimension whose slices each have a range, or -1 if there is a single range.
  """

  signed_input: bool
  num_bits: int
  range_given: bool
  round_mode: str
  narrow_range: bool
  axis: int


def _along_axis(v: Array, x: Array, axis: int) -> Array:
  """Returns a scalar unchanged, or a vector along dimension `axis` of `x`."""
  return v if axis < 0 else v.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _rounded(
  x: Array,
  low: Array,
  high: Array,
  *,
  signed_input: bool = True,
  num_bits: int = 8,
  range_given: bool = False,
  round_mode: str = "HALF_TO_EVEN",
  narrow_range: bool = False,
  axis: int = -1,
) -> Array:
  if 0 in x.shape:
    return x  # the minimum of an empty array is not defined
  if range_given:
    low, high = _along_axis(low, x, axis), _along_axis(high, x, axis)
  else:
    axes = None if axis < 0 else tuple(i for i in range(x.ndim) if i != axis)
    low, high = jnp.min(x, axes, keepdims=axis >= 0), jnp.max(x, axes, keepdims=axis >= 0)
  half = 2 ** (num_bits - 1)
  first = np.asarray(-half + narrow_range if signed_input else 0, x.dtype)
  last = np.asarray(half - 1 if signed_input else 2 * half - 1, x.dtype)
  largest = jnp.finfo(x.dtype).max
  from_low = jnp.where(first * low > 0, first / jnp.where(low == 0, 1, low), largest)
  from_high = jnp.where(last * high > 0, last / jnp.where(high == 0, 1, high), largest)
  uses_low = from_low < from_high
  scale = jnp.where(uses_low, from_low, from_high)
  inverse = jnp.where(uses_low, low / np.where(first == 0, 1, first).astype(x.dtype), high / last)
  if range_given:
    x = jnp.clip(x, jnp.where(uses_low, low, first * inverse), jnp.where(uses_low, last * inverse, high))
  steps = x * scale
  steps = jnp.floor(steps + 0.5) if round_mode == "HALF_UP" else jnp.rint(steps)
  return (steps * inverse).astype(x.dtype)


def _is_inside(x: Array, low: Array, high: Array, axis: int) -> Array:
  return (x >= _along_axis(low, x, axis)) & (x <= _along_axis(high, x, axis))


def _with_tangents(
  input: Array,
  input_min: Array,
  input_max: Array,
  tangents: Callable[[Array, Array, Array, Array], Array],
  **attrs: Unpack[_Attrs],
) -> Array:
  """Returns `input` rounded to the grid, with the derivative `(x, low, high, dx) -> dy`."""
  low, high = jax.lax.stop_gradient((jnp.asarray(input_min), jnp.asarray(input_max)))

  # The range is an argument, because a rule that closes over traced values cannot run after their trace has ended.
  @jax.custom_jvp
  def rounded(x: Array, low: Array, high: Array) -> Array:
    return _rounded(x, low, high, **attrs)

  @rounded.defjvp
  @default_promotion()
  def _jvp(primals: tuple[Array, Array, Array], dots: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    return rounded(*primals), tangents(*primals, dots[0])

  return rounded(jnp.asarray(input), low, high)


@register("QuantizeAndDequantizeV2", ignores=("T",))
def quantize_and_dequantize_v2(
  input: Array,
  input_min: Array,
  input_max: Array,
  **attrs: Unpack[_Attrs],
) -> Array:
  """Rounds `input` to a grid of `2 ** num_bits` values.

  Source op: `tf.raw_ops.QuantizeAndDequantizeV2`.

  Args:
    input: any shape, floating point.
    input_min: lower end of the range: a scalar, or one entry per slice along `axis`; used if `range_given`.
    input_max: upper end, likewise.
    **attrs: see `_Attrs`.

  Returns:
    Same shape and dtype. The derivative with respect to `input` is 1, as in TensorFlow.
  """
  return _with_tangents(input, input_min, input_max, lambda x, low, high, dx: dx, **attrs)


@register("QuantizeAndDequantizeV3", ignores=("T",))
def quantize_and_dequantize_v3(
  input: Array,
  input_min: Array,
  input_max: Array,
  num_bits: Static[int],
  *,
  signed_input: bool = True,
  range_given: bool = True,
  narrow_range: bool = False,
  axis: int = -1,
) -> Array:
  """Computes `QuantizeAndDequantizeV2` with the number of bits as an input, which must be concrete."""
  return quantize_and_dequantize_v2(
    input,
    input_min,
    input_max,
    signed_input=signed_input,
    num_bits=num_bits,
    range_given=range_given,
    narrow_range=narrow_range,
    axis=axis,
  )


@register("QuantizeAndDequantize", ignores=("T",))
def quantize_and_dequantize(
  input: Array,
  *,
  signed_input: bool = True,
  num_bits: int = 8,
  range_given: bool = False,
  input_min: float = 0.0,
  input_max: float = 0.0,
) -> Array:
  """Computes `QuantizeAndDequantizeV2` with the range as attributes."""
  dtype = jnp.asarray(input).dtype
  return quantize_and_dequantize_v2(
    input,
    np.asarray(input_min, dtype),
    np.asarray(input_max, dtype),
    signed_input=signed_input,
    num_bits=num_bits,
    range_given=range_given,
  )


@register("QuantizeAndDequantizeV4", ignores=("T",))
def quantize_and_dequantize_v4(
  input: Array,
  input_min: Array,
  input_max: Array,
  **attrs: Unpack[_Attrs],
) -> Array:
  """Computes `QuantizeAndDequantizeV2`; only inputs inside the given range have a derivative."""
  axis = attrs.get("axis", -1)

  def only_inside(x: Array, low: Array, high: Array, dx: Array) -> Array:
    return jnp.where(_is_inside(x, low, high, axis), dx, 0)

  return _with_tangents(input, input_min, input_max, only_inside, **attrs)


@register("QuantizeAndDequantizeV4Grad", ignores=("T",))
def quantize_and_dequantize_v4_grad(
  gradients: Array,
  input: Array,
  input_min: Array,
  input_max: Array,
  *,
  axis: int = -1,
) -> tuple[Array, Array, Array]:
  """Returns `gradients` where `input` is inside the range, else 0; and zeros for `input_min` and `input_max`."""
  x, low, high = jnp.asarray(input), jnp.asarray(input_min), jnp.asarray(input_max)
  return (
    jnp.where(_is_inside(x, low, high, axis), gradients, 0).astype(x.dtype),
    jnp.zeros_like(low),
    jnp.zeros_like(high),
  )
