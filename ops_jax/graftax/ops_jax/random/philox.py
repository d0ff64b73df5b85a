"""Generators of Philox 4x32-10 from TensorFlow's seeds, keys and counters.

Every distribution of TensorFlow's CPU kernels is a function of the blocks of such a generator.
"""

import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.int64_pairs import pairs
from graftax.xla_call_module.lax_extras import Philox, philox_blocks

__all__ = ["from_key_counter", "from_seed", "split_checked"]

# TensorFlow encrypts the user's seed with this key, so that seeds need not differ in many bits.
_SEED_KEY = np.uint32(0x3EC8F720), np.uint32(0x02461E29)


def from_seed(seed: Value) -> Philox:
  """Returns the generator that stateless random ops derive from a seed.

  Args:
    seed: `[2]`, any integer dtype; signed narrow integers are sign-extended to 64 bits.
  """
  (low0, low1), (high0, high1) = pairs.split(seed)
  mixed = philox_blocks(Philox(_SEED_KEY, (low0, high0, low1, high1)))
  zero = np.uint32(0)
  return Philox((mixed[0], mixed[1]), (zero, zero, mixed[2], mixed[3]))


def from_key_counter(key: Value, counter: Value) -> Philox:
  """Returns the generator that `key` (`[1]`) and `counter` (`[2]`), both uint64, describe.

  Raises:
    InvalidInputError: JAX has truncated one of them to 32 bits.
  """
  (key_low,), (key_high,) = split_checked(key, "key")
  low, high = split_checked(counter, "counter")
  return Philox((key_low, key_high), (low[0], high[0], low[1], high[1]))


def split_checked(value: Value, what: str) -> tuple[Value, Value]:
  """Splits a key, a counter or a generator state into low and high halves.

  Raises:
    InvalidInputError: the value is a 32-bit JAX array, so its upper bits are lost.
  """
  if not isinstance(value, pairs.Int64Pair) and not is_known(value) and value.dtype.itemsize < 8:
    raise InvalidInputError(
      f"random op: the {what} has 64-bit integers, but was passed as {value.dtype}, to which JAX truncates them while "
      f"64-bit types are off. Pass graftax.ops_jax.as_int64_pair(value), a pytree of uint32 arrays, or enable 64-bit "
      f"types (jax_enable_x64)."
    )
  return pairs.split(value)
