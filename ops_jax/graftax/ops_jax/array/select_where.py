"""Choosing between arrays element by element, and finding where a condition holds."""

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, is_symbolic
from graftax.ops_jax.math.binary import maximum, minimum

__all__ = ["clip_by_value", "select", "select_v2", "where"]


@register("Select", ignores=("T",), symbolic=True, moves=("t", "e"))
def select(condition: Array, t: Array, e: Array) -> Array:
  """`t` where the condition holds, else `e`; same shape and dtype as these.

  Source op: `tf.raw_ops.Select`.

  Args:
    condition: bool; of the shape of `t`, a scalar, or a vector that picks along the first dimension.
    t: any shape and dtype.
    e: like `t`.

  Raises:
    InvalidInputError: the shapes do not fit.
  """
  if t.shape != e.shape:
    raise InvalidInputError(f"Select: t has shape {t.shape}, e has shape {e.shape}; they must be equal.")
  if condition.ndim not in (0, t.ndim):
    if condition.ndim != 1 or condition.shape[0] != t.shape[0]:
      raise InvalidInputError(f"Select: condition of shape {condition.shape} does not fit t of shape {t.shape}.")
    condition = condition.reshape(condition.shape + (1,) * (t.ndim - 1))
  return select_v2(condition, t, e)


@register("SelectV2", ignores=("T",), symbolic=True, moves=("t", "e"))
def select_v2(condition: Array, t: Array, e: Array) -> Array:
  """`t` where the condition holds, else `e`; all three broadcast together."""
  return keep_known(np.where, jnp.where, condition, t, e)


@register("ClipByValue", ignores=("T",), symbolic=True)
def clip_by_value(t: Array, clip_value_min: Array, clip_value_max: Array) -> Array:
  """`max(min(t, clip_value_max), clip_value_min)`; NaN stays, and a NaN bound is no bound.

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
  return _clip(t, jnp.broadcast_to(low, t.shape), jnp.broadcast_to(high, t.shape))


def _clip_forward(t: Array, low: Array, high: Array) -> Array:
  t = jnp.where(t > high, high, t)
  return jnp.where(t < low, low, t)


_clip = with_partials(
  _clip_forward,
  lambda tangent, y, t, low, high: jnp.where((t < low) | (t > high), jnp.zeros_like(tangent), tangent),
  lambda tangent, y, t, low, high: jnp.where(t < low, tangent, jnp.zeros_like(tangent)),
  lambda tangent, y, t, low, high: jnp.where(t > high, tangent, jnp.zeros_like(tangent)),
)


@register("Where", ignores=("T",))
def where(input: Static[np.ndarray]) -> np.ndarray:
  """Positions of the elements that are true or not 0, in row-major order.

  Source op: `tf.raw_ops.Where`.

  Args:
    input: any shape, numeric or bool. Must be known, for the number of rows is the result's shape. To bound it while
      tracing, call `jnp.nonzero(x, size=...)` in a lowering of your own, or use a mask instead of positions.

  Returns:
    `[num_true, rank]`, int64.

  Raises:
    StaticInputError: `input` depends on traced data.
  """
  return np.stack(np.nonzero(np.atleast_1d(input)), axis=-1).astype(np.int64)[:, : input.ndim]
