"""Dimensions that a graph itself declares as dynamic: XlaSetDynamicDimensionSize, XlaRemoveDynamicDimensionSize."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  masked_derivative,
  poisoned,
  valid_mask,
  with_lengths_along,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes

__all__ = ["remove_dynamic_dimension_size", "set_dynamic_dimension_size"]


@makes("XlaSetDynamicDimensionSize", has_max_size=False)
def set_dynamic_dimension_size(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Gives a dimension a traced length; its size is the bound. A length that is out of range is not valid."""
  input, dim_index, size = inputs
  x = as_bounded(input)
  axis = canonical_axis(call.where, call.static(dim_index, int, "dim_index"), x.padded.ndim)
  if x.lengths[axis] is not None or not isinstance(size, jax.Array):
    call.refuse("sizes of its input depend on data, and it sets one of them again, or another one to a known size")
  length = jnp.asarray(size).astype(np.int32)
  length = checked_length(length, (length < 0) | (length > x.padded.shape[axis]))
  lengths = [length if i == axis else n for i, n in enumerate(x.lengths)]
  padded = masked_derivative(x.padded, valid_mask(x.padded.shape, lengths))
  return [call.made(padded, lengths, may_overflow=True)]


@carries("XlaRemoveDynamicDimensionSize")
def remove_dynamic_dimension_size(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the padding along a dimension as elements. As in XLA, their values are what earlier ops left there."""
  x, dim_index = inputs
  axis = canonical_axis(call.where, call.static(dim_index, int, "dim_index"), x.padded.ndim)
  if x.lengths[axis] is None:
    return call.run(call.context, (x.padded, dim_index))
  lengths = [None if i == axis else n for i, n in enumerate(x.lengths)]
  padded = poisoned(x.padded, any_overflow(with_lengths_along(x, [axis])))
  return [call.made(padded, lengths, x.may_overflow)]
