"""Stateless random ops: the same numbers as TensorFlow for the same seed."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax import philox, random_streams, threefry, wide
from graftax.ops_jax.errors import InvalidInputError
from graftax.ops_jax.registry import register
from graftax.ops_jax.values import Array, Static, Value

__all__ = [
  "algorithm",
  "stateless_random_get_alg",
  "stateless_random_get_key_counter",
  "stateless_random_get_key_counter_alg",
  "stateless_random_normal",
  "stateless_random_normal_v2",
  "stateless_random_uniform",
  "stateless_random_uniform_full_int",
  "stateless_random_uniform_full_int_v2",
  "stateless_random_uniform_int",
  "stateless_random_uniform_int_v2",
  "stateless_random_uniform_v2",
  "stateless_shuffle",
  "stateless_truncated_normal",
  "stateless_truncated_normal_v2",
]

PHILOX, THREEFRY, AUTO_SELECT = 1, 2, 3


def algorithm(key: Value, counter: Value, alg: int) -> tuple[Any, ModuleType]:
  """The generator that `key` and `counter` describe, and the module with its distributions.

  Args:
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for TensorFlow's choice, which is Philox on CPU.

  Raises:
    InvalidInputError: `alg` is none of these.
  """
  if alg in (PHILOX, AUTO_SELECT):
    return philox.from_key_counter(key, counter), random_streams
  if alg == THREEFRY:
    return threefry.from_key_counter(key, counter), threefry
  raise InvalidInputError(f"random op: algorithm {alg!r} is unknown; expected 1 (Philox), 2 (ThreeFry) or 3 (either).")


@register("StatelessRandomGetKeyCounter", ignores=("Tseed",))
def stateless_random_get_key_counter(seed: Array) -> tuple[Value, Value]:
  """Key and counter of the Philox generator that belongs to a seed.

  Source op: `tf.raw_ops.StatelessRandomGetKeyCounter`.

  Args:
    seed: `[2]`, int32 or int64.

  Returns:
    Key `[1]` and counter `[2]`, uint64. Known for a known seed; for a traced one with 64-bit types off, `WideInts`.
  """
  generator = philox.from_seed(_checked_seed(seed))
  zero = np.uint32(0)
  key = wide.join(_stack(generator.key[:1]), _stack(generator.key[1:]), np.uint64)
  counter = wide.join(_stack((zero, generator.counter[2])), _stack((zero, generator.counter[3])), np.uint64)
  return key, counter


@register("StatelessRandomGetKeyCounterAlg", ignores=("Tseed",))
def stateless_random_get_key_counter_alg(seed: Array) -> tuple[Value, Value, Value]:
  """Key, counter and algorithm that TensorFlow uses for a seed on CPU.

  Source op: `tf.raw_ops.StatelessRandomGetKeyCounterAlg`.

  Args:
    seed: `[2]`, int32 or int64.

  Returns:
    Key `[1]` and counter `[2]`, uint64; algorithm 1 (Philox), int32.
  """
  return *stateless_random_get_key_counter(seed), np.array(PHILOX, np.int32)


@register("StatelessRandomGetAlg")
def stateless_random_get_alg() -> Value:
  """The algorithm that TensorFlow uses on CPU: 1 (Philox), int32.

  Source op: `tf.raw_ops.StatelessRandomGetAlg`.
  """
  return np.array(PHILOX, np.int32)


@register("StatelessRandomUniform", ignores=("T", "Tseed"))
def stateless_random_uniform(shape: Static[tuple[int, ...]], seed: Array, *, dtype: np.dtype) -> Array:
  """Numbers in [0, 1), bit for bit those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniform`.

  Args:
    shape: of the result.
    seed: `[2]`, int32 or int64.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.
  """
  return random_streams.uniform(philox.from_seed(_checked_seed(seed)), shape, dtype)


@register("StatelessRandomUniformV2", ignores=("Tshape",))
def stateless_random_uniform_v2(
  shape: Static[tuple[int, ...]], key: Array, counter: Array, alg: Static[int], *, dtype: np.dtype
) -> Array:
  """Numbers in [0, 1), bit for bit those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformV2`.

  Args:
    shape: of the result.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.
  """
  generator, draws = algorithm(key, counter, alg)
  return draws.uniform(generator, shape, dtype)


@register("StatelessRandomNormal", ignores=("T", "Tseed"))
def stateless_random_normal(shape: Static[tuple[int, ...]], seed: Array, *, dtype: np.dtype) -> Array:
  """Standard normal numbers.

  Source op: `tf.raw_ops.StatelessRandomNormal`.

  Args:
    shape: of the result.
    seed: `[2]`, int32 or int64.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: logarithm, sine and cosine may differ in the last bit. Measured over 10001 numbers on CPU: float16,
    bfloat16 and float64 equal; float32 equal in 94 of 100, within 8e-7 otherwise.
  """
  return random_streams.normal(philox.from_seed(_checked_seed(seed)), shape, dtype)


@register("StatelessRandomNormalV2", ignores=("Tshape",))
def stateless_random_normal_v2(
  shape: Static[tuple[int, ...]], key: Array, counter: Array, alg: Static[int], *, dtype: np.dtype
) -> Array:
  """Standard normal numbers.

  Source op: `tf.raw_ops.StatelessRandomNormalV2`.

  Args:
    shape: of the result.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: last bits, as `StatelessRandomNormal`. ThreeFry in float16 draws in float32 and rounds; XLA does not.
  """
  generator, draws = algorithm(key, counter, alg)
  return draws.normal(generator, shape, dtype)


@register("StatelessTruncatedNormal", ignores=("T", "Tseed"))
def stateless_truncated_normal(shape: Static[tuple[int, ...]], seed: Array, *, dtype: np.dtype) -> Array:
  """Standard normal numbers of magnitude below 2.

  Source op: `tf.raw_ops.StatelessTruncatedNormal`.

  Args:
    shape: of the result.
    seed: `[2]`, int32 or int64.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: last bits, as `StatelessRandomNormal`.
  """
  return random_streams.truncated_normal(philox.from_seed(_checked_seed(seed)), shape, dtype)


@register("StatelessTruncatedNormalV2", ignores=("Tshape",))
def stateless_truncated_normal_v2(
  shape: Static[tuple[int, ...]], key: Array, counter: Array, alg: Static[int], *, dtype: np.dtype
) -> Array:
  """Standard normal numbers of magnitude below 2.

  Source op: `tf.raw_ops.StatelessTruncatedNormalV2`.

  Args:
    shape: of the result.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: last bits, as `StatelessRandomNormal`. ThreeFry in float16 draws in float32 and rounds; XLA does not.
  """
  generator, draws = algorithm(key, counter, alg)
  return draws.truncated_normal(generator, shape, dtype)


@register("StatelessRandomUniformInt", ignores=("T", "Tseed"))
def stateless_random_uniform_int(
  shape: Static[tuple[int, ...]], seed: Array, minval: Array, maxval: Array, *, dtype: np.dtype
) -> Array:
  """Integers in [minval, maxval), exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformInt`.

  Args:
    shape: of the result.
    seed: `[2]`, int32 or int64.
    minval: scalar of `dtype`.
    maxval: scalar of `dtype`, more than `minval`.
    dtype: int32 or int64.

  Returns:
    `shape` of `dtype`.
  """
  return random_streams.integers(philox.from_seed(_checked_seed(seed)), shape, minval, maxval, dtype)


@register("StatelessRandomUniformIntV2", ignores=("Tshape",))
def stateless_random_uniform_int_v2(
  shape: Static[tuple[int, ...]],
  key: Array,
  counter: Array,
  alg: Static[int],
  minval: Array,
  maxval: Array,
  *,
  dtype: np.dtype,
) -> Array:
  """Integers in [minval, maxval), exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformIntV2`.

  Args:
    shape: of the result.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    minval: scalar of `dtype`.
    maxval: scalar of `dtype`, more than `minval`.
    dtype: int32, int64, uint32 or uint64.

  Returns:
    `shape` of `dtype`.
  """
  generator, draws = algorithm(key, counter, alg)
  return draws.integers(generator, shape, minval, maxval, dtype)


@register("StatelessRandomUniformFullInt", ignores=("T", "Tseed"))
def stateless_random_uniform_full_int(shape: Static[tuple[int, ...]], seed: Array, *, dtype: np.dtype) -> Array:
  """Integers over the whole range of a dtype, exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformFullInt`.

  Args:
    shape: of the result.
    seed: `[2]`, int32, int64, uint32 or uint64.
    dtype: int32, int64, uint32 or uint64.

  Returns:
    `shape` of `dtype`; the low words of 64-bit integers when 64-bit types are off.
  """
  return random_streams.full_integers(philox.from_seed(_checked_seed(seed)), shape, dtype)


@register("StatelessRandomUniformFullIntV2", ignores=("Tshape",))
def stateless_random_uniform_full_int_v2(
  shape: Static[tuple[int, ...]], key: Array, counter: Array, alg: Static[int], *, dtype: np.dtype
) -> Array:
  """Integers over the whole range of a dtype, exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformFullIntV2`.

  Args:
    shape: of the result.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    dtype: int32, int64, uint32 or uint64.

  Returns:
    `shape` of `dtype`; the low words of 64-bit integers when 64-bit types are off.
  """
  generator, draws = algorithm(key, counter, alg)
  return draws.full_integers(generator, shape, dtype)


@register("StatelessShuffle", ignores=("T",))
def stateless_shuffle(value: Array, key: Array, counter: Array, alg: Static[int]) -> Array:
  """Rows of a tensor in random order, exactly the order of TensorFlow.

  Source op: `tf.raw_ops.StatelessShuffle`.

  Args:
    value: `[n, ...]`, any dtype.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 or 3, Philox.

  Returns:
    Shape and dtype of `value`.

  Raises:
    InvalidInputError: `alg` is another one; TensorFlow has no such kernel either.
  """
  if alg not in (PHILOX, AUTO_SELECT):
    raise InvalidInputError(f"StatelessShuffle: algorithm {alg!r}; TensorFlow shuffles with 1 (Philox) or 3 only.")
  value = jnp.asarray(value)
  if value.ndim == 0 or value.shape[0] < 2:
    return value
  size = value.shape[0]
  words = philox.words(philox.from_key_counter(key, counter), size)
  index = jnp.arange(size, dtype=np.uint32)
  partners = (index + words % (size - index)).astype(np.int32)

  def swap(i: jax.Array, order: jax.Array) -> jax.Array:
    here, there = order[i], order[partners[i]]
    return order.at[i].set(there).at[partners[i]].set(here)

  order = jax.lax.fori_loop(0, size - 1, swap, jnp.arange(size, dtype=np.int32))
  return jnp.take(value, order, axis=0)


def _checked_seed(seed: Array) -> Array:
  if seed.shape != (2,):
    raise InvalidInputError(f"stateless random op: seed has shape {seed.shape}; expected [2].")
  return seed


def _stack(words: tuple[Value, ...]) -> Value:
  if all(isinstance(w, (np.ndarray, np.generic)) for w in words):
    return np.stack(words)
  return jnp.stack([jnp.asarray(w) for w in words])
