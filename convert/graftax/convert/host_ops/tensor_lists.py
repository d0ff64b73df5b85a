"""Tensor lists, as lists of arrays: TensorListReserve, TensorListSetItem, TensorListStack and others."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.graphdef_ir import DType
from graftax.ops_jax import InvalidInputError

__all__ = ["TensorList"]

_TYPES = ("element_dtype", "element_shape", "shape_type", "Tindices", "Tshape")


@dataclasses.dataclass(frozen=True, slots=True)
class TensorList:
  """A list of tensors.

  Attributes:
    items: the tensors; None for one that was never set.
    shape: the sizes that all items have, with -1 for unknown ones; None if the rank is unknown.
  """

  items: tuple[np.ndarray | None, ...]
  shape: tuple[int, ...] | None

  def with_items(self, items: Sequence[np.ndarray | None]) -> "TensorList":
    """Returns a list with other items."""
    return TensorList(tuple(items), self.shape)


def _shape(element_shape: np.ndarray) -> tuple[int, ...] | None:
  """Returns the shape that an op is given as a vector; the scalar -1 means that the rank is unknown."""
  return tuple(np.reshape(element_shape, -1).tolist()) if np.ndim(element_shape) else None


def _filled(source: TensorList, element_shape: np.ndarray, dtype: np.dtype) -> list[np.ndarray]:
  """Returns the items, with zeros in place of those that were never set."""
  known = [_shape(element_shape), source.shape, *(np.shape(item) for item in source.items if item is not None)]
  shape = next((sizes for sizes in reversed(known) if sizes is not None and -1 not in sizes), None)
  if shape is None and None in source.items:
    raise InvalidInputError("TensorList: an item was never set and its shape is unknown; give an element_shape.")
  zero = np.full(shape or (), b"" if dtype.hasobject else 0, dtype)
  return [zero if item is None else np.asarray(item) for item in source.items]


def _check_index(op: str, index: int, num_items: int) -> None:
  if not 0 <= index < num_items:
    raise InvalidInputError(f"{op}: index {index} is out of range for {num_items} items.")


@host_op("EmptyTensorList", ignores=_TYPES, always=True)
def empty_tensor_list(element_shape: np.ndarray, max_num_elements: np.ndarray) -> TensorList:
  """Returns an empty list."""
  del max_num_elements
  return TensorList((), _shape(element_shape))


@host_op("TensorListReserve", ignores=_TYPES, always=True)
def tensor_list_reserve(element_shape: np.ndarray, num_elements: np.ndarray) -> TensorList:
  """Returns a list of items that are not set yet."""
  return TensorList((None,) * int(num_elements), _shape(element_shape))


@host_op("TensorListFromTensor", ignores=_TYPES, always=True)
def tensor_list_from_tensor(tensor: np.ndarray, element_shape: np.ndarray) -> TensorList:
  """Returns the list of a tensor's rows."""
  return TensorList(tuple(np.asarray(row, tensor.dtype) for row in tensor), _shape(element_shape))


@host_op("TensorListLength", ignores=_TYPES, always=True)
def tensor_list_length(input_handle: TensorList) -> np.ndarray:
  """Returns the number of items, an int32 scalar."""
  return np.asarray(len(input_handle.items), np.int32)


@host_op("TensorListSetItem", ignores=_TYPES, always=True)
def tensor_list_set_item(
  input_handle: TensorList, index: np.ndarray, item: np.ndarray, *, resize_if_index_out_of_bounds: bool = False
) -> TensorList:
  """Returns a list with one item replaced; longer if the index is beyond its end and the attribute allows that.

  Raises:
    InvalidInputError: the index is out of range.
  """
  items, position = list(input_handle.items), int(index)
  if resize_if_index_out_of_bounds:
    items += [None] * (position + 1 - len(items))
  _check_index("TensorListSetItem", position, len(items))
  items[position] = item
  return input_handle.with_items(items)


@host_op("TensorListGetItem", ignores=_TYPES, always=True)
def tensor_list_get_item(
  input_handle: TensorList, index: np.ndarray, element_shape: np.ndarray, *, element_dtype: DType
) -> np.ndarray:
  """Returns one item.

  Raises:
    InvalidInputError: the index is out of range, or the item was never set and its shape is unknown.
  """
  _check_index("TensorListGetItem", int(index), len(input_handle.items))
  item = input_handle.items[int(index)]
  if item is not None:
    return item
  return _filled(input_handle, element_shape, element_dtype.numpy)[int(index)]


