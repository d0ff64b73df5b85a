"""What a TensorFlow tensor list is in JAX: one buffer and a length, so that it can be a loop variable.

A list whose element shape is not known yet has no buffer; the first element written gives it one. Outside loops the
length is a Python int. Inside a loop that pushes or pops it is traced, and the buffer has room for all that the loop
will push (see `loop_lists.py`).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax.errors import InvalidInputError, StaticInputError
from graftax.ops_jax.values import Array, Value

__all__ = ["TensorList", "check_index", "declared_shape"]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TensorList:
  """A list of tensors of one shape and dtype.

  Attributes:
    buffer: `[capacity, *element]`; entries from `length` on have no meaning. None until the element shape is known.
    length: number of elements: an int, or a traced int32 scalar.
    element_dtype: dtype of the elements.
    element_shape: the declared shape; None entries, or None as a whole, where it was left open.
    max_length: the most elements it may ever hold, or None.
    peak: the largest static length seen since the value was made, for sizing buffers of loops.
  """

  buffer: Array | None
  length: int | Array
  element_dtype: np.dtype[Any]
  element_shape: tuple[int | None, ...] | None = None
  max_length: int | None = None
  peak: int = 0

  def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    static_length = self.length if isinstance(self.length, int) else None
    traced_length = None if isinstance(self.length, int) else self.length
    aux = (static_length, self.element_dtype, self.element_shape, self.max_length)
    return (self.buffer, traced_length), aux

  @classmethod
  def tree_unflatten(cls, aux: tuple[Any, ...], children: tuple[Any, ...]) -> "TensorList":
    static_length, dtype, shape, max_length = aux
    buffer, traced_length = children
    length = traced_length if static_length is None else static_length
    return cls(buffer, length, dtype, shape, max_length, static_length or 0)

  @property
  def capacity(self) -> int:
    """How many elements the buffer has room for."""
    return 0 if self.buffer is None else self.buffer.shape[0]

  @property
  def has_static_length(self) -> bool:
    """Whether the length is known while tracing."""
    return isinstance(self.length, int)

  def static_length(self, what: str) -> int:
    """The length.

    Raises:
      StaticInputError: it depends on traced data.
    """
    if not isinstance(self.length, int):
      raise StaticInputError(
        f"{what}: the length of the tensor list depends on traced data; it must be known while tracing. Give the loop "
        f"that fills it a trip count that does not depend on its inputs."
      )
    return self.length

  def allocated(self, element_shape: tuple[int, ...]) -> "TensorList":
    """The same list with a buffer of zeros, where it had none."""
    if self.buffer is not None:
      return self
    capacity = self.length if isinstance(self.length, int) else (self.max_length or 0)
    return dataclasses.replace(self, buffer=jnp.zeros((capacity, *element_shape), self.element_dtype))

  def checked_element_shape(self, given: Value, what: str) -> tuple[int, ...]:
    """The shape of an element: the buffer's, else the declared or `given` one.

    Args:
      given: the op's `element_shape` input; -1 entries, or a negative scalar, where unknown.
      what: the op and node, for messages.

    Raises:
      StaticInputError: no source gives the whole shape.
    """
    if self.buffer is not None:
      return tuple(self.buffer.shape[1:])
    for shape in (declared_shape(given), self.element_shape):
      if shape is not None and None not in shape:
        return shape  # type: ignore[return-value]  # no None entries, tested above
    raise StaticInputError(
      f"{what}: nothing was written to the tensor list and its element shape is {self.element_shape}; it must be fully "
      f"known. Set the element shape where the list is made."
    )

  def with_length(self, length: int) -> "TensorList":
    """The same list with `length` elements; new ones are zeros."""
    if self.buffer is None:
      return dataclasses.replace(self, length=length, peak=max(self.peak, length))
    buffer = _resized(self.buffer, length)
    return dataclasses.replace(self, buffer=buffer, length=length, peak=max(self.peak, length))


def declared_shape(shape: Value) -> tuple[int | None, ...] | None:
  """An `element_shape` input as a tuple: None for an unknown rank (a negative scalar), None entries for -1."""
  if isinstance(shape, jax.core.Tracer):
    return None
  vector = np.asarray(shape)
  if vector.ndim == 0:
    return None
  return tuple(d if jax.export.is_symbolic_dim(d) else (None if d < 0 else int(d)) for d in vector)


def _resized(buffer: Array, capacity: int) -> Array:
  have = buffer.shape[0]
  if capacity <= have:
    return buffer[:capacity]
  return jnp.concatenate([buffer, jnp.zeros((capacity - have, *buffer.shape[1:]), buffer.dtype)])


def check_index(index: Value, tensor_list: TensorList, what: str) -> None:
  """Raises `InvalidInputError` where both are known and the index is outside the list."""
  if isinstance(index, jax.core.Tracer) or not isinstance(tensor_list.length, int):
    return
  if not 0 <= int(index) < tensor_list.length:
    raise InvalidInputError(f"{what}: index {int(index)} is outside the list, which has {tensor_list.length} elements.")
