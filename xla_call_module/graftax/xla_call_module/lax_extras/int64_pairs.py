"""`Int64Pair`, an array of 64-bit integers as two arrays of 32-bit words, for use while `jax_enable_x64` is off."""

import contextlib
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module.errors import X64Error

__all__ = ["Int64Pair", "add_halves", "join_halves"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Int64Pair:
  """An array of 64-bit integers, stored as two arrays of uint32.

  It is a JAX pytree, so it can be passed through `jit`, `vmap`, `jax.export` and checkpoints. `np.asarray` converts it
  to a numpy array of 64-bit integers.

  Attributes:
    low: bits 0 to 31, uint32.
    high: bits 32 to 63, uint32.
    dtype: int64 or uint64.
  """

  low: jax.Array
  high: jax.Array
  dtype: np.dtype = dataclasses.field(default=np.dtype(np.uint64), metadata={"static": True})

  @classmethod
  def from_words(cls, words: jax.Array, dtype: np.dtype) -> "Int64Pair":
    """Returns the integers whose words, low ones first, lie along the last axis; this is what a bit cast returns.

    Args:
      words: uint32, `[..., 2]`: the low word and the high word of each integer.
      dtype: int64 or uint64, the type that the pair represents.
    """
    return cls(words[..., 0], words[..., 1], dtype)

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

  @property
  def words(self) -> jax.Array:
    """The words of each integer along a new last axis, low ones first; uint32."""
    return jnp.stack([self.low, self.high], axis=-1)

  def truncated(self) -> jax.Array:
    """Returns the low halves as int32 or uint32, which is how JAX truncates 64-bit integers."""
    return self.low if self.dtype == np.uint64 else jax.lax.bitcast_convert_type(self.low, np.int32)

  def reshape(self, shape: tuple[int, ...]) -> "Int64Pair":
    """Returns the same integers in another shape."""
    return Int64Pair(self.low.reshape(shape), self.high.reshape(shape), self.dtype)

  def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    low, high = np.asarray(self.low, np.uint64), np.asarray(self.high, np.uint64)
    # Operators give scalars for arrays of rank 0.
    return np.asarray((low | high << np.uint64(32)).astype(self.dtype), dtype)

  def __jax_array__(self) -> jax.Array:
    # Without this, `jnp.asarray` would convert by `__array__`, and cut the integers to 32 bits.
    if jax.config.jax_enable_x64:
      return join_halves(self.low, self.high).astype(self.dtype)
    raise X64Error(
      f"64-bit integers of shape {list(self.shape)} beyond 32 bits cannot become a JAX array, because JAX's 64-bit "
      "types are off. Enable them: jax.config.update('jax_enable_x64', True), or set the environment variable "
      "JAX_ENABLE_X64=1."
    )


with contextlib.suppress(ValueError):  # of a module that is imported a second time, for which JAX has the first class
  jax.export.register_pytree_node_serialization(
    Int64Pair,
    serialized_name="graftax.Int64Pair",
    serialize_auxdata=lambda aux: aux[0].name.encode(),
    deserialize_auxdata=lambda name: (np.dtype(name.decode()),),
  )


def add_halves(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any, Any]:
  """Returns the sum of two unsigned 64-bit integers, given as their lower and upper halves.

  Args:
    a: the lower and the upper half, uint32 arrays of NumPy or JAX.
    b: likewise, of a shape that broadcasts with that of `a`.

  Returns:
    The lower half, the upper half and what is carried, 0 or 1; uint32.
  """
  with np.errstate(over="ignore"):
    low = a[0] + b[0]
    carry = (low < a[0]).astype(np.uint32)
    partial = a[1] + b[1]
    high = partial + carry
    overflow = (partial < a[1]) | (high < partial)
  return low, high, overflow.astype(np.uint32)


def join_halves(low: jax.Array, high: jax.Array) -> jax.Array:
  """Returns unsigned 64-bit integers of their lower and upper halves, while JAX's 64-bit types are on.

  Args:
    low: the lower halves, uint32.
    high: the upper halves, of the same shape.

  Returns:
    uint64 of that shape.
  """
  return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
