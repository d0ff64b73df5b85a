"""Philox 4x32-10 against the vectors that its authors published, and its counter against Python's integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module.lax_extras import Philox, philox_blocks, philox_skip, philox_uint32

# Key, counter and block from `kat_vectors` of Random123 (https://github.com/DEShawResearch/random123).
_PUBLISHED = [
  ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
  ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
  (
    (0xA4093822, 0x299F31D0),
    (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
    (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
  ),
]


def _words(number: int, num_words: int) -> tuple[np.ndarray, ...]:
  """Returns an integer as uint32 words, lowest first."""
  return tuple(np.array(number >> (32 * i) & 0xFFFFFFFF, np.uint32) for i in range(num_words))


def _number(words: tuple[np.ndarray, ...]) -> int:
  return sum(int(word) << (32 * i) for i, word in enumerate(words))


@pytest.mark.parametrize(("key", "counter", "block"), _PUBLISHED)
def test_blocks_are_those_that_the_authors_published(key, counter, block):
  known = tuple(map(np.uint32, key)), tuple(map(np.uint32, counter))
  assert tuple(map(int, philox_blocks(Philox(*known)))) == block
  traced = jax.jit(lambda key, counter: philox_blocks(Philox(key, counter)))(*known)
  assert tuple(map(int, traced)) == block


@pytest.mark.parametrize("counter", [0, 2**32 - 1, 2**64 - 1, 2**96 - 1, 2**128 - 1])
@pytest.mark.parametrize("num_blocks", [1, 2**32, 2**64 - 1])
def test_skipping_blocks_adds_to_a_counter_of_128_bits(counter, num_blocks):
  moved = philox_skip(Philox(_words(0, 2), _words(counter, 4)), _words(num_blocks, 2))
  assert _number(moved.counter) == (counter + num_blocks) % 2**128


def test_a_stream_is_the_blocks_of_successive_counters():
  start = 2**32 - 2
  stream = philox_uint32(Philox(_words(5, 2), tuple(map(jnp.asarray, _words(start, 4)))), 10)
  want = [philox_blocks(Philox(_words(5, 2), _words(start + i, 4))) for i in range(3)]
  np.testing.assert_array_equal(stream, np.ravel(want)[:10])
