"""64-bit integers where JAX has none: pairs of 32-bit words, so that random states and keys stay exact.

With 64-bit types off JAX truncates every int64 to int32. Keys and counters of TensorFlow's random generators need all
64 bits, so a traced one travels along graph edges as `WideInts`. Known values stay numpy arrays, and with 64-bit types
on a traced value is an ordinary JAX array; `split` reads all three.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import DType
from graftax.ops_jax.values import Value, is_known, namespace

__all__ = ["WideInts", "add", "as_wide", "join", "needs_words", "remainder", "run_by_words", "split"]

# Ops that move whole elements; on wide integers they run once for the low and once for the high words.
_MOVES_ELEMENTS = frozenset({
  "ConcatV2", "EnsureShape", "ExpandDims", "Gather", "GatherNd", "GatherV2", "Identity", "IdentityN", "Pack", "Reshape",
  "Slice", "Snapshot", "Split", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Tile", "Transpose", "Unpack",
})  # fmt: skip
# Ops that take wide integers as they are: random ops, calls, control flow and assignments.
_TAKES_WIDE = ("Stateless", "Stateful", "Rng", "PartitionedCall", "If", "While", "Case", "AssignVariableOp")
_LOW_WORD = np.uint64(0xFFFFFFFF)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class WideInts:
  """An array of 64-bit integers as two arrays of words.

  Attributes:
    low: bits 0 to 31, uint32.
    high: bits 32 to 63, uint32.
    dtype: int64 or uint64, as in the TensorFlow graph.
  """

  low: jax.Array
  high: jax.Array
  dtype: np.dtype = dataclasses.field(default=np.dtype(np.uint64), metadata={"static": True})

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the array of 64-bit integers."""
    return self.low.shape

  @property
  def ndim(self) -> int:
    """Rank of the array of 64-bit integers."""
    return len(self.shape)

  def truncated(self) -> jax.Array:
    """The low words, which is what JAX makes of a 64-bit integer when 64-bit types are off."""
    return self.low if self.dtype == np.uint64 else jax.lax.bitcast_convert_type(self.low, np.int32)


def as_wide(value: Any) -> WideInts:
  """A 64-bit numpy array as `WideInts`, for example the state of a `tf.random.Generator` that is passed through `jit`.

  Args:
    value: any shape, int64 or uint64.

  Example:
    >>> as_wide(np.array([2**40 + 7])).high
    Array([256], dtype=uint32)
  """
  low, high = split(np.asarray(value))
  return WideInts(jnp.asarray(low), jnp.asarray(high), np.asarray(value).dtype)


def split(value: Value) -> tuple[Value, Value]:
  """`(low, high)` words, both uint32, of integers of any width; numpy for known values.

  Narrower signed integers are sign-extended, as TensorFlow does when it turns a seed into an uint64.
  """
  if isinstance(value, WideInts):
    return value.low, value.high
  if is_known(value):
    wide = np.asarray(value).astype(np.uint64)
    return (wide & _LOW_WORD).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)
  value = jnp.asarray(value)
  if value.dtype.itemsize == 8:
    wide = value.astype(np.uint64)
    return wide.astype(np.uint32), (wide >> 32).astype(np.uint32)
  if jnp.issubdtype(value.dtype, jnp.signedinteger):
    value = value.astype(np.int32)
    return jax.lax.bitcast_convert_type(value, np.uint32), jax.lax.bitcast_convert_type(value >> 31, np.uint32)
  return value.astype(np.uint32), jnp.zeros(value.shape, np.uint32)


def join(low: Value, high: Value, dtype: Any) -> Value:
  """64-bit integers from their words: numpy when known, a JAX array with 64-bit types on, else `WideInts`."""
  dtype = np.dtype(dtype)
  if is_known(low) and is_known(high):
    return (np.asarray(low, np.uint64) | np.asarray(high, np.uint64) << np.uint64(32)).astype(dtype)
  if jax.config.jax_enable_x64:
    return (jnp.asarray(low, np.uint64) | jnp.asarray(high, np.uint64) << 32).astype(dtype)
  low, high = jnp.broadcast_arrays(low, high)
  return WideInts(low, high, dtype)


