"""Ragged tensors in variants whose sizes depend on data: RaggedTensorToVariant, RaggedTensorFromVariant."""

from collections.abc import Sequence

import numpy as np

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.tensor_list import as_element, made_of
from graftax.ops_jax.bounded.values import is_bounded
from graftax.ops_jax.lists.ragged_variant import check_ranks, joined_rows, ragged_rows
from graftax.ops_jax.variants.padded_value import PaddedElement, RaggedValue

__all__ = ["ragged_tensor_from_variant", "ragged_tensor_to_variant", "ragged_tensor_to_variant_gradient"]


@carries("RaggedTensorToVariant")
def ragged_tensor_to_variant(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns a ragged tensor with values or inner row splits of bounded size as one variant, or as its rows."""
  if call.attrs["batched_input"] and is_bounded(inputs[0]):
    call.refuse("the number of rows depends on data")
  *splits, values = map(as_element, inputs)
  value = RaggedValue(tuple(splits), values)
  return [ragged_rows(value, call.context.budget) if call.attrs["batched_input"] else value]


@makes("RaggedTensorFromVariant", has_max_size=False)
def ragged_tensor_from_variant(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns row splits and values; rows have at most as many values as the tensor that they come from."""
  (value,) = inputs
  check_ranks(value, int(call.attrs["output_ragged_rank"]))
  splits, values = joined_rows(value, call.context.budget) if value.shape else (value.splits, value.values)
  dtype = call.dtype("Tsplits", np.int64)
  return [
    *(made_of(call, PaddedElement(part.padded.astype(dtype), part.lengths)) for part in splits),
    made_of(call, values),
  ]


@makes("RaggedTensorToVariantGradient", has_max_size=False)
def ragged_tensor_to_variant_gradient(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the gradient for the values of one ragged tensor, as many as it has."""
  value = inputs[0]
  if value.shape:
    call.refuse("the number of values depends on data")
  return [made_of(call, value.values)]
