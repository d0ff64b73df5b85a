"""Selection by condition: Select, SelectV2, Where."""

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = ["select", "select_v2", "where"]


@register("Select", ignores=("T",), symbolic=True, data_inputs=("t", "e"))
def select(condition: Array, t: Array, e: Array) -> Array:
  """Returns `t` where the condition is true, else `e`; same shape and dtype as these.

  Source op: `tf.raw_ops.Select`.

  Args:
    condition: bool; of the shape of `t`, a scalar, or a vector that selects along the first dimension.
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


@register("SelectV2", ignores=("T",), symbolic=True, data_inputs=("t", "e"))
def select_v2(condition: Array, t: Array, e: Array) -> Array:
  """Returns `t` where the condition is true, else `e`; all three broadcast together."""
  return keep_known(np.where, jnp.where, condition, t, e)


@register("Where", ignores=("T",))
def where(input: Static[np.ndarray]) -> np.ndarray:
  """Returns the positions of the elements that are true or not 0, in row-major order.

  Source op: `tf.raw_ops.Where`.

  Args:
    input: any shape, numeric or bool. Must be known, because the number of rows is the result's shape. To bound it
      while tracing, call `jnp.nonzero(x, size=...)` in a lowering that you register, or use a mask instead of
      positions.

  Returns:
    `[num_true, rank]`, int64.

  Raises:
    StaticInputError: `input` depends on traced data.
  """
  return np.stack(np.nonzero(np.atleast_1d(input)), axis=-1).astype(np.int64)[:, : input.ndim]
