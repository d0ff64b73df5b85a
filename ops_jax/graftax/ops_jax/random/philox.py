"""TensorFlow's counter-based random generator Philox 4x32-10, computed with uint32 arrays only.

A generator is a key of 64 and a counter of 128 bits. Block `i` of its stream is four words, a function of the key and
of `counter + i`; every distribution of TensorFlow's CPU kernels is a function of these blocks.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.int64_pairs import pairs
from graftax.ops_jax.int64_pairs.arithmetic import add
from graftax.xla_call_module.lax_extras import mulhi

__all__ = ["Philox", "blocks", "from_key_counter", "from_seed", "random_uint32", "skip", "split_checked"]

_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_KEY_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_NUM_ROUNDS = 10
# TensorFlow encrypts the user's seed with this key, so that seeds need not differ in many bits.
_SEED_KEY = np.uint32(0x3EC8F720), np.uint32(0x02461E29)


@dataclasses.dataclass(frozen=True, slots=True)
class Philox:
  """A generator.

  Attributes:
    key: two words, lowest first; scalars, or arrays of one shape.
    counter: four words, lowest first; likewise.
  """

  key: tuple[Value, Value]
  counter: tuple[Value, Value, Value, Value]


def from_seed(seed: Value) -> Philox:
  """Returns the generator that stateless random ops derive from a seed.

  Args:
    seed: `[2]`, any integer dtype; signed narrow integers are sign-extended to 64 bits.
  """
  (low0, low1), (high0, high1) = pairs.split(seed)
  mixed = _encrypt(_SEED_KEY, (low0, high0, low1, high1))
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


def skip(generator: Philox, num_blocks: tuple[Value, Value]) -> Philox:
  """Returns the generator advanced by `num_blocks` blocks, an unsigned 64-bit integer given as low and high half."""
  c0, c1, c2, c3 = generator.counter
  c0, c1, carry = add((c0, c1), num_blocks)
  c2, c3, _ = add((c2, c3), (carry, np.uint32(0)))
  return Philox(generator.key, (c0, c1, c2, c3))


def blocks(generator: Philox) -> tuple[Value, Value, Value, Value]:
  """Returns the four uint32 words of each generator's first block."""
  return _encrypt(generator.key, generator.counter)


def random_uint32(generator: Philox, size: int) -> jax.Array:
  """Returns `[size]` uint32, the start of the generator's stream."""
  num_blocks = -(-size // 4)
  index = jax.lax.iota(np.uint32, num_blocks)
  block = blocks(skip(generator, (index, jnp.zeros_like(index))))
  return jnp.stack(block, axis=-1).reshape(-1)[:size]


def _encrypt(key: tuple[Value, Value], counter: tuple[Value, ...]) -> tuple[Value, Value, Value, Value]:
  k0, k1 = key
  c0, c1, c2, c3 = counter
  with np.errstate(over="ignore"):
    for _ in range(_NUM_ROUNDS):
      low0, high0 = _multiply(_MULTIPLIERS[0], c0)
      low1, high1 = _multiply(_MULTIPLIERS[1], c2)
      c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
      k0, k1 = k0 + _KEY_STEPS[0], k1 + _KEY_STEPS[1]
  return c0, c1, c2, c3


def _multiply(multiplier: np.uint32, value: Value) -> tuple[Value, Value]:
  """Returns the low and high half of a 64-bit product."""
  if is_known(value):
    product = np.uint64(multiplier) * np.asarray(value, np.uint64)
    return product.astype(np.uint32), (product >> np.uint64(32)).astype(np.uint32)
  return multiplier * value, mulhi(jnp.full_like(value, multiplier), value)
