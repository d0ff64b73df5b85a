"""Tensor lists, as lists of arrays, and ragged tensors in variants: TensorListStack, RaggedTensorToVariant, others."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.graphdef_ir import DType
from graftax.ops_jax import Context, InvalidInputError

__all__ = ["TensorList"]

_INT64 = np.dtype(np.int64)
_POINTER_BYTES = 8
# What NumPy takes for the array of one item, besides its elements.
_ITEM_BYTES = 112
# Arrays of a ragged tensor in a variant: its values, and two or three for its row splits.
_RAGGED_BYTES = 4 * _ITEM_BYTES
# Shorter lists do not count in `known_bytes`; arrays with so few elements do not either.
_SHORT = 1 << 20
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


def _unset(ctx: Context, op: str, source: TensorList, element_shape: np.ndarray, element_dtype: DType) -> np.ndarray:
  """Returns what takes the place of items that were never set."""
  known = [_shape(element_shape), source.shape, *(np.shape(item) for item in source.items if item is not None)]
  shape = next((sizes for sizes in reversed(known) if sizes is not None and -1 not in sizes), None)
  if shape is None:
    raise InvalidInputError("TensorList: an item was never set and its shape is unknown; give an element_shape.")
  dtype = _numpy(element_dtype)
  ctx.budget.check_array(shape, dtype.itemsize, _where(ctx, op))
  return np.full(shape, b"" if dtype.hasobject else 0, dtype)


def _filled(
  ctx: Context, op: str, source: TensorList, element_shape: np.ndarray, element_dtype: DType
) -> list[np.ndarray]:
  """Returns the items, which a caller is about to put into one array, with zeros for those that were never set."""
  is_full = all(item is not None for item in source.items)
  zero = np.zeros(()) if is_full else _unset(ctx, op, source, element_shape, element_dtype)
  items = [zero if item is None else np.asarray(item) for item in source.items]
  ctx.budget.check_array((sum(item.size for item in items),), _numpy(element_dtype).itemsize, _where(ctx, op))
  return items


def _numpy(dtype: DType) -> np.dtype:
  """Returns the dtype of the items; variants are objects."""
  return np.dtype(object) if dtype.base is DType.VARIANT else dtype.numpy


def _check_index(op: str, index: int, num_items: int) -> None:
  if not 0 <= index < num_items:
    raise InvalidInputError(f"{op}: index {index} is out of range for {num_items} items.")


def _where(ctx: Context, op: str) -> str:
  return f"{op} node {ctx.node_name!r} (function {ctx.function_name!r})"


def _check_length(ctx: Context, op: str, length: int, item_bytes: int = _POINTER_BYTES) -> None:
  """Raises if a list cannot have a length that an index, a size or other lists ask for, and counts a long one."""
  if length < 0:
    raise InvalidInputError(f"{op}: the length {length} is negative.")
  ctx.budget.check_array((length,), item_bytes, _where(ctx, op))
  if length > _SHORT:
    ctx.budget.spend_known_bytes(length * item_bytes, _where(ctx, op))


@host_op("EmptyTensorList", ignores=_TYPES, always=True)
def empty_tensor_list(element_shape: np.ndarray, max_num_elements: np.ndarray) -> TensorList:
  """Returns an empty list."""
  del max_num_elements
  return TensorList((), _shape(element_shape))


@host_op("TensorListReserve", ignores=_TYPES, always=True)
def tensor_list_reserve(ctx: Context, element_shape: np.ndarray, num_elements: np.ndarray) -> TensorList:
  """Returns a list of items that are not set yet.

  Raises:
    InvalidInputError: the number of items is negative.
    LimitExceededError: the list is longer than the limits of the call allow.
  """
  _check_length(ctx, "TensorListReserve", int(num_elements))
  return TensorList((None,) * int(num_elements), _shape(element_shape))


@host_op("TensorListFromTensor", ignores=_TYPES, always=True)
def tensor_list_from_tensor(ctx: Context, tensor: np.ndarray, element_shape: np.ndarray) -> TensorList:
  """Returns the list of a tensor's rows.

  Raises:
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  _check_length(ctx, "TensorListFromTensor", len(tensor), _ITEM_BYTES)
  return TensorList(tuple(np.asarray(row, tensor.dtype) for row in tensor), _shape(element_shape))


