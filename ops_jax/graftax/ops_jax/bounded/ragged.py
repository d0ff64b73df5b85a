"""Ragged tensors whose number of elements depends on data: RaggedRange, RaggedGather, RaggedTensorToTensor."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.numeric import search_sorted
from graftax.ops_jax._core.values import Value, shape_vector
from graftax.ops_jax.bounded.elementwise import broadcast_together
from graftax.ops_jax.bounded.masks import (
  any_of,
  any_overflow,
  as_bounded,
  checked_length,
  common_length,
  masked_derivative,
  poisoned,
  row_mask,
  valid_mask,
  with_poisoned_derivative,
)
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.values import is_bounded

__all__ = ["ragged_gather", "ragged_range", "ragged_tensor_to_tensor"]


@makes("RaggedRange")
def ragged_range(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns ragged rows of integers; their total length needs a bound from `max_sizes`."""
  vectors = [value if is_bounded(value) or np.ndim(value) else jnp.reshape(value, 1) for value in inputs]
  (starts, limits, deltas), (axis,) = broadcast_together(call, vectors)
  if not jnp.issubdtype(starts.dtype, jnp.integer):
    call.refuse("it counts in floating-point numbers")
  length, may_be_invalid = common_length(axis)
  starts, limits, deltas = (jnp.broadcast_to(end, axis.size) for end in (starts, limits, deltas))
  splits, total = _splits(starts, limits, deltas, length)
  overflow = any_overflow(*inputs)
  total = checked_length(total, any_of(axis.is_bad, overflow))
  bound, _ = call.bound(Affine(((total, 1),), 0))
  places = jnp.arange(bound, dtype=jnp.int32)
  rows = jnp.clip(search_sorted(splits, places, "right") - 1, 0, jax.core.max_dim(axis.size - 1, 0))
  numbers = starts[rows] + deltas[rows] * (places - splits[rows]).astype(starts.dtype)
  splits = splits.astype(call.dtype("Tsplits", np.int64))
  return [
    call.made(splits, (None if length is None else length + 1,), may_be_invalid or overflow is not None),
    call.made(numbers, (total,), may_overflow=True),
  ]


def _splits(
  starts: jax.Array, limits: jax.Array, deltas: jax.Array, length: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
  """Returns the row splits `[rows + 1]`, and their end, which is not valid if a step is 0."""
  is_own = True if length is None else row_mask(length, starts.shape[0])
  steps = jnp.where(deltas == 0, 1, deltas)
  sizes = jnp.maximum(-(-((limits - starts) * jnp.sign(steps)) // jnp.abs(steps)), 0).astype(jnp.int32)
  ends = jnp.cumsum(jnp.where(is_own, sizes, 0), dtype=jnp.int32)
  splits = jnp.concatenate([jnp.zeros(1, jnp.int32), ends])
  return splits, checked_length(splits[-1], jnp.any((deltas == 0) & is_own))


@makes("RaggedGather")
def ragged_gather(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns rows of a ragged tensor. Known rows have as many values as the tensor, times how often one is taken."""
  *nested, values, indices = inputs
  if len(nested) != 1 or np.ndim(indices) != 1 or any(map(is_bounded, (*nested, indices))):
    call.refuse(
      "it has several ragged dimensions, indices of another rank than 1, or rows whose number depends on data"
    )
  x, splits, rows = as_bounded(values), jnp.asarray(nested[0]), jnp.asarray(indices)
  if any(length is not None for length in x.lengths[1:]):
    call.refuse("its values have a size that depends on data in another than the first dimension")
  num_rows, size = splits.shape[0] - 1, x.padded.shape[0]
  num_values = size if x.lengths[0] is None else x.lengths[0]
  is_row = (rows >= 0) & (rows < num_rows)
  starts, ends = (splits.at[jnp.where(is_row, rows, 0) + i].get(mode="fill", fill_value=0) for i in (0, 1))
  sizes = jnp.where(is_row, ends - starts, 0)
  is_wrong = jnp.any(~is_row) | jnp.any(splits[1:] < splits[:-1]) | (splits[0] < 0) | (splits[-1] > num_values)
  is_bad = any_of(is_wrong, any_overflow(x))
  found = jnp.concatenate([jnp.zeros(1, splits.dtype), jnp.cumsum(sizes, dtype=splits.dtype)])
  total = checked_length(found[-1].astype(jnp.int32), is_bad)
  known = None if isinstance(indices, jax.core.Tracer) else np.asarray(indices)
  natural = None if known is None else size * int(np.max(np.unique(known, return_counts=True)[1], initial=0))
  bound, _ = call.bound(Affine(((total, 1),), 0), natural)
  places = jnp.arange(bound, dtype=splits.dtype)
  row = search_sorted(found[1:], places, "right")
  # Places after the last value are out of range: they are 0, and pass no derivative.
  places += jnp.append(starts - found[:-1], jnp.asarray(size, splits.dtype))[row]
  # JAX gathers nothing from an array without elements, not even what fills the result.
  source = with_poisoned_derivative(x.padded, is_bad) if size else jnp.zeros((1, *x.padded.shape[1:]), x.dtype)
  gathered = source.at[jnp.where(row < rows.size, places, jax.core.max_dim(size, 1))].get(mode="fill", fill_value=0)
  result = poisoned(found, is_bad)
  call.facts.note_range(result, 0, bound, is_certain=False)
  return [result, call.made(gathered, (total, *[None] * (gathered.ndim - 1)), may_overflow=True)]


@makes("RaggedTensorToTensor")
def ragged_tensor_to_tensor(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Converts rows to a dense array, which has at most as many columns as there are values."""
  shape, values, default, *partitions = inputs
  kinds = tuple(call.attrs["row_partition_types"])
  if any(map(is_bounded, (shape, default, *partitions))) or kinds not in (("ROW_SPLITS",), (b"ROW_SPLITS",)):
    call.refuse(
      "it has other row partitions than one of row splits, or their number depends on data; a shape that bounds the "
      "rows, as in `ragged.to_tensor(shape=[None, 128])`, would do"
    )
  x, splits = as_bounded(values), jnp.asarray(partitions[0])
  if any(length is not None for length in x.lengths[1:]):
    call.refuse("its values have a size that depends on data in another than the first dimension")
  wanted = np.asarray(call.static(shape, np.ndarray, "shape"))
  sizes = [-1] * (x.padded.ndim + 1) if wanted.ndim == 0 else [int(size) for size in wanted]
  length = None
  may_overflow = False
  if sizes[1] == -1:
    longest = jnp.max(splits[1:] - splits[:-1], initial=0).astype(jnp.int32)
    call.facts.note_range(longest, 0, x.padded.shape[0])
    sizes[1], may_overflow = call.bound(Affine(((longest, 1),), 0), x.padded.shape[0])
    length = longest
  overflow = any_overflow(x)
  result = poisoned(call.run_one(shape_vector(sizes), x.padded, default, splits), overflow)
  lengths = (None, length, *[None] * (result.ndim - 2))
  return [call.made(masked_derivative(result, valid_mask(result.shape, lengths)), lengths, may_overflow)]
