"""Random numbers from an explicit generator: the ops behind `tf.random.Generator`.

The generator's state is a variable of three int64: a 128-bit counter and a key. Every op moves the counter by 256 for
each number, as TensorFlow does. If `jax_enable_x64` is off, a traced state is an `Int64Pair`. A state that is an int32
array raises, because JAX has dropped its upper bits.
"""

import math

import jax
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.known import FLOAT32, INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes, Value
from graftax.ops_jax.int64_pairs import arithmetic, pairs
from graftax.ops_jax.random import philox, streams
from graftax.xla_call_module.lax_extras import Philox, philox_skip

__all__ = [
  "non_deterministic_ints",
  "rng_read_and_skip",
  "rng_skip",
  "stateful_uniform_int",
  "take_generator",
]

_UINT64 = np.dtype(np.uint64)
_PHILOX_ALGORITHMS = (1, 3)
_BLOCKS_PER_NUMBER = 256


# Op -> the function of `streams` that draws, the default of `dtype`, and the first sentence of its docstring.
_DRAWS: dict[str, tuple[str, np.dtype, str]] = {
  "StatefulUniform": ("uniform", FLOAT32, "Returns numbers in [0, 1) that equal TensorFlow's bit for bit"),
  "StatefulStandardNormalV2": (
    "normal",
    FLOAT32,
    "Returns standard normal numbers that equal TensorFlow's except for the last bits",
  ),
  "StatefulTruncatedNormal": (
    "truncated_normal",
    FLOAT32,
    "Returns standard normal numbers of magnitude below 2 that equal TensorFlow's except for the last bits",
  ),
  "StatefulUniformFullInt": (
    "full_integers",
    _UINT64,
    "Returns integers over the whole range of int32, uint32, int64 or uint64 that equal TensorFlow's",
  ),
}

_FROM_STATE = """, and advances the generator.

  Args:
    ctx: the program.
    resource: the generator's state.
    algorithm: 1 or 3; both mean Philox.
    shape: of the result.
    dtype: of the result.
  """


def _register_draw(op: str, draw: str, default: np.dtype, doc: str) -> None:
  def from_state(
    ctx: Context,
    resource: Value,
    algorithm: Static[int],
    shape: StaticSizes,
    *,
    dtype: np.dtype = default,
  ) -> Value:
    return getattr(streams, draw)(take_generator(ctx, resource, algorithm, math.prod(shape)), shape, dtype)

  from_state.__doc__ = doc + _FROM_STATE
  register(op, ignores=("shape_dtype",), int64_pairs="accept")(from_state)


for _op, _row in _DRAWS.items():
  _register_draw(_op, *_row)


@register("StatefulUniformInt", ignores=("shape_dtype",), int64_pairs="accept")
def stateful_uniform_int(
  ctx: Context,
  resource: Value,
  algorithm: Static[int],
  shape: StaticSizes,
  minval: Array,
  maxval: Array,
  *,
  dtype: np.dtype = INT64,
) -> Array:
  """Returns integers in [minval, maxval), exactly those of TensorFlow; advances the generator.

  Source op: `tf.raw_ops.StatefulUniformInt`.

  Args:
    ctx: the program.
    resource: the generator's state.
    algorithm: 1 (Philox), or 3 for the same.
    shape: of the result.
    minval: scalar of `dtype`.
    maxval: scalar of `dtype`, more than `minval`.
    dtype: int32, int64, uint32 or uint64.

  Returns:
    `shape` of `dtype`.
  """
  return streams.integers(take_generator(ctx, resource, algorithm, math.prod(shape)), shape, minval, maxval, dtype)


@register("RngSkip", int64_pairs="accept")
def rng_skip(ctx: Context, resource: Value, algorithm: Static[int], delta: Array) -> tuple[()]:
  """Advances the generator as drawing `delta` numbers would.

  Source op: `tf.raw_ops.RngSkip`.

  Args:
    ctx: the program.
    resource: the generator's state.
    algorithm: 1 (Philox), or 3 for the same.
    delta: scalar int64.
  """
  _advance(ctx, resource, algorithm, delta)
  return ()


@register("RngReadAndSkip", int64_pairs="accept")
def rng_read_and_skip(ctx: Context, resource: Value, alg: Static[int], delta: Array) -> Value:
  """Returns the generator's state; advances the generator as drawing `delta` numbers would.

  Source op: `tf.raw_ops.RngReadAndSkip`.

  Args:
    ctx: the program.
    resource: the generator's state.
    alg: 1 (Philox), or 3 for the same.
    delta: scalar uint64.

  Returns:
    `[3]` int64, the state before; an `Int64Pair` if it is traced and `jax_enable_x64` is off.
  """
  low, high = _advance(ctx, resource, alg, delta)
  return pairs.join(low, high, np.int64)


@register("NonDeterministicInts", ignores=("shape_dtype",))
def non_deterministic_ints(ctx: Context, shape: StaticSizes, *, dtype: np.dtype = INT64) -> Array:
  """Returns integers over the whole range of a dtype, from the caller's `rng`.

  Source op: `tf.raw_ops.NonDeterministicInts`.

  Args:
    ctx: the program.
    shape: of the result.
    dtype: int32, int64, uint32 or uint64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: the numbers are a function of the caller's key, where TensorFlow asks the operating system.
  """
  dtype = canonical_dtype(dtype)
  bits = jax.random.bits(ctx.rng(), shape, np.uint64 if dtype.itemsize == 8 else np.uint32)
  return jax.lax.bitcast_convert_type(bits, dtype)


def take_generator(ctx: Context, resource: Value, algorithm: int, num_numbers: int) -> Philox:
  """Returns the generator to draw from, and advances the state by `num_numbers`.

  Args:
    ctx: the program.
    resource: the generator's state.
    algorithm: 1 (Philox), or 3 for the same.
    num_numbers: the number of random numbers to advance by.

  Raises:
    UnsupportedAttrError: another algorithm.
    InvalidInputError: the state has another shape, or JAX has truncated it to 32 bits.
  """
  low, high = _advance(ctx, resource, algorithm, np.array(num_numbers, np.uint64))
  return Philox((low[2], high[2]), (low[0], high[0], low[1], high[1]))


def _advance(ctx: Context, resource: Value, algorithm: int, delta: Value) -> tuple[Value, Value]:
  """Advances the state by `delta` numbers and returns the low and high halves of the old state."""
  if algorithm not in _PHILOX_ALGORITHMS:
    raise UnsupportedAttrError(
      f"random generator op {ctx.node_name!r} (function {ctx.function_name!r}): algorithm {algorithm!r}; only "
      f"1 (Philox) and 3 have a state that TensorFlow keeps on CPU."
    )
  state = ctx.read(resource)
  if tuple(state.shape) != (3,):
    raise InvalidInputError(
      f"random generator op {ctx.node_name!r} (function {ctx.function_name!r}): the state has shape {state.shape}; "
      f"expected [3]."
    )
  low, high = philox.split_checked(state, "generator's state")
  delta_low, delta_high = pairs.split(delta)
  shift = _BLOCKS_PER_NUMBER.bit_length() - 1
  blocks = delta_low << np.uint32(shift), delta_high << np.uint32(shift) | delta_low >> np.uint32(32 - shift)
  generator = Philox((low[2], high[2]), (low[0], high[0], low[1], high[1]))
  moved = philox_skip(generator, blocks)
  new_low = arithmetic.stack((moved.counter[0], moved.counter[2], low[2]))
  new_high = arithmetic.stack((moved.counter[1], moved.counter[3], high[2]))
  ctx.write(resource, pairs.join(new_low, new_high, np.int64))
  return low, high
