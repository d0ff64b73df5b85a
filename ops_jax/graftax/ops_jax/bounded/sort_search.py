"""Sorting and searching along an axis of bounded size, or for a traced number of elements: TopKV2, LowerBound."""

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
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.shape_ops import size_entries
from graftax.xla_call_module.lax_extras import highest

__all__ = ["search_bound", "top_k"]


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


@carries("LowerBound", "UpperBound")
def search_bound(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns where values would be inserted in sorted rows; the padding of a row follows all its elements."""
  rows, wanted = map(as_bounded, inputs)
  if rows.lengths[0] is not None or wanted.lengths[0] is not None:
    call.refuse("the number of rows depends on data")
  places = call.run_one(filled(rows, highest(rows.dtype)), wanted.padded)
  if rows.lengths[1] is not None:
    # A value that equals the filler is found in the padding or behind it.
    places = call.marked(jnp.minimum(places, rows.lengths[1].astype(places.dtype)), rows)
  return [call.made(places, wanted.lengths, wanted.may_overflow)]
