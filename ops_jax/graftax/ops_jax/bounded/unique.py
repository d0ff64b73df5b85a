"""Distinct elements, and elements that another vector lacks: Unique, ListDiff."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  masked_derivative,
  may_be_less,
  row_mask,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.select_where import true_positions
from graftax.ops_jax.bounded.values import BoundedArray

__all__ = ["list_diff", "unique"]


@makes("ListDiff")
def list_diff(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the elements of one vector that another lacks, and their positions."""
  x, y = map(as_bounded, inputs)
  is_equal = x.padded[:, None] == y.padded[None]
  valid = valid_mask(y.padded.shape, y.lengths)
  kept = ~jnp.any(is_equal if valid is None else is_equal & valid, axis=1)
  own = valid_mask(x.padded.shape, x.lengths)
  positions, count, may_overflow = true_positions(call, kept if own is None else kept & own, x)
  count, may_overflow = checked_length(count, any_overflow(y)), may_overflow or y.may_overflow
  elements = masked_derivative(x.padded[positions], row_mask(count, positions.size))
  return [
    call.made(part, (count,), may_overflow) for part in (elements, positions.astype(call.dtype("out_idx", np.int32)))
  ]


@makes("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def unique(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns distinct elements in order of first occurrence, positions of all among them, and their counts."""
  x = as_bounded(inputs[0])
  if len(inputs) > 1 and tuple(call.static(inputs[1], tuple[int, ...], "axis")) not in ((), (0,), (-1,)):
    call.refuse("it looks for distinct slices along an axis")
  if x.padded.ndim != 1:
    call.refuse("it looks for distinct slices of an array with several dimensions")
  dtype = call.dtype("out_idx", np.int32)
  first, group, sizes, count = _groups(x)
  wanted = call.max_size()
  bound = x.padded.size if wanted is None else jax.core.min_dim(wanted, x.padded.size)
  may_overflow = x.may_overflow or may_be_less(bound, x.padded.size)
  count = checked_length(count, any_overflow(x))
  mask = row_mask(count, bound)
  values = masked_derivative(x.padded[first[:bound]], mask)
  results = [call.made(values, (count,), may_overflow), call.made(group.astype(dtype), x.lengths, x.may_overflow)]
  if "WithCounts" in call.node.op:
    results.append(call.made(sizes[:bound].astype(dtype), (count,), may_overflow))
  return results


def _groups(x: BoundedArray) -> tuple[jax.Array, jax.Array, jax.Array, Any]:
  """Returns for each distinct element its first position, for each element its group, and each group's size.

  Groups are in the order of their first elements; the padding forms none.
  """
  n = x.padded.size
  length = jnp.asarray(n, jnp.int32) if x.lengths[0] is None else x.lengths[0]
  is_valid = row_mask(length, n)
  keys = x.padded.astype(jnp.int32) if x.dtype == bool else x.padded
  place = jnp.arange(n, dtype=jnp.int32)
  # Padding comes last; equal elements are in the order of their positions.
  outside, ordered, order = jax.lax.sort((~is_valid, keys, place), num_keys=2, is_stable=True)
  is_new = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])[:n] & ~outside
  run = jnp.cumsum(is_new, dtype=jnp.int32) - 1
  starts = jnp.where(is_new, order, n)  # first position of a run's element, at the start of the run
  first_by_group = jnp.sort(starts)
  rank_of_position = jnp.zeros(n + 1, jnp.int32).at[first_by_group].set(place, mode="drop")
  # One element more than needed, because JAX gathers nothing from an array without elements.
  start_of_run = jnp.full(n + 1, n, jnp.int32).at[jnp.where(is_new, run, n + 1)].set(order, mode="drop")
  group_in_order = rank_of_position[start_of_run[jnp.maximum(run, 0)]]
  group = jnp.zeros(n, jnp.int32).at[order].set(group_in_order)
  group = jnp.where(is_valid, group, 0)
  sizes = jnp.zeros(n, jnp.int32).at[jnp.where(is_valid, group, n)].add(1, mode="drop")
  count = jnp.sum(is_new, dtype=jnp.int32)
  return jnp.minimum(first_by_group, jax.core.max_dim(n - 1, 0)), group, sizes, count
