"""tf2xla's random bits."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes, Value
from graftax.ops_jax.int64_pairs import pairs
from graftax.ops_jax.random import philox, threefry
from graftax.xla_call_module.lax_extras import philox_of_state

__all__ = ["xla_rng_bit_generator"]

_UINT64 = np.dtype(np.uint64)
_PHILOX, _THREEFRY, _AUTO_SELECT = 1, 2, 3


@register("XlaRngBitGenerator", ignores=("Tshape",), int64_pairs="accept")
def xla_rng_bit_generator(
  algorithm: Static[int], initial_state: Array, shape: StaticSizes, *, dtype: np.dtype = _UINT64
) -> tuple[Value, Array]:
  """Returns random bits from one of XLA's generators, and its new state.

  Source op: `XlaRngBitGenerator` (tf2xla).

  Args:
    algorithm: 1 for Philox, 2 for ThreeFry, 3 to choose by the size of the state.
    initial_state: key and counter: `[3]` for Philox, `[2]` for ThreeFry; uint64.
    shape: shape of the bits.
    dtype: int32, uint32, int64 or uint64.

  Returns:
    The new state, shape of `initial_state`, uint64; bits, `shape` of `dtype` (64-bit ones as `Int64Pair` if
    `jax_enable_x64` is off).

  Raises:
    InvalidInputError: the algorithm, the size of the state, or the dtype is not supported.
  """
  size = {_PHILOX: 3, _THREEFRY: 2, _AUTO_SELECT: initial_state.shape[0]}.get(algorithm)
  if dtype.itemsize < 4 or initial_state.shape != (size,) or size not in (2, 3):
    raise InvalidInputError(
      f"XlaRngBitGenerator: algorithm {algorithm!r} with a state of shape {initial_state.shape} and dtype {dtype}; "
      f"expected 1 (Philox) with [3], 2 (ThreeFry) with [2] or 3 with either, and at least 32 bits."
    )
  low, high = philox.split_checked(initial_state, "state")
  num_words = math.prod(shape) * (dtype.itemsize // 4)
  draw = philox_of_state if size == 3 else _threefry_words
  words, (new_low, new_high) = draw(low, high, num_words)
  state = pairs.join(new_low, new_high, np.uint64)
  if dtype.itemsize == 4:
    return state, jax.lax.bitcast_convert_type(words, dtype).reshape(shape)
  low_high = words.reshape(-1, 2)
  bits = pairs.join(low_high[:, 0], low_high[:, 1], dtype)
  return state, bits.reshape(shape)


def _threefry_words(low: Value, high: Value, num_words: int) -> tuple[Array, tuple[Array, Array]]:
  generator = threefry.ThreeFry(jnp.stack([jnp.asarray(word) for word in (low[0], high[0], low[1], high[1])]))
  state = threefry.moved(generator, num_words).state.reshape(2, 2)
  return threefry.random_uint32(generator, (num_words,)), (state[:, 0], state[:, 1])