@host_op("TensorListStack", ignores=_TYPES, always=True)
def tensor_list_stack(
  input_handle: TensorList, element_shape: np.ndarray, *, element_dtype: DType, num_elements: int = -1
) -> np.ndarray:
  """Returns the items as rows of one tensor.

  Raises:
    InvalidInputError: the items differ in shape, or their number is not the declared one.
  """
  if num_elements not in (-1, len(input_handle.items)):
    raise InvalidInputError(
      f"TensorListStack: the list has {len(input_handle.items)} items; expected {num_elements} (num_elements)."
    )
  items = _filled(input_handle, element_shape, element_dtype.numpy)
  if not items:
    shape = _shape(element_shape) or input_handle.shape or ()
    return np.zeros((0, *(max(size, 0) for size in shape)), element_dtype.numpy)
  return _stacked(items, element_dtype)


def _stacked(items: Sequence[np.ndarray], dtype: DType) -> np.ndarray:
  stacked = np.empty((len(items), *items[0].shape), dtype.numpy)
  for row, item in enumerate(items):
    if item.shape != items[0].shape:
      raise InvalidInputError(
        f"TensorListStack: item {row} has shape {item.shape}; expected {items[0].shape}, that of item 0."
      )
    stacked[row, ...] = item  # without the ellipsis, an array of dtype object keeps scalars as arrays
  return stacked


@host_op("TensorListGather", ignores=_TYPES, always=True)
def tensor_list_gather(
  input_handle: TensorList, indices: np.ndarray, element_shape: np.ndarray, *, element_dtype: DType
) -> np.ndarray:
  """Returns some of the items as rows of one tensor.

  Raises:
    InvalidInputError: an index is out of range, or the items differ in shape.
  """
  for index in indices.tolist():
    _check_index("TensorListGather", index, len(input_handle.items))
  picked = input_handle.with_items([input_handle.items[index] for index in indices.tolist()])
  return tensor_list_stack(picked, element_shape, element_dtype=element_dtype)


@host_op("TensorListScatterV2", ignores=_TYPES, always=True)
def tensor_list_scatter_v2(
  tensor: np.ndarray, indices: np.ndarray, element_shape: np.ndarray, num_elements: np.ndarray
) -> TensorList:
  """Returns a list with the rows of a tensor at some positions.

  Its length is `num_elements`, or just enough for all positions if that is -1.

  Raises:
    InvalidInputError: an index is out of range.
  """
  length = int(num_elements) if num_elements != -1 else int(np.max(indices, initial=-1)) + 1
  items: list[np.ndarray | None] = [None] * length
  for index, row in zip(indices.tolist(), tensor, strict=True):
    _check_index("TensorListScatterV2", index, length)
    items[index] = np.asarray(row, tensor.dtype)
  return TensorList(tuple(items), _shape(element_shape))


@host_op("TensorListPushBack", ignores=_TYPES, always=True)
def tensor_list_push_back(input_handle: TensorList, tensor: np.ndarray) -> TensorList:
  """Returns a list with one more item."""
  return input_handle.with_items((*input_handle.items, tensor))


@host_op("TensorListPopBack", ignores=_TYPES, always=True)
def tensor_list_pop_back(
  input_handle: TensorList, element_shape: np.ndarray, *, element_dtype: DType
) -> tuple[TensorList, np.ndarray]:
  """Returns a list without its last item, and that item.

  Raises:
    InvalidInputError: the list is empty.
  """
  if not input_handle.items:
    raise InvalidInputError("TensorListPopBack: the list is empty.")
  last = _filled(input_handle, element_shape, element_dtype.numpy)[-1]
  return input_handle.with_items(input_handle.items[:-1]), last


@host_op("TensorListConcatV2", ignores=_TYPES, always=True)
def tensor_list_concat_v2(
  input_handle: TensorList, element_shape: np.ndarray, leading_dims: np.ndarray, *, element_dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows of all items in one tensor, and the number of rows of each item."""
  del leading_dims
  items = _filled(input_handle, element_shape, element_dtype.numpy)
  lengths = np.array([len(item) for item in items], np.int64)
  shape = _shape(element_shape) or (0,)
  empty = np.zeros((0, *(max(size, 0) for size in shape[1:])), element_dtype.numpy)
  return (np.concatenate(items) if items else empty), lengths


@host_op("TensorListConcat", ignores=_TYPES, always=True)
def tensor_list_concat(input_handle: TensorList, *, element_dtype: DType) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows of all items in one tensor, and the number of rows of each item."""
  return tensor_list_concat_v2(input_handle, np.asarray(-1), np.zeros(0, np.int64), element_dtype=element_dtype)