@host_op("TensorListLength", ignores=_TYPES, always=True)
def tensor_list_length(input_handle: TensorList) -> np.ndarray:
  """Returns the number of items, an int32 scalar."""
  return np.asarray(len(input_handle.items), np.int32)


@host_op("TensorListSetItem", ignores=_TYPES, always=True)
def tensor_list_set_item(
  ctx: Context,
  input_handle: TensorList,
  index: np.ndarray,
  item: np.ndarray,
  *,
  resize_if_index_out_of_bounds: bool = False,
) -> TensorList:
  """Returns a list with one item replaced; longer if the index is beyond its end and the attribute allows that.

  Raises:
    InvalidInputError: the index is out of range.
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  position, length = int(index), len(input_handle.items)
  if resize_if_index_out_of_bounds:
    length = max(position + 1, length)
  _check_length(ctx, "TensorListSetItem", length)
  items = [*input_handle.items, *(None,) * (length - len(input_handle.items))]
  _check_index("TensorListSetItem", position, len(items))
  items[position] = item
  return input_handle.with_items(items)


@host_op("TensorListGetItem", ignores=_TYPES, always=True)
def tensor_list_get_item(
  ctx: Context, input_handle: TensorList, index: np.ndarray, element_shape: np.ndarray, *, element_dtype: DType
) -> np.ndarray:
  """Returns one item.

  Raises:
    InvalidInputError: the index is out of range, or the item was never set and its shape is unknown.
    LimitExceededError: an item that was never set is larger than the limits of the call allow.
  """
  _check_index("TensorListGetItem", int(index), len(input_handle.items))
  return _item(ctx, "TensorListGetItem", input_handle, int(index), element_shape, element_dtype)


def _item(
  ctx: Context, op: str, source: TensorList, index: int, element_shape: np.ndarray, element_dtype: DType
) -> np.ndarray:
  item = source.items[index]
  return _unset(ctx, op, source, element_shape, element_dtype) if item is None else item


@host_op("TensorListStack", ignores=_TYPES, always=True)
def tensor_list_stack(
  ctx: Context, input_handle: TensorList, element_shape: np.ndarray, *, element_dtype: DType, num_elements: int = -1
) -> np.ndarray:
  """Returns the items as rows of one tensor.

  Raises:
    InvalidInputError: the items differ in shape, or their number is not the declared one.
    LimitExceededError: the items take more memory together than the limits of the call allow.
  """
  if num_elements not in (-1, len(input_handle.items)):
    raise InvalidInputError(
      f"TensorListStack: the list has {len(input_handle.items)} items; expected {num_elements} (num_elements)."
    )
  items = _filled(ctx, "TensorListStack", input_handle, element_shape, element_dtype)
  if not items:
    shape = _shape(element_shape) or input_handle.shape or ()
    return np.zeros((0, *(max(size, 0) for size in shape)), _numpy(element_dtype))
  return _stacked(items, element_dtype)


def _stacked(items: Sequence[np.ndarray], dtype: DType) -> np.ndarray:
  for row, item in enumerate(items):
    if item.shape != items[0].shape:
      raise InvalidInputError(
        f"TensorListStack: item {row} has shape {item.shape}; expected {items[0].shape}, that of item 0."
      )
  stacked = np.empty((len(items), *items[0].shape), _numpy(dtype))
  for row, item in enumerate(items):
    stacked[row, ...] = item  # without the ellipsis, an array of dtype object keeps scalars as arrays
  return stacked


@host_op("TensorListGather", ignores=_TYPES, always=True)
def tensor_list_gather(
  ctx: Context, input_handle: TensorList, indices: np.ndarray, element_shape: np.ndarray, *, element_dtype: DType
) -> np.ndarray:
  """Returns some of the items as rows of one tensor.

  Raises:
    InvalidInputError: an index is out of range, or the items differ in shape.
    LimitExceededError: the items take more memory together than the limits of the call allow.
  """
  for index in indices.tolist():
    _check_index("TensorListGather", index, len(input_handle.items))
  picked = input_handle.with_items([input_handle.items[index] for index in indices.tolist()])
  return tensor_list_stack(ctx, picked, element_shape, element_dtype=element_dtype)


@host_op("TensorListScatterV2", ignores=_TYPES, always=True)
def tensor_list_scatter_v2(
  ctx: Context, tensor: np.ndarray, indices: np.ndarray, element_shape: np.ndarray, num_elements: np.ndarray
) -> TensorList:
  """Returns a list with the rows of a tensor at some positions.

  Its length is `num_elements`, or just enough for all positions if that is -1.

  Raises:
    InvalidInputError: an index is out of range.
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  length = int(num_elements) if num_elements != -1 else int(np.max(indices, initial=-1)) + 1
  return TensorList(_scattered(ctx, "TensorListScatterV2", (), length, tensor, indices), _shape(element_shape))


