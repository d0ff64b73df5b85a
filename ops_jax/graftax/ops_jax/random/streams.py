"""Uniform, normal and truncated normal numbers from a generator, as TensorFlow's CPU kernels draw them."""

import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.int64_pairs import arithmetic, pairs
from graftax.ops_jax.int64_pairs.arithmetic import Halves
from graftax.xla_call_module.lax_extras import Philox, add_halves, philox_blocks, philox_skip, philox_uint32

__all__ = [
  "bounded_int64",
  "bounded_int32",
  "box_muller",
  "double_from_uint32",
  "full_integers",
  "integers",
  "normal",
  "truncated_normal",
  "uniform",
]

# Mantissa bits that a word fills, by dtype: a float in [1, 2) is made of them, and 1 is taken off.
_MANTISSA_BITS = {np.dtype(np.float32): 23, np.dtype(np.float16): 10, np.dtype(ml_dtypes.bfloat16): 7}
_SMALLEST_LOG_ARGUMENT = 1e-7
_TRUNCATION = 2.0
# How many uint32 are reserved for each number of a distribution that rejects some.
_RESERVED_WORDS = 256


def uniform(generator: Philox, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """Returns `shape` numbers in [0, 1) of float16, bfloat16, float32 or float64.

  float64 with 64-bit types off is the double cut (not rounded) to 24 bits, as float32.
  """
  size = math.prod(shape)
  if dtype == np.float64:
    halves = philox_uint32(generator, 2 * size).reshape(size, 2)
    return double_from_uint32(halves[:, 0], halves[:, 1]).reshape(shape)
  return _narrow_uniform(philox_uint32(generator, size), dtype).reshape(shape)


def double_from_uint32(high: jax.Array, low: jax.Array) -> jax.Array:
  """Returns a double in [0, 1) made of two uint32, or its leading 24 bits as float32 if `jax_enable_x64` is off."""
  if jax.config.jax_enable_x64:
    mantissa = (high & 0xFFFFF).astype(np.uint64) << 32 | low.astype(np.uint64)
    return mantissa.astype(np.float64) * 2.0**-52
  return ((high & 0xFFFFF) << 4 | low >> 28).astype(np.float32) * np.float32(2.0**-24)


def _narrow_uniform(words: jax.Array, dtype: np.dtype) -> jax.Array:
  bits = _MANTISSA_BITS[np.dtype(dtype)]
  return ((words & ((1 << bits) - 1)).astype(np.float32) * np.float32(2.0**-bits)).astype(dtype)


def full_integers(generator: Philox, shape: tuple[int, ...], dtype: np.dtype) -> Value:
  """Returns `shape` integers over the whole range of int32, uint32, int64 or uint64.

  64-bit integers are an `Int64Pair` if `jax_enable_x64` is off.
  """
  size = math.prod(shape)
  if dtype.itemsize == 4:
    return jax.lax.bitcast_convert_type(philox_uint32(generator, size), dtype).reshape(shape)
  return pairs.join(*_random_halves(generator, shape), dtype)


def integers(generator: Philox, shape: tuple[int, ...], low: Value, high: Value, dtype: np.dtype) -> Value:
  """Returns `shape` integers of `dtype` in [low, high).

  64-bit integers are an `Int64Pair` if `jax_enable_x64` is off and the bounds need more than 32 bits.
  """
  if dtype.itemsize == 4:
    return bounded_int32(philox_uint32(generator, math.prod(shape)).reshape(shape), low, high, dtype)
  return bounded_int64(_random_halves(generator, shape), low, high, dtype)


def bounded_int32(random: Array, low: Value, high: Value, dtype: np.dtype) -> jax.Array:
  """Returns 32-bit integers of `dtype` in [low, high), as remainders of random uint32."""
  first, last = jnp.asarray(pairs.split(low)[0]), jnp.asarray(pairs.split(high)[0])
  return jax.lax.bitcast_convert_type(first + random % (last - first), dtype)


def bounded_int64(random: Halves, low: Value, high: Value, dtype: np.dtype) -> Value:
  """Returns 64-bit integers of `dtype` in [low, high), as remainders of random 64-bit integers given as halves.

  If `jax_enable_x64` is off, the result is an `Int64Pair`, or an ordinary array if known bounds fit 32 bits.
  """
  first = pairs.split(low)
  rest = arithmetic.remainder(random, arithmetic.subtract(pairs.split(high), first))
  numbers = pairs.join(*add_halves(first, rest)[:2], dtype)
  is_narrow = pairs.fits_jax_dtype(low) and pairs.fits_jax_dtype(high)
  return numbers.truncated() if isinstance(numbers, pairs.Int64Pair) and is_narrow else numbers


def _random_halves(generator: Philox, shape: tuple[int, ...]) -> Halves:
  halves = philox_uint32(generator, 2 * math.prod(shape)).reshape(*shape, 2)
  return halves[..., 0], halves[..., 1]


def normal(generator: Philox, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """Returns `shape` standard normal numbers, two from each two (float64: four) words."""
  size = math.prod(shape)
  words_per_number = 2 if dtype == np.float64 else 1
  words = philox_uint32(generator, -(-size * words_per_number // 4) * 4)
  pairs = jnp.stack(_normal_pairs(words, dtype), axis=-1)
  return pairs.reshape(-1)[:size].astype(canonical_dtype(dtype)).reshape(shape)


def truncated_normal(generator: Philox, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """Returns `shape` standard normal numbers of magnitude below 2.

  Each group of 4 numbers (float64: 2) has a stretch of the stream of its own and takes the first that are small enough.
  """
  size = math.prod(shape)
  if size == 0:
    return jnp.zeros(shape, canonical_dtype(dtype))
  group = 2 if dtype == np.float64 else 4
  num_groups = -(-size // group)
  blocks_per_group = group * _RESERVED_WORDS // 4
  index = jax.lax.iota(np.uint32, num_groups)
  shift = blocks_per_group.bit_length() - 1
  start = philox_skip(generator, (index << shift, index >> (32 - shift)))
  compute_dtype = canonical_dtype(np.float64 if dtype == np.float64 else np.float32)

  def is_incomplete(state: tuple[jax.Array, ...]) -> jax.Array:
    return jnp.any(state[1] < group)

  def take_one_block(state: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
    numbers, count, block_index = state
    block = philox_blocks(philox_skip(start, (block_index, jnp.zeros_like(block_index))))
    words = jnp.stack(jnp.broadcast_arrays(*block), axis=-1)
    for candidate in jnp.moveaxis(jnp.stack(_normal_pairs(words, dtype), -1).reshape(num_groups, -1), 1, 0):
      accepted = (jnp.abs(candidate) < _TRUNCATION) & (count < group)
      here = accepted[:, None] & (jax.lax.iota(np.int32, group) == count[:, None])
      numbers = jnp.where(here, candidate[:, None], numbers)
      count = count + accepted
    return numbers, count, block_index + 1

  state = (jnp.zeros((num_groups, group), compute_dtype), jnp.zeros(num_groups, np.int32), jnp.uint32(0))
  numbers, _, _ = jax.lax.while_loop(is_incomplete, take_one_block, state)
  return numbers.reshape(-1)[:size].astype(canonical_dtype(dtype)).reshape(shape)


def _normal_pairs(words: jax.Array, dtype: np.dtype) -> tuple[jax.Array, jax.Array]:
  """Returns two normal numbers from each 2 words (float64: 4) along the last axis, float32 (float64)."""
  if dtype == np.float64:
    quads = words.reshape(*words.shape[:-1], -1, 4)
    radial = double_from_uint32(quads[..., 0], quads[..., 1])
    angular = double_from_uint32(quads[..., 2], quads[..., 3])
    return box_muller(radial, angular * (2 * math.pi))
  pairs = words.reshape(*words.shape[:-1], -1, 2)
  return box_muller(_narrow_uniform(pairs[..., 0], np.dtype(np.float32)), _angle(pairs[..., 1]))


def box_muller(radial: jax.Array, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns two normal numbers from a uniform number and an angle."""
  floor = np.asarray(_SMALLEST_LOG_ARGUMENT, radial.dtype)
  radius = jnp.sqrt(-2 * jnp.log(jnp.maximum(radial, floor)))
  return jnp.sin(angle) * radius, jnp.cos(angle) * radius


def _angle(words: jax.Array) -> jax.Array:
  """Returns 2 pi times a uniform float32, rounded once, as TensorFlow's product in double precision is."""
  turns = words & 0x7FFFFF
  scale = np.float32(2.0**-23)
  coarse, fine = (turns & 0x7FF800).astype(np.float32) * scale, (turns & 0x7FF).astype(np.float32) * scale
  # 2 pi in parts of 12, 12 and 24 bits: products of a 12-bit and an 11- or 12-bit part are exact in float32.
  leading = np.float32(math.floor(2 * math.pi * 2**9) / 2**9)
  middle = np.float32(math.floor((2 * math.pi - float(leading)) * 2**21) / 2**21)
  tail = np.float32(2 * math.pi - float(leading) - float(middle))
  return coarse * leading + (coarse * middle + fine * leading + (fine * middle + (coarse + fine) * tail))