def add(a: tuple[Value, Value], b: tuple[Value, Value]) -> tuple[Value, Value, Value]:
  """`(low, high, carry)` of the sum of two unsigned 64-bit integers given by words."""
  with np.errstate(over="ignore"):
    low = a[0] + b[0]
    carry = (low < a[0]).astype(np.uint32)
    partial = a[1] + b[1]
    high = partial + carry
    overflow = (partial < a[1]) | (high < partial)
  return low, high, overflow.astype(np.uint32)


def remainder(value: tuple[Value, Value], divisor: tuple[Value, Value]) -> tuple[Value, Value]:
  """Words of `value % divisor` for unsigned 64-bit integers, by long division; `divisor` must not be 0."""
  if jax.config.jax_enable_x64 or all(map(is_known, (*value, *divisor))):
    xp = namespace(*value, *divisor)
    numerator, denominator = (xp.asarray(join(*words, np.uint64)) for words in (value, divisor))
    return split(numerator % denominator)
  low, high, divisor_low, divisor_high = jnp.broadcast_arrays(*value, *divisor)
  zeros = jnp.zeros_like(low)

  def shift_in_one_bit(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
    low, high, rest_low, rest_high = state
    overflow = rest_high >> 31
    rest_high = rest_high << 1 | rest_low >> 31
    rest_low = rest_low << 1 | high >> 31
    low, high = low << 1, high << 1 | low >> 31
    fits = (overflow == 1) | (rest_high > divisor_high) | ((rest_high == divisor_high) & (rest_low >= divisor_low))
    borrow = (rest_low < divisor_low).astype(np.uint32)
    return (
      low,
      high,
      jnp.where(fits, rest_low - divisor_low, rest_low),
      jnp.where(fits, rest_high - divisor_high - borrow, rest_high),
    )

  return jax.lax.fori_loop(0, 64, shift_in_one_bit, (low, high, zeros, zeros))[2:]


def needs_words(op: str, inputs: Sequence[Value]) -> bool:
  """Whether wide integers are among a node's flat inputs, and its op knows nothing of them."""
  return any(isinstance(value, WideInts) for value in inputs) and not op.startswith(_TAKES_WIDE)


def run_by_words(
  op: str, run: Callable[[Sequence[Value]], tuple[Value, ...]], inputs: Sequence[Value], bitcast_to: DType | None = None
) -> tuple[Value, ...]:
  """Outputs of an op that knows nothing of wide integers.

  Args:
    op: TensorFlow's op name. One that only moves elements keeps them wide; any other gets the low words, as JAX would.
    run: the op on ordinary flat inputs.
    inputs: flat inputs, some of them wide.
    bitcast_to: the result's dtype when `op` is Bitcast.
  """
  if op == "Bitcast" and bitcast_to in (DType.INT64, DType.UINT64):
    return (dataclasses.replace(inputs[0], dtype=bitcast_to.numpy),)
  if op not in _MOVES_ELEMENTS:
    return run([value.truncated() if isinstance(value, WideInts) else value for value in inputs])
  first = next(value for value in inputs if isinstance(value, WideInts))
  if op in ("ConcatV2", "Pack"):
    # Every element of the list becomes wide; the axis of ConcatV2 comes last.
    num_values = len(inputs) - (op == "ConcatV2")
    words = [split(value) for value in inputs[:num_values]]
    lows, highs = ([pair[i] for pair in words] + list(inputs[num_values:]) for i in (0, 1))
  else:
    lows = [value.low if isinstance(value, WideInts) else value for value in inputs]
    highs = [value.high if isinstance(value, WideInts) else value for value in inputs]
  return tuple(
    WideInts(low, high, first.dtype) if _is_word(low) else low for low, high in zip(run(lows), run(highs), strict=True)
  )


def _is_word(value: Value) -> bool:
  return getattr(value, "dtype", None) == np.uint32
