"""The value of a tensor list: a buffer and a length, so that it can be a loop variable.

A list whose element shape is not known yet has no buffer; the first element written gives it one. Outside loops the
length is a Python int or a symbolic dimension. Inside a loop that pushes or pops it is traced, and the buffer has room
for all that the loop will push (see `loop_lists.py`).

Elements that are not arrays, such as lists and optionals, are stored array by array: the buffer is then a list or an
optional whose arrays have the number of the element as their first axis.
"""

import dataclasses
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.variants.padded_value import as_leaf, leaf_at, updated_leaf, zeros

__all__ = [
  "VARIANT",
  "Size",
  "TensorList",
  "check_index",
  "declared_shape",
  "is_size",
  "larger",
  "valid_length",
]

VARIANT = np.dtype(np.void)
"""The element dtype of lists of lists and of optionals."""

# Any: JAX has no public name for the type of a symbolic dimension.
Size: TypeAlias = int | Any
"""A number of elements that is known while tracing: an int or a symbolic dimension."""


def is_size(value: Value) -> bool:
  """Returns whether a number of elements is known while tracing, possibly as a symbolic dimension."""
  return isinstance(value, int) or jax.export.is_symbolic_dim(value)


def larger(first: Size, second: Size) -> Size:
  """Returns the larger of two sizes."""
  return first if first is second or first == second else jax.core.max_dim(first, second)


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TensorList:
  """A list of tensors of one shape and dtype, or of lists or optionals of one structure.

  Attributes:
    buffer: `[capacity, *element]`, or a structure of such arrays; entries from `length` on have no meaning. None until
      the element shape is known.
    length: number of elements: an int, a symbolic dimension, or a traced int32 scalar.
    capacity: how many elements the buffer has room for.
    element_dtype: dtype of the elements; `VARIANT` for lists and optionals.
    element_shape: the declared shape; None entries, or None as a whole, if it was left open.
    max_length: the most elements it may ever hold, or None.
    has_room: whether the buffer has room for all that the loop around will push, while the length is traced; None while
      that is being found out.
    is_written_beyond: whether it was written at a traced index, where it may grow; not kept through control flow.
    peak: the largest static length seen since the value was made, for sizing buffers of loops.
  """

  # Any: an array, or a pytree of arrays.
  buffer: Any
  length: Size | Array
  capacity: Size
  element_dtype: np.dtype[Any]
  element_shape: tuple[int | None, ...] | None = None
  max_length: int | None = None
  has_room: bool | None = False
  is_written_beyond: bool = False
  peak: Size = 0

  @classmethod
  def of(cls, buffer: Array, element_shape: tuple[int | None, ...] | None = None) -> "TensorList":
    """Returns the list of slices of `[n, ...]` along its first axis."""
    # Known values may have 64 bits although JAX's arrays have 32. A buffer has the dtype of the values written to it.
    buffer = buffer if buffer.dtype.kind == "O" else as_leaf(buffer, canonical_dtype(buffer.dtype))
    length = buffer.shape[0]
    shape = tuple(buffer.shape[1:]) if element_shape is None else element_shape
    return cls(buffer, length, length, np.dtype(buffer.dtype), shape, peak=length)

  def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    static_length = self.length if is_size(self.length) else None
    traced_length = None if is_size(self.length) else self.length
    aux = (static_length, self.capacity, self.element_dtype, self.element_shape, self.max_length, self.has_room)
    return (self.buffer, traced_length), aux

  @classmethod
  def tree_unflatten(cls, aux: tuple[Any, ...], children: tuple[Any, ...]) -> "TensorList":
    static_length, capacity, dtype, shape, max_length, has_room = aux
    buffer, traced_length = children
    length = traced_length if static_length is None else static_length
    return cls(
      buffer, length, capacity, dtype, shape, max_length, has_room, peak=0 if static_length is None else static_length
    )

  @property
  def element(self) -> Any:
    """Returns the structure of an element of a list that has a buffer."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), self.buffer)

  @property
  def notes(self) -> dict[str, Any]:
    """Returns the fields that record the origin of a value; they are lost in control flow."""
    return {"is_written_beyond": self.is_written_beyond, "peak": self.peak}

  @property
  def has_static_length(self) -> bool:
    """Returns whether the length is known while tracing."""
    return is_size(self.length)

  def static_length(self, what: str) -> Size:
    """Returns the length.

    Raises:
      StaticInputError: it is not known while tracing.
    """
    if isinstance(self.length, jax.Array) and not isinstance(self.length, jax.core.Tracer):
      return int(self.length)  # of a loop outside of transformations
    if not is_size(self.length):
      raise StaticInputError(
        f"{what}: the length of the tensor list is not known while tracing, and it must be. Give the list its final "
        f"size where it is made (tf.TensorArray(dtype, size=n)), which leaves zeros where nothing is "
        f"written, or give the loop that fills it a trip count that does not depend on its inputs."
      )
    return self.length

  def at(self, index: Value) -> Any:
    """Returns element `index` of a list that has a buffer; the nearest element if the index is out of range."""
    return jax.tree.map(lambda leaf: leaf_at(leaf, index), self.buffer)

  def updated(self, index: Value, element: Any) -> "TensorList":
    """Returns the list with `element`, which has the structure of the others, at `index`."""
    buffer = jax.tree.map(lambda leaf, new: updated_leaf(leaf, new, index), self.buffer, element)
    return dataclasses.replace(self, buffer=buffer)

  def with_capacity(self, capacity: Size) -> "TensorList":
    """Returns the same list with another buffer, padded with zeros; for lists of arrays only."""
    buffer = jax.tree.map(lambda leaf: _resized(leaf, capacity), self.buffer)
    return dataclasses.replace(self, buffer=buffer, capacity=capacity)

  def with_length(self, length: Size) -> "TensorList":
    """Returns the same list with `length` elements; new ones are zeros."""
    return dataclasses.replace(self.with_capacity(length), length=length, peak=larger(self.peak, length))


def valid_length(tensor_list: TensorList) -> jax.Array:
  """Returns the traced length of a list; larger than any bound if a loop did not end within its own.

  Such a loop has made the length the least integer.
  """
  return jnp.where(tensor_list.length < 0, np.int32(np.iinfo(np.int32).max), tensor_list.length)


def declared_shape(shape: Value) -> tuple[Any, ...] | None:
  """Returns an `element_shape` input as a tuple: None for an unknown rank (a negative scalar), None entries for -1."""
  if isinstance(shape, jax.core.Tracer):
    return None
  vector = np.asarray(shape)
  if vector.ndim == 0:
    return None
  return tuple(d if jax.export.is_symbolic_dim(d) else (None if d < 0 else int(d)) for d in vector)


def _resized(buffer: Array, capacity: Size) -> Array:
  have = buffer.shape[0]
  if capacity == have:
    return buffer
  missing = jax.core.max_dim(capacity - have, 0)
  if not (isinstance(missing, int) and missing == 0):
    xp = np if isinstance(buffer, np.ndarray) and isinstance(missing, int) else jnp
    buffer = xp.concatenate([buffer, zeros((missing, *buffer.shape[1:]), buffer.dtype)])
  return buffer[:capacity]


def check_index(index: Value, tensor_list: TensorList, what: str) -> None:
  """Raises `InvalidInputError` if index and length are known and the index is outside the list."""
  if isinstance(index, jax.core.Tracer) or not isinstance(tensor_list.length, int):
    return
  if not 0 <= int(index) < tensor_list.length:
    raise InvalidInputError(f"{what}: index {int(index)} is outside the list, which has {tensor_list.length} elements.")
