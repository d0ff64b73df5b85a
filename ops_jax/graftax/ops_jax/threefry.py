"""Random numbers from ThreeFry, which TensorFlow has on accelerators and under XLA, drawn as XLA draws them."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from graftax.ops_jax import wide
from graftax.ops_jax.random_streams import box_muller
from graftax.ops_jax.values import Array, Value

__all__ = ["ThreeFry", "from_key_counter", "full_integers", "integers", "normal", "truncated_normal", "uniform"]


@dataclasses.dataclass(frozen=True, slots=True)
class ThreeFry:
  """A generator.

  Attributes:
    state: `[4]` uint32, key and counter, low words first.
  """

  state: Array


def from_key_counter(key: Value, counter: Value) -> ThreeFry:
  """The generator that `key` (`[1]`) and the first half of `counter` (`[2]`), both uint64, describe."""
  (key_low,), (key_high,) = wide.split(key)
  counter_low, counter_high = wide.split(counter)
  return ThreeFry(jnp.stack([jnp.asarray(w) for w in (key_low, key_high, counter_low[0], counter_high[0])]))


def uniform(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` numbers in [0, 1) of float16, bfloat16, float32 or float64 (as float32 with 64-bit types off)."""
  if dtype == np.float64:
    low, high = _word_pairs(generator, shape)
    if jax.config.jax_enable_x64:
      mantissa = (high.astype(np.uint64) << 32 | low.astype(np.uint64)) >> 12
      return mantissa.astype(np.float64) * 2.0**-52
    return (high >> 8).astype(np.float32) * np.float32(2.0**-24)
  if dtype == np.float16:
    return ((_bits(generator, shape, np.uint32) & 0x3FF).astype(np.float32) * np.float32(2.0**-10)).astype(dtype)
  numbers = (_bits(generator, shape, np.uint32) >> 9).astype(np.float32) * np.float32(2.0**-23)
  if dtype == ml_dtypes.bfloat16:
    words = jax.lax.bitcast_convert_type(numbers, np.uint32) & jnp.uint32(0xFFFF0000)
    return jax.lax.bitcast_convert_type(words, np.float32).astype(dtype)
  return numbers


def full_integers(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` integers over the whole range of int32, uint32, int64 or uint64 (low words with 64-bit types off)."""
  if dtype.itemsize == 4:
    return jax.lax.bitcast_convert_type(_bits(generator, shape, np.uint32), dtype)
  return _narrowed(wide.join(*_word_pairs(generator, shape), dtype))


def integers(generator: ThreeFry, shape: tuple[int, ...], low: Value, high: Value, dtype: np.dtype) -> jax.Array:
  """`shape` integers of `dtype` in [low, high); truncated for 64-bit dtypes with 64-bit types off."""
  low_words, high_words = wide.split(low), wide.split(high)
  if dtype.itemsize == 4:
    spread = jnp.asarray(high_words[0]) - jnp.asarray(low_words[0])
    return jax.lax.bitcast_convert_type(low_words[0] + _bits(generator, shape, np.uint32) % spread, dtype)
  negated = wide.add((~low_words[0], ~low_words[1]), (np.uint32(1), np.uint32(0)))[:2]
  rest = wide.remainder(_word_pairs(generator, shape), wide.add(high_words, negated)[:2])
  return _narrowed(wide.join(*wide.add(low_words, rest)[:2], dtype))


def normal(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` standard normal numbers: sines in the even and cosines in the odd places of the axis that XLA splits."""
  if not shape:
    return normal(generator, (1,), dtype).reshape(())
  compute_dtype = np.dtype(np.float64 if dtype == np.float64 else np.float32)
  axis = next((i for i, size in enumerate(shape) if size % 2 == 0), 0)
  half = list(shape)
  half[axis] = -(-shape[axis] // 2)
  pairs = uniform(generator, (*half[: axis + 1], 2, *half[axis + 1 :]), compute_dtype)
  radial, angular = (jax.lax.index_in_dim(pairs, i, axis + 1, keepdims=False) for i in (0, 1))
  numbers = jnp.stack(box_muller(radial, angular * (2 * math.pi)), axis=axis + 1)
  padded = [*half[:axis], 2 * half[axis], *half[axis + 1 :]]
  numbers = jax.lax.slice_in_dim(numbers.reshape(padded), 0, shape[axis], axis=axis)
  return numbers.astype(jax.dtypes.canonicalize_dtype(dtype))


def truncated_normal(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` standard normal numbers of magnitude below 2, by the inverse of the distribution function."""
  compute_dtype = np.dtype(np.float64 if dtype == np.float64 else np.float32)
  numbers = uniform(generator, shape, compute_dtype)
  outside = 0.5 * math.erfc(2 / math.sqrt(2))
  probability = numbers * (1 - 2 * outside) + outside
  quantile = jax.lax.erf_inv(2 * probability - 1) * math.sqrt(2)
  return jnp.clip(quantile, -2, 2).astype(jax.dtypes.canonicalize_dtype(dtype))


def _bits(generator: ThreeFry, shape: tuple[int, ...], dtype: type) -> jax.Array:
  algorithm = jax.lax.RandomAlgorithm.RNG_THREE_FRY
  return jax.lax.rng_bit_generator(generator.state, shape, dtype, algorithm=algorithm)[1]


def _word_pairs(generator: ThreeFry, shape: tuple[int, ...]) -> tuple[Array, Array]:
  """Low and high words of 64-bit integers: both words of each block make one."""
  pairs = _bits(generator, (2 * math.prod(shape),), np.uint32).reshape(-1, 2)
  return pairs[:, 0].reshape(shape), pairs[:, 1].reshape(shape)


def _narrowed(value: Value) -> Value:
  return value.truncated() if isinstance(value, wide.WideInts) else value
