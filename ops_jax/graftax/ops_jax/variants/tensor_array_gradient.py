"""Gradients of the elements of a TensorFlow 1 TensorArray, as a value.

In TensorFlow a gradient array is a resource. Reads of the forward array add to it, and writes of the forward array read
from it; the edges that order these ops are floats without meaning. Here the edge carries the gradients written so far,
so sums of edges are sums of gradients. An edge without gradients has the value that TensorFlow computes, and counts as
zeros.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from graftax.ops_jax._core.values import Value

__all__ = ["FlowGradient"]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FlowGradient:
  """Gradients of the elements of a TensorArray.

  Attributes:
    buffer: `[capacity, *element]`.
  """

  buffer: jax.Array

  def tree_flatten(self) -> tuple[tuple[Any], None]:
    return (self.buffer,), None

  @classmethod
  def tree_unflatten(cls, aux: None, children: tuple[Any]) -> "FlowGradient":
    return cls(*children)

  def with_capacity(self, capacity: int) -> "FlowGradient":
    """Returns the same gradients, with zeros for further elements."""
    missing = jax.core.max_dim(capacity - self.buffer.shape[0], 0)
    if isinstance(missing, int) and missing == 0:
      return self
    zeros = jnp.zeros((missing, *self.buffer.shape[1:]), self.buffer.dtype)
    return FlowGradient(jnp.concatenate([self.buffer, zeros]))

  @classmethod
  def of(cls, value: Value, capacity: int, element: tuple[int, ...], dtype: Any) -> "FlowGradient":
    """Returns the gradients of an edge, with room for `capacity` elements; zeros if it carries none."""
    if isinstance(value, FlowGradient):
      return value.with_capacity(capacity)
    return cls(jnp.zeros((capacity, *element), dtype))

  def __add__(self, other: Value) -> "FlowGradient":
    if not isinstance(other, FlowGradient):
      return self
    capacity = jax.core.max_dim(self.buffer.shape[0], other.buffer.shape[0])
    return FlowGradient(self.with_capacity(capacity).buffer + other.with_capacity(capacity).buffer)
