"""The largest elements along an axis of bounded size, or a traced number of them: TopKV2, TopK."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.numeric import rank_keys
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.masks import (
  any_of,
  any_overflow,
  as_bounded,
  checked_length,
  filled,
  masked_derivative,
  poisoned,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.shape_ops import size_entries

__all__ = ["top_k"]


@makes("TopKV2", "TopK")
def top_k(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the largest elements of the last axis; invalid if there are fewer than wanted."""
  x = as_bounded(inputs[0])
  last = x.padded.ndim - 1
  size = size_entries(call.facts, x)[last]
  if call.node.op == "TopK":
    wanted = Affine((), int(call.attrs["k"]))
  else:
    (wanted,) = call.facts.entries(inputs[1])
  bound, length, may_overflow = bounded_size(call, wanted, x.padded.shape[last])
  keys = rank_keys(lax.stop_gradient(x.padded))
  padded = filled(dataclasses.replace(x, padded=keys), jnp.iinfo(keys.dtype).min, [last])
  arguments = [padded] if call.node.op == "TopK" else [padded, np.int32(bound)]
  _, positions = call.run(call.context, arguments)
  results = (jnp.take_along_axis(x.padded, positions, axis=last), positions)
  is_bad = any_overflow(x)
  if size.distance(wanted) != 0 and not (size.is_known and wanted.is_known):
    is_short = jnp.asarray(wanted.plus(size, -1).value()) > 0
    is_bad = any_of(is_bad, is_short)
  lengths = [*x.lengths[:last], length]
  if length is not None and is_bad is not None:
    lengths[last], may_overflow = checked_length(length, is_bad), True
  outputs = []
  for result in results:
    result = masked_derivative(poisoned(result, is_bad), valid_mask(result.shape, lengths))
    outputs.append(call.made(result, lengths, may_overflow or x.may_overflow))
  return outputs
