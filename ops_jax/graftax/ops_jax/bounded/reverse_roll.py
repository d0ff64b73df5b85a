"""Reversal and rotation along axes of bounded size: ReverseV2, Roll."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.axes import canonical_axes, canonical_axis
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import masked_derivative, valid_mask
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["reverse", "roll"]


@carries("ReverseV2")
def reverse(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reverses axes."""
  x, axes_value = inputs
  if not is_bounded(x):
    call.refuse("the number of its axes depends on data")
  axes = canonical_axes("ReverseV2", call.static(axes_value, tuple[int, ...], "axis"), x.padded.ndim)
  padded = lax.rev(x.padded, tuple(axis for axis in axes if x.lengths[axis] is None))
  for axis in axes:
    length = x.lengths[axis]
    if length is not None:
      padded = _taken(padded, axis, length - 1 - jnp.arange(padded.shape[axis], dtype=jnp.int32))
  return [_like(call, padded, x)]


@carries("Roll")
def roll(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Rotates axes."""
  x, shift, axes_value = inputs
  if not is_bounded(x) or is_bounded(shift):
    call.refuse("the number of its axes depends on data")
  axes = [canonical_axis("Roll", axis, x.padded.ndim) for axis in call.static(axes_value, tuple[int, ...], "axis")]
  padded = x.padded
  for axis, amount in zip(axes, jnp.reshape(jnp.asarray(shift), -1), strict=True):
    length = x.lengths[axis]
    if length is None:
      padded = jnp.roll(padded, amount, axis)
    else:
      positions = jnp.arange(padded.shape[axis], dtype=jnp.int32) - amount.astype(jnp.int32)
      padded = _taken(padded, axis, positions % jnp.maximum(length, 1))
  return [_like(call, padded, x)]


def _taken(x: jax.Array, axis: int, positions: jax.Array) -> jax.Array:
  if not x.shape[axis]:
    return x
  return jnp.take(x, jnp.clip(positions, 0, x.shape[axis] - 1), axis=axis, mode="clip")


def _like(call: BoundedCall, padded: jax.Array, x: BoundedArray) -> Value:
  return call.made(masked_derivative(padded, valid_mask(padded.shape, x.lengths)), x.lengths, x.may_overflow)
