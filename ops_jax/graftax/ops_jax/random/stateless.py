"""Stateless random ops: the same numbers as TensorFlow for the same seed."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes, Value
from graftax.ops_jax.int64_pairs import arithmetic, pairs
from graftax.ops_jax.random import philox, streams, threefry
from graftax.xla_call_module.lax_extras import philox_uint32

__all__ = [
  "AUTO_SELECT",
  "PHILOX",
  "THREEFRY",
  "algorithm",
  "stateless_random_get_alg",
  "stateless_random_get_key_counter",
  "stateless_random_get_key_counter_alg",
  "stateless_random_uniform_int",
  "stateless_random_uniform_int_v2",
  "stateless_shuffle",
]

PHILOX, THREEFRY, AUTO_SELECT = 1, 2, 3


def algorithm(key: Value, counter: Value, alg: int) -> tuple[Any, ModuleType]:
  """Returns the generator that `key` and `counter` describe, and the module with its distributions.

  Args:
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for TensorFlow's choice, which is Philox on CPU.

  Raises:
    InvalidInputError: `alg` is none of these.
  """
  if alg in (PHILOX, AUTO_SELECT):
    return philox.from_key_counter(key, counter), streams
  if alg == THREEFRY:
    return threefry.from_key_counter(key, counter), threefry
  raise InvalidInputError(f"random op: algorithm {alg!r} is unknown; expected 1 (Philox), 2 (ThreeFry) or 3 (either).")


@register("StatelessRandomGetKeyCounter", ignores=("Tseed",), int64_pairs="accept")
def stateless_random_get_key_counter(seed: Array) -> tuple[Value, Value]:
  """Returns key and counter of the Philox generator that belongs to a seed.

  Source op: `tf.raw_ops.StatelessRandomGetKeyCounter`.

  Args:
    seed: `[2]`, int32 or int64. If `jax_enable_x64` is off, pass a seed that needs 64 bits through `jit` as
      `as_int64_pair(seed)`, because JAX truncates a plain array to 32 bits.

  Returns:
    Key `[1]` and counter `[2]`, uint64. Known if the seed is known; an `Int64Pair` if it is traced
    and `jax_enable_x64` is off.
  """
  generator = philox.from_seed(_checked_seed(seed))
  zero = np.uint32(0)
  key = pairs.join(arithmetic.stack(generator.key[:1]), arithmetic.stack(generator.key[1:]), np.uint64)
  counter = pairs.join(
    arithmetic.stack((zero, generator.counter[2])), arithmetic.stack((zero, generator.counter[3])), np.uint64
  )
  return key, counter


@register("StatelessRandomGetKeyCounterAlg", ignores=("Tseed",), int64_pairs="accept")
def stateless_random_get_key_counter_alg(seed: Array) -> tuple[Value, Value, Value]:
  """Returns key, counter and algorithm that TensorFlow uses for a seed on CPU.

  Source op: `tf.raw_ops.StatelessRandomGetKeyCounterAlg`.

  Args:
    seed: `[2]`, int32 or int64. If `jax_enable_x64` is off, pass a seed that needs 64 bits through `jit` as
      `as_int64_pair(seed)`, because JAX truncates a plain array to 32 bits.

  Returns:
    Key `[1]` and counter `[2]`, uint64; algorithm 1 (Philox), int32.
  """
  return *stateless_random_get_key_counter(seed), np.array(PHILOX, np.int32)


@register("StatelessRandomGetAlg")
def stateless_random_get_alg() -> Value:
  """Returns the algorithm that TensorFlow uses on CPU: 1 (Philox), int32.

  Source op: `tf.raw_ops.StatelessRandomGetAlg`.
  """
  return np.array(PHILOX, np.int32)


# Function of `streams` that draws -> the op with a seed, the op with a key, and the beginning of their docstrings.
_DRAWS = {
  "uniform": (
    "StatelessRandomUniform",
    "StatelessRandomUniformV2",
    "Returns numbers in [0, 1) of float16, bfloat16, float32 or float64 that equal TensorFlow's bit for bit.",
  ),
  "normal": (
    "StatelessRandomNormal",
    "StatelessRandomNormalV2",
    """Returns standard normal numbers of float16, bfloat16, float32 or float64.

    Differs from TF: logarithm, sine and cosine may differ in the last bit. Of 10001 numbers on CPU, all are equal in
      float16, bfloat16 and float64; in float32 94 percent are equal, and the others differ by at most 8e-7. In float16
      ThreeFry draws in float32 and rounds; XLA does not.""",
  ),
  "truncated_normal": (
    "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2",
    """Returns standard normal numbers of magnitude below 2, of float16, bfloat16, float32 or float64.

    Differs from TF: in the last bits, as normal numbers do.""",
  ),
  "full_integers": (
    "StatelessRandomUniformFullInt",
    "StatelessRandomUniformFullIntV2",
    """Returns integers over the whole range of int32, uint32, int64 or uint64 that equal TensorFlow's.

    64-bit integers are an `Int64Pair` if `jax_enable_x64` is off.""",
  ),
}

_FROM_SEED = (
  "\n\n  Args:\n    shape: of the result.\n    seed: `[2]`, any integer dtype.\n    dtype: of the result.\n\n"
  "  If `jax_enable_x64` is off, pass a seed that needs 64 bits through `jit` as `as_int64_pair(seed)`. JAX truncates\n"
  "  a plain array to 32 bits before it arrives here, and the numbers are then those of another seed."
)
_FROM_KEY = (
  "\n\n  Args:\n    shape: of the result.\n    key: `[1]` uint64.\n"
  "    counter: `[2]` uint64; `[1]` suffices for ThreeFry.\n"
  "    alg: 1 or 3 for Philox, 2 for ThreeFry.\n    dtype: of the result."
)


def _register_draw(draw: str, seed_op: str, key_op: str, doc: str) -> None:
  def from_seed(shape: StaticSizes, seed: Array, *, dtype: np.dtype) -> Value:
    return getattr(streams, draw)(philox.from_seed(_checked_seed(seed)), shape, dtype)

  def from_key(shape: StaticSizes, key: Array, counter: Array, alg: Static[int], *, dtype: np.dtype) -> Value:
    generator, draws = algorithm(key, counter, alg)
    return getattr(draws, draw)(generator, shape, dtype)

  from_seed.__doc__, from_key.__doc__ = doc + _FROM_SEED, doc + _FROM_KEY
  register(seed_op, ignores=("T", "Tseed"), int64_pairs="accept")(from_seed)
  register(key_op, ignores=("Tshape",), int64_pairs="accept")(from_key)


for _draw, _row in _DRAWS.items():
  _register_draw(_draw, *_row)


@register("StatelessRandomUniformInt", ignores=("T", "Tseed"), int64_pairs="accept")
def stateless_random_uniform_int(
  shape: StaticSizes, seed: Array, minval: Array, maxval: Array, *, dtype: np.dtype
) -> Value:
  """Returns integers in [minval, maxval), exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformInt`.

  Args:
    shape: of the result.
    seed: `[2]`, any integer dtype. If `jax_enable_x64` is off, pass a seed that needs 64 bits through `jit` as
      `as_int64_pair(seed)`, because JAX truncates a plain array to 32 bits.
    minval: scalar of `dtype`, the lower bound.
    maxval: scalar of `dtype`, the upper bound (exclusive).
    dtype: int32, uint32, int64 or uint64.

  Returns:
    `shape`, of `dtype`. 64-bit integers are an `Int64Pair` if `jax_enable_x64` is off and the bounds need more than 32
    bits.
  """
  return streams.integers(philox.from_seed(_checked_seed(seed)), shape, minval, maxval, dtype)


@register("StatelessRandomUniformIntV2", ignores=("Tshape",), int64_pairs="accept")
def stateless_random_uniform_int_v2(
  shape: StaticSizes,
  key: Array,
  counter: Array,
  alg: Static[int],
  minval: Array,
  maxval: Array,
  *,
  dtype: np.dtype,
) -> Value:
  """Returns integers in [minval, maxval), exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomUniformIntV2`.

  Args:
    shape: of the result.
    key: `[1]`, uint64.
    counter: `[2]` (ThreeFry: `[1]` will do), uint64.
    alg: 1 for Philox, 2 for ThreeFry, 3 for Philox.
    minval: scalar of `dtype`, the lower bound.
    maxval: scalar of `dtype`, the upper bound (exclusive).
    dtype: int32, uint32, int64 or uint64.

  Returns:
    `shape`, of `dtype`. 64-bit integers are an `Int64Pair` if `jax_enable_x64` is off and the bounds need more than 32
    bits.
  """
  generator, draws = algorithm(key, counter, alg)
  return draws.integers(generator, shape, minval, maxval, dtype)


@register("StatelessShuffle", ignores=("T",), int64_pairs="accept")
def stateless_shuffle(value: Array, key: Array, counter: Array, alg: Static[int]) -> Array:
  """Returns the rows of a tensor in random order, exactly the order of TensorFlow.

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
  if value.ndim == 0 or value.shape[0] in (0, 1):
    return value
  size = value.shape[0]
  random = philox_uint32(philox.from_key_counter(key, counter), size)
  index = jnp.arange(size, dtype=np.uint32)
  partners = (index + random % (size - index)).astype(np.int32)

  def swap(i: jax.Array, order: jax.Array) -> jax.Array:
    here, there = order[i], order[partners[i]]
    return order.at[i].set(there).at[partners[i]].set(here)

  order = jax.lax.fori_loop(0, size - 1, swap, jnp.arange(size, dtype=np.int32))
  if isinstance(value, pairs.Int64Pair):
    return pairs.map_halves(lambda half: jnp.take(half, order, axis=0), [value], value.dtype)
  return jnp.take(jnp.asarray(value), order, axis=0)


def _checked_seed(seed: Array) -> Array:
  if seed.shape != (2,):
    raise InvalidInputError(f"stateless random op: seed has shape {seed.shape}; expected [2].")
  return seed