def _scattered(
  ctx: Context, op: str, items: Sequence[Any], length: int, tensor: np.ndarray, indices: np.ndarray
) -> tuple[Any, ...]:
  """Returns items, with further ones that are not set up to a length, and rows of a tensor at some positions."""
  _check_length(ctx, op, length)
  _check_length(ctx, op, len(tensor), _ITEM_BYTES)
  scattered = [*items, *(None,) * (length - len(items))]
  if len(indices) != len(tensor):
    raise InvalidInputError(f"{op}: {len(indices)} indices of {len(tensor)} rows.")
  for index, row in zip(indices.tolist(), tensor, strict=True):
    _check_index(op, index, length)
    scattered[index] = np.asarray(row, tensor.dtype)
  return tuple(scattered)


@host_op("TensorListPushBack", ignores=_TYPES, always=True)
def tensor_list_push_back(ctx: Context, input_handle: TensorList, tensor: np.ndarray) -> TensorList:
  """Returns a list with one more item.

  Raises:
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  _check_length(ctx, "TensorListPushBack", len(input_handle.items) + 1)
  return input_handle.with_items((*input_handle.items, tensor))


@host_op("TensorListPopBack", ignores=_TYPES, always=True)
def tensor_list_pop_back(
  ctx: Context, input_handle: TensorList, element_shape: np.ndarray, *, element_dtype: DType
) -> tuple[TensorList, np.ndarray]:
  """Returns a list without its last item, and that item.

  Raises:
    InvalidInputError: the list is empty, or the item was never set and its shape is unknown.
    LimitExceededError: an item that was never set, or the list, is larger than the limits of the call allow.
  """
  if not input_handle.items:
    raise InvalidInputError("TensorListPopBack: the list is empty.")
  last = _item(ctx, "TensorListPopBack", input_handle, -1, element_shape, element_dtype)
  _check_length(ctx, "TensorListPopBack", len(input_handle.items) - 1)
  return input_handle.with_items(input_handle.items[:-1]), last


@host_op("TensorListConcatV2", ignores=_TYPES, always=True)
def tensor_list_concat_v2(
  ctx: Context, input_handle: TensorList, element_shape: np.ndarray, leading_dims: np.ndarray, *, element_dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows of all items in one tensor, and the number of rows of each item.

  Raises:
    InvalidInputError: an item was never set and its shape is unknown.
    LimitExceededError: the items take more memory together than the limits of the call allow.
  """
  del leading_dims
  items = _filled(ctx, "TensorListConcat", input_handle, element_shape, element_dtype)
  lengths = np.array([len(item) for item in items], np.int64)
  shape = _shape(element_shape) or (0,)
  empty = np.zeros((0, *(max(size, 0) for size in shape[1:])), _numpy(element_dtype))
  return (np.concatenate(items) if items else empty), lengths


