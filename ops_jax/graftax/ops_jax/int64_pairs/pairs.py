"""`Int64Pair`, an array of 64-bit integers as two uint32 arrays, and conversions from and to it.

A 64-bit integer reaches a lowering in one of four forms, and `split` accepts all of them:

- a numpy array, if the value is known while tracing;
- an `Int64Pair`, if it is traced and `jax_enable_x64` is off;
- a 64-bit JAX array, if it is traced and `jax_enable_x64` is on;
- a 32-bit JAX array, if it is traced, `jax_enable_x64` is off, and the program does not need the upper 32 bits, or JAX
  dropped them before graftax was called.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.int64_pairs import arithmetic
from graftax.ops_jax.int64_pairs.arithmetic import Halves
from graftax.xla_call_module.lax_extras import Int64Pair

__all__ = [
  "NOT_EXACT",
  "Int64Pair",
  "as_int64_pair",
  "fits_jax_dtype",
  "from_halves",
  "join",
  "map_halves",
  "split",
  "to_jax_array",
  "to_jax_exactly",
  "traced_halves",
]

_LOW_HALF = np.uint64(0xFFFFFFFF)

# The end of messages that refuse to cut integers.
NOT_EXACT = (
  "an input holds 64-bit integers beyond 32 bits, and JAX's 64-bit types are off, so the result would not be exact. "
  "Enable them: jax.config.update('jax_enable_x64', True), or set the environment variable JAX_ENABLE_X64=1."
)


def as_int64_pair(value: Any, dtype: Any = None) -> Int64Pair:
  """Converts 64-bit integers to an `Int64Pair`, for example to pass the state of a `tf.random.Generator` through `jit`.

  Args:
    value: integers in any of the forms that `split` accepts. Without `dtype`: anything that `np.asarray` converts to a
      concrete array.
    dtype: int64 or uint64; by default that of the numpy array.

  Example:
    >>> as_int64_pair(np.array([2**40 + 7])).high
    Array([256], dtype=uint32)
  """
  if dtype is None:
    value = np.asarray(value)
    dtype = value.dtype
  low, high = split(value)
  return Int64Pair(jnp.asarray(low), jnp.asarray(high), np.dtype(dtype))


def to_jax_exactly(value: Any) -> Value:
  """Converts a numpy array to a JAX array, or to an `Int64Pair` if JAX would truncate its values.

  Example:
    >>> type(to_jax_exactly(np.int64([1, 2]))).__name__, type(to_jax_exactly(np.int64([2**40]))).__name__
    ('ArrayImpl', 'Int64Pair')
  """
  return jnp.asarray(value) if fits_jax_dtype(value) else as_int64_pair(value)


def fits_jax_dtype(value: Value) -> bool:
  """Returns whether an ordinary JAX array holds `value` exactly, with `jax_enable_x64` as it is now.

  Example:
    >>> fits_jax_dtype(np.int64([1, 2])), fits_jax_dtype(np.int64([2**40]))
    (True, False)
  """
  if isinstance(value, Int64Pair):
    return False
  if jax.config.jax_enable_x64 or not is_known(value) or value.dtype not in (np.int64, np.uint64) or not value.size:
    return True
  limits = np.iinfo(canonical_dtype(value.dtype))
  return bool(value.min() >= limits.min and value.max() <= limits.max)


def to_jax_array(value: Value) -> Value:
  """Converts an `Int64Pair` to a 64-bit JAX array, with `jax_enable_x64` on; returns any other value unchanged."""
  return join(value.low, value.high, value.dtype) if isinstance(value, Int64Pair) else value


def split(value: Value) -> Halves:
  """Splits integers into their `(low, high)` halves, both uint32; numpy arrays if the value is known.

  Signed integers of at most 32 bits are sign-extended, as TensorFlow does when it converts a seed to uint64.
  """
  if isinstance(value, Int64Pair):
    return value.low, value.high
  if is_known(value):
    unsigned = np.asarray(value).astype(np.uint64)
    return (unsigned & _LOW_HALF).astype(np.uint32), (unsigned >> np.uint64(32)).astype(np.uint32)
  value = jnp.asarray(value)
  if value.dtype.itemsize == 8:
    unsigned = value.astype(np.uint64)
    return unsigned.astype(np.uint32), (unsigned >> 32).astype(np.uint32)
  return arithmetic.from_int(value)


def traced_halves(value: Value) -> Halves:
  """Splits integers into their `(low, high)` halves, both JAX arrays."""
  low, high = split(value)
  return jnp.asarray(low), jnp.asarray(high)


def from_halves(halves: Halves, dtype: np.dtype) -> Int64Pair:
  """Returns the `Int64Pair` of two uint32 arrays of broadcastable shapes, known or traced."""
  low, high = jnp.broadcast_arrays(*halves)
  return Int64Pair(low, high, dtype)


def join(low: Value, high: Value, dtype: Any) -> Value:
  """Joins two uint32 halves into integers of `dtype`, int64 or uint64.

  Returns:
    A numpy array if both halves are known, a JAX array if `jax_enable_x64` is on, and an `Int64Pair` otherwise.
  """
  dtype = np.dtype(dtype)
  if is_known(low) and is_known(high):
    return (np.asarray(low, np.uint64) | np.asarray(high, np.uint64) << np.uint64(32)).astype(dtype)
  if jax.config.jax_enable_x64:
    return (jnp.asarray(low, np.uint64) | jnp.asarray(high, np.uint64) << 32).astype(dtype)
  low, high = jnp.broadcast_arrays(low, high)
  return Int64Pair(low, high, dtype)


def map_halves(function: Callable[..., Any], values: Sequence[Value], dtype: Any) -> Any:
  """Applies a function that only rearranges elements to 64-bit integers: once to the low and once to the high halves.

  Args:
    function: maps one uint32 array per value to an array, or a nest of arrays.
    values: integers in any of the forms that `split` accepts.
    dtype: int64 or uint64, of the results.
  """
  lows, highs = zip(*map(split, values), strict=True)

  def joined(low: Value, high: Value) -> Int64Pair:
    # A lowering may have cast the halves to the dtype that its node declares.
    return Int64Pair(jnp.asarray(low).astype(np.uint32), jnp.asarray(high).astype(np.uint32), np.dtype(dtype))

  return jax.tree.map(joined, function(*lows), function(*highs))
