"""Tensor lists whose length depends on data, as arrays of bounded size: TensorListStack."""

from collections.abc import Sequence

import jax.numpy as jnp

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.values import INVALID_LENGTH
from graftax.ops_jax.lists.tensor_list import array_buffer
from graftax.ops_jax.variants.tensor_list_value import TensorList

__all__ = ["tensor_list_stack"]


@makes("TensorListStack", has_max_size=False)
def tensor_list_stack(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the elements of a list that a loop of unknown length filled; the bound is the room that the list has."""
  tensor_list, element_shape = inputs
  if not isinstance(tensor_list, TensorList) or tensor_list.has_static_length:
    call.refuse("an input has a size that depends on data")
  padded = array_buffer(tensor_list, element_shape, call.where)
  # A loop that did not end within its bound has made the length the least integer.
  length = jnp.where(tensor_list.length < 0, INVALID_LENGTH, tensor_list.length)
  return [call.made(padded, (length, *[None] * (padded.ndim - 1)), may_overflow=True)]
