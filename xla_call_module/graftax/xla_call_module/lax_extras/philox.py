"""The counter-based random generator Philox 4x32-10, computed with uint32 arrays only.

A generator is a key of 64 and a counter of 128 bits. Block `i` of its stream is four words, a function of the key and
of `counter + i`. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module.lax_extras.arrays import mulhi
from graftax.xla_call_module.lax_extras.int64_pairs import add_halves, join_halves

__all__ = ["Philox", "philox_bits", "philox_blocks", "philox_of_state", "philox_skip", "philox_uint32"]

_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_KEY_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_NUM_ROUNDS = 10

# An array of NumPy, which is known while tracing, or of JAX.
_Words = Any


@dataclasses.dataclass(frozen=True, slots=True)
class Philox:
  """A generator.

  Attributes:
    key: two words, lowest first; uint32 scalars, or arrays of one shape.
    counter: four words, lowest first; likewise.
  """

  key: tuple[_Words, _Words]
  counter: tuple[_Words, _Words, _Words, _Words]


def philox_blocks(generator: Philox) -> tuple[_Words, _Words, _Words, _Words]:
  """Returns the four uint32 words of each generator's first block."""
  k0, k1 = generator.key
  c0, c1, c2, c3 = generator.counter
  with np.errstate(over="ignore"):
    for _ in range(_NUM_ROUNDS):
      low0, high0 = _multiply(_MULTIPLIERS[0], c0)
      low1, high1 = _multiply(_MULTIPLIERS[1], c2)
      c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
      k0, k1 = k0 + _KEY_STEPS[0], k1 + _KEY_STEPS[1]
  return c0, c1, c2, c3


def philox_skip(generator: Philox, num_blocks: tuple[_Words, _Words]) -> Philox:
  """Returns a generator that is some blocks further.

  Args:
    generator: the generator.
    num_blocks: how many, an unsigned 64-bit integer as its lower and upper half, uint32.
  """
  c0, c1, c2, c3 = generator.counter
  c0, c1, carry = add_halves((c0, c1), num_blocks)
  c2, c3, _ = add_halves((c2, c3), (carry, np.uint32(0)))
  return Philox(generator.key, (c0, c1, c2, c3))


def philox_uint32(generator: Philox, size: int) -> jax.Array:
  """Returns the start of a generator's stream, uint32 `[size]`.

  Args:
    generator: the generator; its words are scalars.
    size: the number of words; may be symbolic.
  """
  num_blocks = -(-size // 4)
  index = jax.lax.iota(np.uint32, num_blocks)
  block = philox_blocks(philox_skip(generator, (index, jnp.zeros_like(index))))
  return jnp.stack(block, axis=-1).reshape(-1)[:size]


def philox_of_state(low: _Words, high: _Words, size: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
  """Returns words of XLA's Philox generator, and its new state.

  Source: XLA's `RngBitGenerator`, whose state of uint64 is the key and the two halves of the counter.

  Args:
    low: the lower halves of the state, uint32 `[3]`.
    high: the upper halves, likewise.
    size: the number of words; may be symbolic.

  Returns:
    The words, uint32 `[size]`; the lower and upper halves of the state after the blocks that have them.
  """
  generator = Philox((low[0], high[0]), (low[1], high[1], low[2], high[2]))
  num_blocks = -(-size // 4)
  # The number of blocks of a symbolic size is an array.
  skipped = np.uint32(num_blocks) if isinstance(num_blocks, int) else jnp.asarray(num_blocks).astype(np.uint32)
  c0, c1, c2, c3 = philox_skip(generator, (skipped, np.uint32(0))).counter
  new_low, new_high = (
    jnp.stack([jnp.asarray(word) for word in words]) for words in ((low[0], c0, c2), (high[0], c1, c3))
  )
  return philox_uint32(generator, size), (new_low, new_high)


def philox_bits(
  low: jax.Array, high: jax.Array, shape: Sequence[int], dtype: np.dtype
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
  """Returns integers of XLA's Philox generator, and its new state; see `philox_of_state`.

  Args:
    low: the lower halves of the state, uint32 `[3]`.
    high: the upper halves, likewise.
    shape: of the integers; sizes may be symbolic.
    dtype: an unsigned dtype; one of 64 bits needs JAX's 64-bit types.

  Returns:
    The integers, of which shorter ones are the lower bits of words; the halves of the new state.
  """
  words, state = philox_of_state(low, high, math.prod(shape) * max(dtype.itemsize // 4, 1))
  if dtype.itemsize == 8:
    halves = words.reshape(-1, 2)
    words = join_halves(halves[:, 0], halves[:, 1])
  return words.astype(dtype).reshape(tuple(shape)), state


def _multiply(multiplier: np.uint32, value: _Words) -> tuple[_Words, _Words]:
  """Returns the low and high half of a 64-bit product."""
  if isinstance(value, (np.ndarray, np.generic)):
    product = np.uint64(multiplier) * np.asarray(value, np.uint64)
    return product.astype(np.uint32), (product >> np.uint64(32)).astype(np.uint32)
  return multiplier * value, mulhi(jnp.full_like(value, multiplier), value)
