"""Tensor lists whose length or elements' sizes depend on data: TensorListStack, TensorListGetItem, TensorListGather."""

import dataclasses
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  filled,
  masked_derivative,
  valid_mask,
  with_poisoned_derivative,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded
from graftax.ops_jax.lists.tensor_list import array_buffer, without_last
from graftax.ops_jax.variants.padded_value import PaddedElement
from graftax.ops_jax.variants.row_packing import packed_rows, with_any_length
from graftax.ops_jax.variants.tensor_list_value import TensorList, valid_length

__all__ = [
  "as_element",
  "made_of",
  "tensor_list_concat",
  "tensor_list_gather",
  "tensor_list_get_item",
  "tensor_list_pop_back",
  "tensor_list_stack",
  "tensor_list_write",
]


@makes("TensorListStack", has_max_size=False)
def tensor_list_stack(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the elements of a list; the bounds are the room that the list has, and the largest sizes of elements."""
  tensor_list = inputs[0]
  if not isinstance(tensor_list, TensorList) or (tensor_list.has_static_length and _with_sizes(tensor_list) is None):
    call.refuse("an input has a size that depends on data")
  if tensor_list.has_static_length:
    return [_stacked(call, tensor_list.with_length(tensor_list.length).buffer)]
  padded = array_buffer(tensor_list, inputs[1], call.where)
  return [call.made(padded, (valid_length(tensor_list), *[None] * (padded.ndim - 1)), may_overflow=True)]


def _stacked(call: BoundedCall, elements: PaddedElement) -> BoundedArray | jax.Array:
  """Returns elements whose sizes are traced; they are invalid if they differ, for which TensorFlow raises."""
  lengths = [n if n is None else checked_length(jnp.asarray(n)[0], jnp.any(n != n[0])) for n in elements.lengths]
  return call.made(elements.padded, (None, *lengths), may_overflow=True)


@makes("TensorListGetItem", has_max_size=False)
def tensor_list_get_item(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns an element of a list whose elements differ in shape."""
  tensor_list = _with_sizes(inputs[0])
  if tensor_list is None:
    return call.run(call.context, inputs)  # which raises the error of the op
  return [made_of(call, tensor_list.at(inputs[1]))]


@makes("TensorListPopBack", has_max_size=False)
def tensor_list_pop_back(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns a list whose elements differ in shape without its last element, and that element."""
  tensor_list = _with_sizes(inputs[0])
  if tensor_list is None:
    return call.run(call.context, inputs)  # which raises the error of the op
  return [without_last(tensor_list), made_of(call, tensor_list.at(tensor_list.length - 1))]


@carries("TensorListSetItem", "TensorListPushBack")
def tensor_list_write(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Writes an array of bounded size to a list, whose elements then differ in shape."""
  return call.run(call.context, [as_element(value) if is_bounded(value) else value for value in inputs])


@makes("TensorListConcat", "TensorListConcatV2", has_max_size=False)
def tensor_list_concat(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns elements of different lengths, one after the other; at most as many as the list has room for."""
  tensor_list = _with_sizes(inputs[0])
  if tensor_list is None or not tensor_list.has_static_length:
    return call.run(call.context, inputs)  # which raises the error of the op
  elements: PaddedElement = tensor_list.with_length(tensor_list.length).buffer
  if any(length is not None for length in elements.lengths[1:]):
    call.refuse("its elements differ in other sizes than the first")
  counts = jnp.asarray(elements.length(0))
  joined = packed_rows(elements.padded, counts, call.context.budget, call.where)
  return [made_of(call, joined), counts.astype(canonical_dtype(INT64))]


@carries("TensorListGather", "TensorArrayGatherV3")
def tensor_list_gather(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns elements at positions whose number depends on data; TF1 stacks an array as the elements of a range."""
  _, indices, *_ = inputs
  tensor_list = next((value for value in inputs if isinstance(value, TensorList)), None)
  if tensor_list is None or not is_bounded(indices):
    call.refuse("an input other than the positions has a size that depends on data, or gradients are gathered")
  positions = as_bounded(indices)
  poison = partial(with_poisoned_derivative, is_bad=any_overflow(positions))
  source = dataclasses.replace(tensor_list, buffer=jax.tree.map(poison, tensor_list.buffer))
  given = {id(tensor_list): source, id(indices): filled(positions, 0)}
  result = jnp.asarray(call.run_one(*[given.get(id(value), value) for value in inputs]))
  lengths = [*positions.lengths, *[None] * (result.ndim - 1)]
  return [call.made(masked_derivative(result, valid_mask(result.shape, lengths)), lengths, positions.may_overflow)]


def as_element(value: Value) -> PaddedElement:
  """Returns an array, of bounded size or not, as an element of a list; its first size differs from that of others."""
  if not is_bounded(value):
    return with_any_length(value)
  first, *others = value.lengths
  return PaddedElement(value.padded, (np.asarray(value.padded.shape[0], np.int32) if first is None else first, *others))


def made_of(call: BoundedCall, element: PaddedElement) -> BoundedArray | jax.Array:
  """Returns an element of a list as an array, whose sizes are bounded if they are traced."""
  padded = element.padded[tuple(slice(int(n) if n is not None and is_known(n) else None) for n in element.lengths)]
  return call.made(padded, [None if n is None or is_known(n) else n for n in element.lengths], may_overflow=True)


def _with_sizes(value: Value) -> TensorList | None:
  """Returns a list whose elements differ in shape, or None for any other value."""
  return value if isinstance(value, TensorList) and isinstance(value.buffer, PaddedElement) else None