@host_op("TensorListConcat", ignores=_TYPES, always=True)
def tensor_list_concat(
  ctx: Context, input_handle: TensorList, *, element_dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows of all items in one tensor, and the number of rows of each item; raises as the other version."""
  return tensor_list_concat_v2(ctx, input_handle, np.asarray(-1), np.zeros(0, np.int64), element_dtype=element_dtype)


@host_op("TensorListElementShape", ignores=("shape_type",), always=True)
def tensor_list_element_shape(input_handle: TensorList) -> np.ndarray:
  """Returns the sizes that all items have, with -1 for unknown ones; the scalar -1 if the rank is unknown."""
  return np.asarray(-1 if input_handle.shape is None else input_handle.shape, np.int64)


@host_op("TensorListResize", ignores=_TYPES, always=True)
def tensor_list_resize(ctx: Context, input_handle: TensorList, size: np.ndarray) -> TensorList:
  """Returns the list, cut or with further items that are not set yet.

  Raises:
    InvalidInputError: the size is negative.
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  _check_length(ctx, "TensorListResize", int(size))
  items = input_handle.items[: int(size)]
  return input_handle.with_items((*items, *(None,) * (int(size) - len(items))))


@host_op("TensorListScatter", ignores=_TYPES, always=True)
def tensor_list_scatter(ctx: Context, tensor: np.ndarray, indices: np.ndarray, element_shape: np.ndarray) -> TensorList:
  """Returns a list with the rows of a tensor at some positions, just long enough for them."""
  return tensor_list_scatter_v2(ctx, tensor, indices, element_shape, np.asarray(-1))


@host_op("TensorListScatterIntoExistingList", ignores=_TYPES, always=True)
def tensor_list_scatter_into_existing_list(
  ctx: Context, input_handle: TensorList, tensor: np.ndarray, indices: np.ndarray
) -> TensorList:
  """Returns a list with some items replaced by the rows of a tensor; longer if a position is beyond its end.

  Raises:
    InvalidInputError: an index is negative.
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  items = input_handle.items
  length = max(len(items), int(np.max(indices, initial=-1)) + 1)
  op = "TensorListScatterIntoExistingList"
  return input_handle.with_items(_scattered(ctx, op, items, length, tensor, indices))


@host_op("TensorListSplit", ignores=_TYPES, always=True)
def tensor_list_split(ctx: Context, tensor: np.ndarray, element_shape: np.ndarray, lengths: np.ndarray) -> TensorList:
  """Returns the list of consecutive pieces of a tensor.

  Raises:
    InvalidInputError: the lengths do not divide the rows of the tensor.
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  _check_length(ctx, "TensorListSplit", len(lengths), _ITEM_BYTES)
  if (lengths < 0).any() or sum(lengths.tolist()) != len(tensor):
    raise InvalidInputError(f"TensorListSplit: lengths {lengths.tolist()!r} do not divide {len(tensor)} rows.")
  return TensorList(tuple(np.split(tensor, np.cumsum(lengths)[:-1])) if len(lengths) else (), _shape(element_shape))


@host_op("TensorListConcatLists", ignores=_TYPES, always=True)
def tensor_list_concat_lists(ctx: Context, input_a: TensorList, input_b: TensorList) -> TensorList:
  """Returns the items of one list, and then those of another.

  Raises:
    LimitExceededError: the list would be longer than the limits of the call allow.
  """
  _check_length(ctx, "TensorListConcatLists", len(input_a.items) + len(input_b.items))
  return input_a.with_items((*input_a.items, *input_b.items))


@dataclasses.dataclass(frozen=True, slots=True)
class _Ragged:
  """A ragged tensor in a variant.

  Attributes:
    splits: the row splits of each ragged dimension, outermost first.
    values: the values.
  """

  splits: tuple[np.ndarray, ...]
  values: np.ndarray

  @property
  def num_rows(self) -> int:
    """Returns the first size of the ragged tensor."""
    return len(self.splits[0]) - 1 if self.splits else len(self.values)


@host_op("RaggedTensorToVariant", ignores=("RAGGED_RANK", "Tvalues", "Tsplits"), always=True)
def ragged_tensor_to_variant(
  ctx: Context, rt_nested_splits: list[np.ndarray], rt_dense_values: np.ndarray, *, batched_input: bool
) -> np.ndarray:
  """Returns a ragged tensor as a variant, or a vector of variants, one for each of its rows.

  Raises:
    InvalidInputError: row splits do not divide what they should.
    LimitExceededError: there are more rows than the limits of the call allow.
  """
  whole = _Ragged(tuple(rt_nested_splits), rt_dense_values)
  if batched_input:
    _check_length(ctx, "RaggedTensorToVariant", max(whole.num_rows, 0), _RAGGED_BYTES)
  variants = np.empty(whole.num_rows if batched_input else (), object)
  for row in range(variants.size) if batched_input else ():
    variants[row] = _row(whole, row)
  if not batched_input:
    variants[()] = whole
  return variants


def _row(whole: _Ragged, row: int) -> _Ragged:
  if not whole.splits:
    return _Ragged((), np.asarray(whole.values[row], whole.values.dtype))
  start, end = whole.splits[0][row], whole.splits[0][row + 1]
  splits = []
  for inner in (*whole.splits[1:], None):
    limit = len(whole.values) if inner is None else len(inner) - 1
    if not 0 <= start <= end <= limit:
      raise InvalidInputError(f"RaggedTensorToVariant: row splits {start} and {end} of {limit} rows or values.")
    if inner is not None:
      splits.append(inner[start : end + 1] - inner[start])
      start, end = inner[start], inner[end]
  return _Ragged(tuple(splits), whole.values[start:end])


@host_op("RaggedTensorFromVariant", always=True)
def ragged_tensor_from_variant(
  ctx: Context,
  encoded_ragged: np.ndarray,
  *,
  output_ragged_rank: int,
  Tvalues: np.dtype,
  input_ragged_rank: int = -1,
  Tsplits: np.dtype = _INT64,
) -> list[np.ndarray]:
  """Returns the row splits and the values of a ragged tensor in a variant, or of one whose rows are in variants.

  Raises:
    InvalidInputError: the variants do not hold ragged tensors of one kind, or other numbers of row splits.
    LimitExceededError: the ragged tensors take more memory together than the limits of the call allow.
  """
  num_splits = output_ragged_rank - np.ndim(encoded_ragged)
  variants = np.asarray(encoded_ragged, object)
  _check_joined(ctx, variants)
  found = _joined(variants, max(num_splits, 0), Tvalues, Tsplits)
  if len(found.splits) != output_ragged_rank or found.values.dtype != Tvalues:
    raise InvalidInputError(
      f"RaggedTensorFromVariant: {len(found.splits)} row splits of {found.values.dtype}; expected {output_ragged_rank} "
      f"of {Tvalues}."
    )
  return [*(splits.astype(Tsplits) for splits in found.splits), found.values]


def _check_joined(ctx: Context, variants: np.ndarray) -> None:
  """Raises if the ragged tensors of variants, of which several may be the same one, are too large together."""
  where = _where(ctx, "RaggedTensorFromVariant")
  ctx.budget.check_array((variants.size,), _POINTER_BYTES, where)
  values_bytes, num_splits = 0, variants.size
  for item in variants.flat:
    if isinstance(item, _Ragged):
      values_bytes += item.values.nbytes
      num_splits += sum(map(len, item.splits))
  ctx.budget.check_array((values_bytes,), 1, where)
  ctx.budget.check_array((num_splits,), _INT64.itemsize, where)


def _joined(variants: np.ndarray, num_splits: int, values_dtype: np.dtype, splits_dtype: np.dtype) -> _Ragged:
  """Returns one ragged tensor of variants of any rank."""
  if not variants.ndim:
    item = variants[()]
    if not isinstance(item, _Ragged):
      raise InvalidInputError(f"RaggedTensorFromVariant: a variant holds a {type(item).__name__}.")
    return item
  rows = [_joined(np.asarray(part, object), num_splits, values_dtype, splits_dtype) for part in variants]
  if len({len(row.splits) for row in rows}) > 1 or len({row.values.shape[1:] for row in rows}) > 1:
    raise InvalidInputError("RaggedTensorFromVariant: the variants hold ragged tensors of different ranks.")
  if not rows:
    empty = np.zeros(1, splits_dtype)
    return _Ragged((empty,) * (num_splits + variants.ndim), np.zeros(0, values_dtype))
  outer = np.cumsum([0, *(row.num_rows for row in rows)])
  inner = [_joined_splits([row.splits[level] for row in rows]) for level in range(len(rows[0].splits))]
  return _Ragged((outer, *inner), np.concatenate([row.values for row in rows]))


def _joined_splits(parts: Sequence[np.ndarray]) -> np.ndarray:
  return np.cumsum(np.concatenate([np.zeros(1, np.int64), *map(np.diff, parts)]))
