"""The value: an array whose sizes depend on data, as a padded array with its lengths."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import SizeBoundError

__all__ = ["INVALID_LENGTH", "BoundedArray", "is_bounded"]

# The length of an array whose shape TensorFlow would refuse. It exceeds every bound, so it counts as an overflow.
INVALID_LENGTH = np.int32(np.iinfo(np.int32).max)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundedArray:
  """An array whose sizes depend on data: padded to known bounds, with its sizes along some axes.

  A function under `jax.jit` returns it where TensorFlow returns an array of a size that depends on data. Outside of
  `jit` results are ordinary arrays. It is a pytree, so it passes through `jit`, `vmap` and `jax.device_get`.

  Attributes:
    padded: the array. Elements beyond a length have no meaning.
    lengths: for each axis of `padded` a scalar int32, the number of valid elements along it, or None if all are valid.
      A length greater than the axis of `padded` says that the data did not fit into the bound (see `overflowed`).
    may_overflow: whether a length can be greater than its axis. It cannot if the bounds follow from shapes.

  Example:
    >>> found = BoundedArray(jnp.array([7, 5, 0, 0]), (jnp.int32(2),))
    >>> found.length, found.cut()
    (Array(2, dtype=int32), Array([7, 5], dtype=int32))
  """

  padded: jax.Array
  lengths: tuple[jax.Array | None, ...]
  may_overflow: bool = False

  @property
  def dtype(self) -> Any:
    """The dtype of the elements."""
    return self.padded.dtype

  @property
  def length(self) -> jax.Array:
    """The length along the only axis whose size depends on data.

    Raises:
      ValueError: several sizes depend on data; use `lengths`.
    """
    found = [length for length in self.lengths if length is not None]
    if len(found) != 1:
      raise ValueError(f"{len(found)} sizes of this array depend on data; read `lengths`.")
    return found[0]

  @property
  def overflowed(self) -> jax.Array:
    """Whether the data did not fit into a bound: bool, a scalar unless batched by `vmap`."""
    sizes = self.padded.shape[self.padded.ndim - len(self.lengths) :]
    exceeded = [n > size for n, size in zip(self.lengths, sizes, strict=True) if n is not None]
    return jnp.any(jnp.stack(exceeded), axis=0) if exceeded else jnp.asarray(False)

  def cut(self) -> jax.Array:
    """Returns the array without padding, outside of transformations.

    Raises:
      SizeBoundError: the data did not fit into a bound.
      ValueError: the array is batched by `vmap`, and its rows have sizes of their own.
    """
    if any(np.ndim(n) for n in self.lengths if n is not None):
      raise ValueError(
        "This BoundedArray is batched by vmap, so its sizes differ from row to row; cut one of them, "
        "jax.tree.map(lambda leaf: leaf[i], result).cut()."
      )
    sizes = [None if n is None else int(n) for n in self.lengths]
    for axis, (size, bound) in enumerate(zip(sizes, self.padded.shape, strict=True)):
      if size is not None and size > bound:
        raise SizeBoundError(_why_not(axis, size, bound))
    return self.padded[tuple(slice(size) for size in sizes)]

  def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self)):
      raise TypeError("The sizes of a BoundedArray are traced; use its attributes `padded` and `lengths`.")
    return np.asarray(self.cut(), dtype)


jax.tree_util.register_dataclass(BoundedArray, data_fields=["padded", "lengths"], meta_fields=["may_overflow"])


def _why_not(axis: int, size: int, bound: int) -> str:
  if size == INVALID_LENGTH:
    return (
      f"Dimension {axis} of a result has no valid size: the data exceeded a bound from max_sizes before, or had sizes "
      f"for which TensorFlow raises an error. Set enable_checkify_for_asserts=True to find the op."
    )
  return f"Dimension {axis} of a result has size {size}, but its bound is {bound}. Pass a larger one in max_sizes."


def is_bounded(value: Any) -> bool:
  """Returns whether a value is a `BoundedArray`."""
  return isinstance(value, BoundedArray)
