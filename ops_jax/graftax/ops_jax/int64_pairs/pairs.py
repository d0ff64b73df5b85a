"""64-bit integers where JAX has none: pairs of 32-bit words, so that random states and keys stay exact.

With 64-bit types off JAX truncates every int64 to int32. Keys and counters of TensorFlow's random generators need all
64 bits, so a traced one travels along graph edges as `WideInts`. Known values stay numpy arrays, and with 64-bit types
on a traced value is an ordinary JAX array; `split` reads all three. A traced array of 32 bits where the graph has 64
holds the number itself, or what JAX left of it before we saw it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.int64_pairs import arithmetic as words

__all__ = ["WideInts", "as_wide", "exact", "fits", "join", "map_words", "ordinary", "split", "widened"]

_LOW_WORD = np.uint64(0xFFFFFFFF)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WideInts:
  """An array of 64-bit integers as two arrays of words.

  It is a JAX pytree, so `jit` and `vmap` take it as it is, and `np.asarray` makes the numpy array of it.

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

  @property
  def size(self) -> int:
    """Number of 64-bit integers."""
    return self.low.size

  def truncated(self) -> jax.Array:
    """The low words, which is what JAX makes of a 64-bit integer when 64-bit types are off."""
    return self.low if self.dtype == np.uint64 else jax.lax.bitcast_convert_type(self.low, np.int32)

  def reshape(self, shape: tuple[int, ...]) -> "WideInts":
    """The same integers in another shape."""
    return WideInts(self.low.reshape(shape), self.high.reshape(shape), self.dtype)

  def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    value = np.asarray(join(np.asarray(self.low), np.asarray(self.high), self.dtype))
    return value if dtype is None else value.astype(dtype)


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


def widened(value: Value, dtype: Any) -> WideInts:
  """A value of any form as `WideInts` of `dtype`, int64 or uint64."""
  low, high = split(value)
  return WideInts(jnp.asarray(low), jnp.asarray(high), np.dtype(dtype))


def exact(value: Any) -> Value:
  """A numpy array as a JAX value that holds the same numbers: `WideInts` if 32 bits are not enough for them."""
  return jnp.asarray(value) if fits(value) else as_wide(value)


def fits(value: Value) -> bool:
  """Whether the value is whole as an ordinary JAX array, with 64-bit types on or off as they are now."""
  if isinstance(value, WideInts):
    return False
  if jax.config.jax_enable_x64 or not is_known(value) or value.dtype not in (np.int64, np.uint64) or not value.size:
    return True
  limits = np.iinfo(canonical_dtype(value.dtype))
  return bool(value.min() >= limits.min and value.max() <= limits.max)


def ordinary(value: Value) -> Value:
  """`WideInts` as the JAX array that 64-bit types, which must be on, allow; anything else as it is."""
  return join(value.low, value.high, value.dtype) if isinstance(value, WideInts) else value


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
  return words.from_int(value)


def join(low: Value, high: Value, dtype: Any) -> Value:
  """64-bit integers from their words: numpy when known, a JAX array with 64-bit types on, else `WideInts`."""
  dtype = np.dtype(dtype)
  if is_known(low) and is_known(high):
    return (np.asarray(low, np.uint64) | np.asarray(high, np.uint64) << np.uint64(32)).astype(dtype)
  if jax.config.jax_enable_x64:
    return (jnp.asarray(low, np.uint64) | jnp.asarray(high, np.uint64) << 32).astype(dtype)
  low, high = jnp.broadcast_arrays(low, high)
  return WideInts(low, high, dtype)


def map_words(function: Callable[..., Any], values: Sequence[Value], dtype: Any) -> Any:
  """What a function that only moves elements makes of 64-bit integers: it runs on their low and on their high words.

  Args:
    function: from as many arrays of words as there are values to an array, or a nest of arrays.
    values: integers in any form.
    dtype: int64 or uint64, of the result.
  """
  lows, highs = zip(*map(split, values), strict=True)

  def joined(low: Value, high: Value) -> WideInts:
    # A lowering may have given them the type that the node has.
    return WideInts(jnp.asarray(low).astype(np.uint32), jnp.asarray(high).astype(np.uint32), np.dtype(dtype))

  return jax.tree.map(joined, function(*lows), function(*highs))
