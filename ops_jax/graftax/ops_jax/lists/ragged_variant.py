"""Ragged tensors in variants, as `tf.map_fn` passes them on: RaggedTensorToVariant, RaggedTensorFromVariant."""

import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, Value, is_known
from graftax.ops_jax.variants.padded_value import PaddedElement, RaggedValue, is_concrete
from graftax.ops_jax.variants.row_packing import (
  known_if_concrete,
  packed_rows,
  padded_rows,
  row_starts,
  rows_and_places,
  with_any_length,
)

__all__ = [
  "check_ranks",
  "joined_rows",
  "ragged_rows",
  "ragged_tensor_from_variant",
  "ragged_tensor_to_variant",
  "ragged_tensor_to_variant_gradient",
]


@register("RaggedTensorToVariant", ignores=("RAGGED_RANK", "Tvalues", "Tsplits"))
def ragged_tensor_to_variant(
  rt_nested_splits: list[Array], rt_dense_values: Array, *, batched_input: bool, budget: Budget = NO_BUDGET
) -> RaggedValue:
  """Returns a ragged tensor as a variant, or a vector of variants, one for each of its rows.

  Source op: `tf.raw_ops.RaggedTensorToVariant`.

  Args:
    rt_nested_splits: row splits of each ragged axis, outermost first; int32 or int64.
    rt_dense_values: `[n, ...]`, any dtype.
    batched_input: whether to make a vector.
    budget: is asked for memory: rows are padded to the longest one, or if the splits are traced, to all values.

  Raises:
    InvalidInputError: row splits decrease, or they do not begin at 0 and end with the values.
    LimitExceededError: the rows need too much memory.
  """
  value = RaggedValue(tuple(map(with_any_length, rt_nested_splits)), with_any_length(rt_dense_values))
  return ragged_rows(value, budget) if batched_input else value


@register("RaggedTensorFromVariant", ignores=("Tvalues",))
def ragged_tensor_from_variant(
  encoded_ragged: RaggedValue,
  *,
  output_ragged_rank: int,
  input_ragged_rank: int,
  Tsplits: np.dtype = INT64,
  budget: Budget = NO_BUDGET,
) -> tuple[Array, ...]:
  """Returns the row splits and the values of a ragged tensor in a variant, or of one whose rows are in variants.

  Source op: `tf.raw_ops.RaggedTensorFromVariant`.

  Args:
    encoded_ragged: a variant, or a vector of them.
    output_ragged_rank: the number of row splits.
    input_ragged_rank: the number of row splits of one variant; -1 to infer it.
    Tsplits: int32 or int64.
    budget: is asked for memory.

  Raises:
    StaticInputError: the sizes depend on traced data.
    InvalidInputError: the variants have other numbers of row splits.
    LimitExceededError: the result needs too much memory.
  """
  check_ranks(encoded_ragged, output_ragged_rank)
  sizes = [part.lengths for part in (*encoded_ragged.splits, encoded_ragged.values)]
  if not is_concrete([sizes, [part.padded for part in encoded_ragged.splits]]):
    raise StaticInputError("RaggedTensorFromVariant: the sizes of the ragged tensor depend on traced data.")
  dtype = canonical_dtype(Tsplits)
  if not encoded_ragged.shape:
    return *(part.cut().astype(dtype) for part in encoded_ragged.splits), encoded_ragged.values.cut()
  splits, values = joined_rows(encoded_ragged, budget)
  return *(np.asarray(part.cut()).astype(dtype) for part in splits), values.cut()


@register("RaggedTensorToVariantGradient", ignores=("Tvalues", "Tsplits"))
def ragged_tensor_to_variant_gradient(
  encoded_ragged_grad: RaggedValue, row_splits: Array, dense_values_shape: Array
) -> Array:
  """Returns the gradient for the values of a ragged tensor from those of its rows, one after the other.

  Source op: `tf.raw_ops.RaggedTensorToVariantGradient`.

  Args:
    encoded_ragged_grad: a vector of variants, or one variant if the tensor was not divided.
    row_splits: `[n + 1]`, the outermost row splits, or a scalar for a dense tensor.
    dense_values_shape: the shape of the values.

  Raises:
    StaticInputError: the shape depends on traced data.
  """
  values = encoded_ragged_grad.values
  if not encoded_ragged_grad.shape and is_concrete(values.lengths):
    return values.cut()
  if not encoded_ragged_grad.shape or not is_concrete(dense_values_shape):
    raise StaticInputError("RaggedTensorToVariantGradient: the size of the gradient depends on traced data.")
  num_values = int(dense_values_shape[0])
  if np.ndim(row_splits) == 0:
    return values.padded.reshape(tuple(int(size) for size in dense_values_shape))
  counts = values.length(0)
  row, place = rows_and_places(row_starts(counts) if encoded_ragged_grad.splits else row_splits[:-1], num_values)
  place = jnp.where(place < jnp.asarray(counts)[row], place, values.padded.shape[1])
  return jnp.asarray(values.padded).at[row, place].get(mode="fill", fill_value=0)


