"""Random numbers from ThreeFry, which TensorFlow uses on accelerators and under XLA."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.extend.random import threefry2x32_p

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.int64_pairs import pairs
from graftax.ops_jax.random import philox
from graftax.ops_jax.random.streams import bounded_int32, bounded_int64, box_muller
from graftax.xla_call_module.lax_extras import add_halves

__all__ = [
  "ThreeFry",
  "from_key_counter",
  "full_integers",
  "integers",
  "moved",
  "normal",
  "random_uint32",
  "truncated_normal",
  "uniform",
]


@dataclasses.dataclass(frozen=True, slots=True)
class ThreeFry:
  """A generator.

  Attributes:
    state: `[4]` uint32, key and counter, low halves first.
  """

  state: Array


def from_key_counter(key: Value, counter: Value) -> ThreeFry:
  """Returns the generator that `key` (`[1]`) and the first half of `counter` (`[1]` or `[2]`), both uint64, describe.

  Raises:
    InvalidInputError: JAX has cut one of them to 32 bits.
  """
  (key_low,), (key_high,) = philox.split_checked(key, "key")
  counter_low, counter_high = philox.split_checked(counter, "counter")
  return ThreeFry(jnp.stack([jnp.asarray(w) for w in (key_low, key_high, counter_low[0], counter_high[0])]))


def uniform(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` numbers in [0, 1) of float16, bfloat16, float32 or float64 (as float32 with 64-bit types off)."""
  if dtype == np.float64:
    low, high = _random_halves(generator, shape)
    if jax.config.jax_enable_x64:
      mantissa = (high.astype(np.uint64) << 32 | low.astype(np.uint64)) >> 12
      return mantissa.astype(np.float64) * 2.0**-52
    return (high >> 8).astype(np.float32) * np.float32(2.0**-24)
  if dtype == np.float16:
    return ((random_uint32(generator, shape) & 0x3FF).astype(np.float32) * np.float32(2.0**-10)).astype(dtype)
  numbers = (random_uint32(generator, shape) >> 9).astype(np.float32) * np.float32(2.0**-23)
  if dtype == ml_dtypes.bfloat16:
    leading = jax.lax.bitcast_convert_type(numbers, np.uint32) & jnp.uint32(0xFFFF0000)
    return jax.lax.bitcast_convert_type(leading, np.float32).astype(dtype)
  return numbers


def full_integers(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> Value:
  """Returns `shape` integers over the whole range of int32, uint32, int64 or uint64.

  64-bit integers are an `Int64Pair` if `jax_enable_x64` is off.
  """
  if dtype.itemsize == 4:
    return jax.lax.bitcast_convert_type(random_uint32(generator, shape), dtype)
  return pairs.join(*_random_halves(generator, shape), dtype)


def integers(generator: ThreeFry, shape: tuple[int, ...], low: Value, high: Value, dtype: np.dtype) -> Value:
  """Returns `shape` integers of `dtype` in [low, high).

  64-bit integers are an `Int64Pair` if `jax_enable_x64` is off and the bounds need more than 32 bits.
  """
  if dtype.itemsize == 4:
    return bounded_int32(random_uint32(generator, shape), low, high, dtype)
  return bounded_int64(_random_halves(generator, shape), low, high, dtype)


def normal(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` standard normal numbers: sines in the even and cosines in the odd places of the axis that XLA splits."""
  if not shape:
    return normal(generator, (1,), dtype).reshape(())
  compute_dtype = np.dtype(np.float64 if dtype == np.float64 else np.float32)
  axis, half = _halved(shape)
  pairs = uniform(generator, (*half[: axis + 1], 2, *half[axis + 1 :]), compute_dtype)
  radial, angular = (jax.lax.index_in_dim(pairs, i, axis + 1, keepdims=False) for i in (0, 1))
  numbers = _joined(box_muller(radial, angular * (2 * math.pi)), shape, axis)
  return numbers.astype(canonical_dtype(dtype))


def truncated_normal(generator: ThreeFry, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  """`shape` standard normal numbers of magnitude below 2, by the inverse of the distribution function."""
  compute_dtype = np.dtype(np.float64 if dtype == np.float64 else np.float32)
  numbers = uniform(generator, shape, compute_dtype)
  outside = 0.5 * math.erfc(2 / math.sqrt(2))
  probability = numbers * (1 - 2 * outside) + outside
  quantile = jax.lax.erf_inv(2 * probability - 1) * math.sqrt(2)
  return jnp.clip(quantile, -2, 2).astype(canonical_dtype(dtype))


def random_uint32(generator: ThreeFry, shape: tuple[int, ...]) -> jax.Array:
  """Returns `shape` uint32; both words of a block are neighbors along the axis that XLA splits.

  `jax.lax.rng_bit_generator` is not used, because it draws other numbers under `vmap`.
  """
  if not shape:
    return random_uint32(generator, (1,)).reshape(())
  axis, half = _halved(shape)
  size = math.prod(half)
  index = jax.lax.iota(np.uint32, size).reshape(half)
  key_low, key_high, counter_low, counter_high = generator.state
  low, high, _ = add_halves((counter_low, counter_high), (index, jnp.zeros_like(index)))
  pair = threefry2x32_p.bind(*(jnp.broadcast_to(word, half) for word in (key_low, key_high, low, high)))
  return _joined(pair, shape, axis)


def moved(generator: ThreeFry, num_words: int) -> ThreeFry:
  """Returns the generator advanced by `num_words` uint32."""
  key_low, key_high, *counter = generator.state
  num_blocks = np.uint32(-(-num_words // 2)), np.uint32(0)
  return ThreeFry(jnp.stack([key_low, key_high, *add_halves((counter[0], counter[1]), num_blocks)[:2]]))


def _halved(shape: tuple[int, ...]) -> tuple[int, list[int]]:
  """The axis that XLA splits to get pairs, and the shape of half of them."""
  axis = next((i for i, size in enumerate(shape) if size % 2 == 0), 0)
  half = list(shape)
  half[axis] = -(-shape[axis] // 2)
  return axis, half


def _joined(pair: Sequence[Array], shape: tuple[int, ...], axis: int) -> jax.Array:
  """Both numbers of each pair as neighbors along an axis."""
  full = list(shape)
  full[axis] = 2 * pair[0].shape[axis]
  return jax.lax.slice_in_dim(jnp.stack(pair, axis=axis + 1).reshape(full), 0, shape[axis], axis=axis)


def _random_halves(generator: ThreeFry, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
  """Returns low and high halves of random 64-bit integers; each block of the generator is one integer."""
  halves = random_uint32(generator, (2 * math.prod(shape),)).reshape(-1, 2)
  return halves[:, 0].reshape(shape), halves[:, 1].reshape(shape)
