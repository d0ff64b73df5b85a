"""Stochastic rounding to integers: StochasticCastToInt."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.random.stateless import algorithm

__all__ = ["stochastic_cast_to_int"]


@register("StochasticCastToInt", ignores=("Tin",), int64_pairs="accept")
def stochastic_cast_to_int(input: Array, key: Array, counter: Array, alg: Static[int], *, Tout: np.dtype) -> Array:
  """Rounds to one of the two nearest integers, up with a probability equal to the fraction.

  Source op: `StochasticCastToInt`.

  Args:
    input: float16, bfloat16, float32 or float64.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    Tout: int8, int16 or int32.

  Returns:
    Shape of `input`, of `Tout`; cut to its range, and 0 for NaN.

  Differs from TF: which elements are rounded up; TensorFlow has this op under XLA alone.
  """
  input = jnp.asarray(input)
  wide = input.astype(np.float32) if input.dtype.itemsize == 2 else input
  generator, draws = algorithm(key, counter, alg)
  numbers = draws.uniform(generator, input.shape, np.dtype(wide.dtype))
  lower = jnp.floor(wide)
  rounded = lower + (numbers < wide - lower)
  return _saturated(rounded, Tout)


def _saturated(x: Array, dtype: np.dtype) -> jax.Array:
  limits = jnp.iinfo(dtype)
  is_inside = (x >= limits.min) & (x < limits.max)
  inside = jnp.where(is_inside, x, 0).astype(dtype)
  # Compared as floats: the largest int32 is rounded up there, so that all that is not below it is out of range.
  return jnp.where(x >= limits.max, limits.max, jnp.where(x < limits.min, limits.min, inside)).astype(dtype)
