"""Positions of true elements: Where."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import any_overflow, as_bounded, checked_length, may_be_less, valid_mask
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.values import BoundedArray

__all__ = ["true_positions", "where"]


def true_positions(call: BoundedCall, mask: jax.Array, source: BoundedArray) -> tuple[jax.Array, jax.Array, bool]:
  """Returns the flat positions of true elements, first ones first, their number, and whether it may exceed the bound.

  Args:
    call: the run of the node.
    mask: `[n]` bool.
    source: where the mask comes from; if it overflowed, the number is not valid.
  """
  wanted = call.max_size()
  bound = mask.size if wanted is None else jax.core.min_dim(wanted, mask.size)
  count = checked_length(jnp.sum(mask, dtype=jnp.int32), any_overflow(source))
  (positions,) = jnp.nonzero(mask, size=bound, fill_value=0)
  return positions.astype(jnp.int32), count, source.may_overflow or may_be_less(bound, mask.size)


@makes("Where")
def where(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the positions of the elements that are true or not 0."""
  x = as_bounded(inputs[0])
  mask = x.padded != 0
  valid = valid_mask(mask.shape, x.lengths)
  mask = mask if valid is None else mask & valid
  flat, count, may_overflow = true_positions(call, mask.reshape(-1), x)
  coordinates = jnp.unravel_index(flat, mask.shape) if mask.ndim else ()
  dtype = canonical_dtype(np.int64)
  padded = jnp.stack([c.astype(dtype) for c in coordinates], -1) if coordinates else jnp.zeros((flat.size, 0), dtype)
  return [call.made(padded, (count, None), may_overflow)]
