"""Rows split by label: DynamicPartition."""

import math
from collections.abc import Sequence

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import along, as_bounded, masked_derivative, row_mask, valid_mask
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.select_where import true_positions
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["dynamic_partition"]


@makes("DynamicPartition")
def dynamic_partition(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Splits the rows of `data` by label."""
  data, labels = map(as_bounded, inputs)
  rank = labels.padded.ndim
  if rank != 1 or any(length is not None for length in data.lengths[rank:]):
    if any(map(is_bounded, inputs)):
      call.refuse("its rows have a size that depends on data in another than the first dimension")
  rows = data.padded.reshape(math.prod(labels.padded.shape), *data.padded.shape[rank:])
  flat = labels.padded.reshape(-1)
  valid = valid_mask(labels.padded.shape, labels.lengths)
  if rows.shape[0] != flat.shape[0]:
    call.refuse("its inputs have different bounds")
  num_partitions = int(call.attrs["num_partitions"])
  overflow = BoundedArray(labels.padded, labels.lengths, labels.may_overflow or data.may_overflow)
  results = []
  for label in range(num_partitions):
    mask = flat == label if valid is None else (flat == label) & valid.reshape(-1)
    positions, count, may_overflow = true_positions(call, mask, overflow)
    part = rows[positions]
    part = masked_derivative(part, along(row_mask(count, part.shape[0]), 0, part.ndim))
    results.append(call.made(part, (count, *[None] * (part.ndim - 1)), may_overflow))
  return results
