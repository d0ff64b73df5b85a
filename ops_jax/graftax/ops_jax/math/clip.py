"""Clipping: ClipByValue."""

import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, is_symbolic
from graftax.ops_jax.math.binary import maximum, minimum

__all__ = ["clip_by_value"]


@register("ClipByValue", ignores=("T",), symbolic=True)
def clip_by_value(t: Array, clip_value_min: Array, clip_value_max: Array) -> Array:
  """Returns `max(min(t, clip_value_max), clip_value_min)`. NaN stays NaN, and a NaN bound is ignored.

  Source op: `tf.raw_ops.ClipByValue`.

  Args:
    t: any shape.
    clip_value_min: scalar, or of the shape of `t`.
    clip_value_max: scalar, or of the shape of `t`.

  Returns:
    Same shape and dtype as `t`. On a bound the derivative is that of `t`; beyond it, that of the bound.
  """
  if any(map(is_symbolic, (t, clip_value_min, clip_value_max))):
    return maximum(minimum(t, clip_value_max), clip_value_min)
  t, low, high = (jnp.asarray(x) for x in (t, clip_value_min, clip_value_max))
  low, high = jnp.broadcast_to(low, t.shape), jnp.broadcast_to(high, t.shape)
  if jnp.iscomplexobj(t):
    return lax.complex(_clip(t.real, low.real, high.real), _clip(t.imag, low.imag, high.imag))
  return _clip(t, low, high)


def _clip_forward(t: Array, low: Array, high: Array) -> Array:
  t = jnp.where(t > high, high, t)
  return jnp.where(t < low, low, t)


_clip = with_partials(
  _clip_forward,
  lambda tangent, y, t, low, high: jnp.where((t < low) | (t > high), jnp.zeros_like(tangent), tangent),
  lambda tangent, y, t, low, high: jnp.where(t < low, tangent, jnp.zeros_like(tangent)),
  lambda tangent, y, t, low, high: jnp.where(t > high, tangent, jnp.zeros_like(tangent)),
)