def check_ranks(value: Value, output_ragged_rank: int) -> None:
  """Raises InvalidInputError if a value is not one or several ragged tensors of this ragged rank together."""
  if not isinstance(value, RaggedValue):
    raise InvalidInputError(f"RaggedTensorFromVariant: got a {type(value).__name__}; expected a ragged tensor.")
  if len(value.splits) + len(value.shape) != output_ragged_rank:
    raise InvalidInputError(
      f"RaggedTensorFromVariant: variants of shape {list(value.shape)} that hold ragged tensors with "
      f"{len(value.splits)} row splits; expected {output_ragged_rank} row splits in all."
    )


def ragged_rows(value: RaggedValue, budget: Budget) -> RaggedValue:
  """Returns the rows of a ragged tensor as a vector of variants.

  Raises:
    InvalidInputError: row splits decrease, or they do not begin at 0 and end with the values.
    LimitExceededError: the rows, padded to the longest one, need too much memory.
  """
  if not value.splits:
    return _rows_of_dense(value.values)
  outer, *inner = [known_if_concrete(part.padded) for part in value.splits]
  values = value.values.padded
  for splits, divided in zip([outer, *inner], [*value.splits[1:], value.values], strict=True):
    most = divided.padded.shape[0] - (divided is not value.values)
    _check_splits(splits, most, is_exact=is_known(divided.lengths[0]))
  starts, ends = outer[:-1], outer[1:]
  rows = []
  for splits in inner:
    bound = _longest(starts, ends, splits.shape[0] - 1)
    check_known((starts.shape[0], bound + 1), budget, "RaggedTensorToVariant")
    xp = np if is_known(splits) and is_known(starts) else jnp
    places = xp.minimum(starts[:, None] + xp.arange(bound + 1), ends[:, None])
    rows.append(PaddedElement(splits[places] - splits[starts][:, None], ((ends - starts + 1).astype(np.int32),)))
    starts, ends = splits[starts], splits[ends]
  bound = _longest(starts, ends, values.shape[0])
  return RaggedValue(tuple(rows), padded_rows(values, starts, ends, bound, budget, "RaggedTensorToVariant"))


def joined_rows(value: RaggedValue, budget: Budget) -> tuple[list[PaddedElement], PaddedElement]:
  """Returns the row splits and the values of the ragged tensor whose rows are a vector of variants.

  If sizes are traced, both are padded to the sum of the largest sizes.

  Raises:
    LimitExceededError: the result needs too much memory.
  """
  # The number of rows of each variant is one less than its row splits, and of a dense tensor its first size.
  counts = [known_if_concrete(part.length(0)) - 1 for part in value.splits]
  counts.append(known_if_concrete(value.values.length(0)))
  splits = [with_any_length(_with_zero(counts[0].cumsum().astype(np.int32)))]
  for level, part in enumerate(value.splits):
    offsets = row_starts(counts[level + 1])
    ends = packed_rows(part.padded[:, 1:] + offsets[:, None], counts[level], budget, "RaggedTensorFromVariant")
    splits.append(PaddedElement(_with_zero(ends.padded), (ends.length(0) + 1,)))
  values = packed_rows(value.values.padded, counts[-1], budget, "RaggedTensorFromVariant")
  return splits, PaddedElement(values.padded, (values.lengths[0], *value.values.lengths[1:]))


def _with_zero(ends: Array) -> Array:
  return (np if is_known(ends) else jnp).concatenate([np.zeros(1, ends.dtype), ends])


def _rows_of_dense(values: PaddedElement) -> RaggedValue:
  """Returns the slices of an array along its first axis as variants."""
  padded = values.padded
  if padded.ndim < 2:
    return RaggedValue((), PaddedElement(padded, ()))
  length = np.full(padded.shape[:1], padded.shape[1], np.int32)
  return RaggedValue((), PaddedElement(padded, (length, *[None] * (padded.ndim - 2))))


def _check_splits(splits: Array, num_elements: int, is_exact: bool) -> None:
  """Raises InvalidInputError if known row splits do not divide the elements; unless `is_exact`, there may be fewer."""
  is_valid = splits.size > 0
  if is_valid and is_known(splits):
    end_is_valid = splits[-1] == num_elements if is_exact else splits[-1] <= num_elements
    is_valid = splits[0] == 0 and end_is_valid and not np.any(splits[1:] < splits[:-1])
  if not is_valid:
    raise InvalidInputError(f"RaggedTensorToVariant: row splits do not divide {num_elements} rows or values.")


def _longest(starts: Array, ends: Array, most: int) -> int:
  return int(np.max(ends - starts, initial=0)) if is_known(starts) and is_known(ends) else most
