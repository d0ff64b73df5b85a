"""Elements of tensor lists that differ in shape, and ragged tensors as variants: padded arrays with their sizes.

A list has one buffer, so elements of different shapes are padded to the largest one. Sizes that are known while tracing
are NumPy arrays, so that what is read from the list has a known shape. All other sizes are traced; an op that reads
such an element makes a `BoundedArray` of it (see `bounded/tensor_list.py` and `bounded/ragged_variant.py`).
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.known import KNOWN_SIZE_LIMIT
from graftax.ops_jax._core.values import Array, Value, is_known

__all__ = ["PaddedElement", "RaggedValue", "as_leaf", "is_concrete", "leaf_at", "updated_leaf", "zeros"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PaddedElement:
  """An array, padded at the end of its axes. In the buffer of a list it has one more axis in front, as its sizes have.

  Attributes:
    padded: the array; what is beyond its sizes has no meaning. In a structure its shape and dtype.
    lengths: for each axis the int32 number of elements that it has, or None if that is the size of `padded`.
  """

  padded: Array
  lengths: tuple[Array | None, ...]

  @property
  def dtype(self) -> np.dtype[Any]:
    """The dtype of the elements."""
    return self.padded.dtype

  @property
  def sizes(self) -> tuple[int | None, ...]:
    """The sizes of the array, without an axis in front; None where they differ from element to element."""
    rank = len(self.lengths)
    padded = self.padded.shape[self.padded.ndim - rank :]
    return tuple(size if n is None else None for size, n in zip(padded, self.lengths, strict=True))

  def length(self, axis: int) -> Array:
    """Returns the number of elements along one axis, int32; a vector if there is an axis in front."""
    length = self.lengths[axis]
    if length is not None:
      return length
    num_front = self.padded.ndim - len(self.lengths)
    return np.full(self.padded.shape[:num_front], self.padded.shape[num_front + axis], np.int32)

  def cut(self) -> Array:
    """Returns the array without padding; its sizes must not be traced."""
    return self.padded[tuple(slice(None if n is None else int(n)) for n in self.lengths)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RaggedValue:
  """A ragged tensor in a variant, or a vector of such variants, whose arrays have one more axis in front.

  Attributes:
    splits: the row splits of each ragged dimension, outermost first; none if the tensor is dense.
    values: the values.
  """

  splits: tuple[PaddedElement, ...]
  values: PaddedElement

  @property
  def shape(self) -> tuple[int, ...]:
    """The shape of the variant: `()` or `[n]`."""
    return self.values.padded.shape[: self.values.padded.ndim - len(self.values.lengths)]


def is_concrete(value: Value) -> bool:
  """Returns whether no array of a value is traced."""
  return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def as_leaf(value: Array, dtype: np.dtype) -> Array:
  """Returns an array for the buffer of a list; strings, and few integers that are known, stay known."""
  if dtype.kind == "O":
    return np.asarray(value, dtype)
  if not _is_few_integers(value.shape, dtype) or not is_known(value):
    return jnp.asarray(value, dtype)
  leaf = np.asarray(value, dtype)
  return leaf if np.array_equal(leaf, value) else jnp.asarray(value, dtype)


def _is_few_integers(shape: tuple[int, ...], dtype: np.dtype) -> bool:
  """Returns whether arrays of a shape and dtype are of the kind that counters and shapes are."""
  are_sizes = all(isinstance(size, int) for size in shape)
  return np.dtype(dtype).kind in "iub" and are_sizes and math.prod(shape) <= KNOWN_SIZE_LIMIT


def leaf_at(leaf: Array, index: Array | int) -> Array:
  """Returns the entry of an array at an index of its first axis, or the nearest one; known if both are."""
  if isinstance(leaf, np.ndarray) and is_concrete(index) and len(leaf):
    return np.asarray(leaf[min(max(int(index), 0), len(leaf) - 1)], leaf.dtype)
  _refuse_strings(leaf)
  return jax.lax.dynamic_index_in_dim(jnp.asarray(leaf), index, keepdims=False)


def updated_leaf(leaf: Array, new: Array, index: Array | int) -> Array:
  """Returns an array with `new` at an index of its first axis; a NumPy array if nothing is traced."""
  if isinstance(leaf, np.ndarray) and isinstance(new, (np.ndarray, np.generic)) and is_concrete(index):
    copy = leaf.copy()
    copy[int(index), ...] = new  # without the dots an array of strings would hold an array
    return copy
  _refuse_strings(leaf)
  return jax.lax.dynamic_update_index_in_dim(jnp.asarray(leaf), new, index, 0)


def zeros(shape: tuple[Any, ...], dtype: np.dtype) -> Array:
  """Returns zeros for the buffer of a list, or empty strings; known if they are strings or few integers."""
  if dtype.kind == "O":
    return np.full(shape, b"", dtype)
  return (np if _is_few_integers(shape, dtype) else jnp).zeros(shape, dtype)


def _refuse_strings(leaf: Array) -> None:
  if leaf.dtype.kind == "O":
    raise StaticInputError("a list of strings is read or written at an index that depends on traced data.")
