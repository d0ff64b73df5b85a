"""TensorFlow's tensor lists (TF2 `TensorArray`s, `map_fn`, `scan`, RNNs): one buffer, updated functionally."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax.context import Context
from graftax.ops_jax.errors import InvalidInputError, StaticInputError
from graftax.ops_jax.gather import positions_or_end
from graftax.ops_jax.registry import register
from graftax.ops_jax.tensor_list_value import TensorList, check_index, declared_shape
from graftax.ops_jax.values import Array, Static, Value, shape_vector

__all__ = [
  "empty_tensor_list",
  "tensor_list_concat",
  "tensor_list_concat_lists",
  "tensor_list_concat_v2",
  "tensor_list_element_shape",
  "tensor_list_from_tensor",
  "tensor_list_gather",
  "tensor_list_get_item",
  "tensor_list_length",
  "tensor_list_pop_back",
  "tensor_list_push_back",
  "tensor_list_reserve",
  "tensor_list_resize",
  "tensor_list_scatter",
  "tensor_list_scatter_into_existing_list",
  "tensor_list_scatter_v2",
  "tensor_list_set_item",
  "tensor_list_split",
  "tensor_list_stack",
]

_IGNORES = ("element_dtype", "shape_type")


@register("EmptyTensorList", ignores=("shape_type",))
def empty_tensor_list(element_shape: Value, max_num_elements: Static[int], *, element_dtype: np.dtype) -> TensorList:
  """A list without elements.

  Source op: `tf.raw_ops.EmptyTensorList`.

  Args:
    element_shape: shape of every element, -1 where unknown.
    max_num_elements: the most elements it may hold; -1 for no bound.
    element_dtype: dtype of every element.
  """
  bound = None if max_num_elements < 0 else max_num_elements
  return _new_list(0, element_shape, element_dtype, max_length=bound)


@register("TensorListReserve", ignores=("shape_type",))
def tensor_list_reserve(element_shape: Value, num_elements: Static[int], *, element_dtype: np.dtype) -> TensorList:
  """A list of `num_elements` zeros.

  Source op: `tf.raw_ops.TensorListReserve`.
  """
  return _new_list(num_elements, element_shape, element_dtype)


@register("TensorListFromTensor", ignores=_IGNORES)
def tensor_list_from_tensor(tensor: Array, element_shape: Value) -> TensorList:
  """The list of slices of `[n, ...]` along its first axis.

  Source op: `tf.raw_ops.TensorListFromTensor`.
  """
  length = tensor.shape[0]
  return TensorList(tensor, length, tensor.dtype, tuple(tensor.shape[1:]), peak=length)


@register("TensorListStack", ignores=("element_dtype",))
def tensor_list_stack(ctx: Context, input_handle: TensorList, element_shape: Value, *, num_elements: int = -1) -> Array:
  """All elements as `[n, ...]`.

  Source op: `tf.raw_ops.TensorListStack`.

  Raises:
    InvalidInputError: the list has not `num_elements` elements.
  """
  what = _what(ctx, "TensorListStack")
  length = input_handle.static_length(what)
  if num_elements >= 0 and length != num_elements:
    raise InvalidInputError(f"{what}: the list has {length} elements; expected {num_elements}.")
  shape = input_handle.checked_element_shape(element_shape, what)
  buffer = input_handle.allocated(shape).buffer
  assert buffer is not None
  return buffer[:length]


@register("TensorListGetItem", ignores=("Tshape", "element_dtype"))
def tensor_list_get_item(ctx: Context, input_handle: TensorList, index: Array, element_shape: Value) -> Array:
  """Element `index`.

  Source op: `tf.raw_ops.TensorListGetItem`.

  Differs from TF: a traced index outside the list gives the nearest element instead of an error.
  """
  what = _what(ctx, "TensorListGetItem")
  check_index(index, input_handle, what)
  shape = input_handle.checked_element_shape(element_shape, what)
  buffer = input_handle.allocated(shape).buffer
  return jax.lax.dynamic_index_in_dim(buffer, index, keepdims=False)


@register("TensorListSetItem", ignores=("element_dtype",))
def tensor_list_set_item(
  ctx: Context, input_handle: TensorList, index: Array, item: Array, *, resize_if_index_out_of_bounds: bool = False
) -> TensorList:
  """The list with element `index` replaced; one element longer or more where `resize_if_index_out_of_bounds` allows.

  Source op: `tf.raw_ops.TensorListSetItem`.
  """
  tensor_list = input_handle
  static = not isinstance(index, jax.core.Tracer) and tensor_list.has_static_length
  if resize_if_index_out_of_bounds and static and int(index) >= tensor_list.static_length("TensorListSetItem"):
    tensor_list = tensor_list.with_length(int(index) + 1)
  elif resize_if_index_out_of_bounds and not static:
    tensor_list = dataclasses.replace(tensor_list, length=jnp.maximum(tensor_list.length, index + 1))
  else:
    check_index(index, tensor_list, _what(ctx, "TensorListSetItem"))
  tensor_list = _with_room_for(tensor_list, item)
  buffer = jax.lax.dynamic_update_index_in_dim(tensor_list.buffer, item.astype(tensor_list.element_dtype), index, 0)
  return dataclasses.replace(tensor_list, buffer=buffer)


@register("TensorListPushBack", ignores=("element_dtype",))
def tensor_list_push_back(ctx: Context, input_handle: TensorList, tensor: Array) -> TensorList:
  """The list with one more element at its end.

  Source op: `tf.raw_ops.TensorListPushBack`.
  """
  end = input_handle.length
  if isinstance(end, int):
    if input_handle.max_length is not None and end >= input_handle.max_length:
      raise InvalidInputError(
        f"{_what(ctx, 'TensorListPushBack')}: the list is full: it may hold {input_handle.max_length} elements."
      )
    tensor_list = _with_room_for(input_handle.with_length(end + 1), tensor)
  else:
    tensor_list = dataclasses.replace(_with_room_for(input_handle, tensor), length=end + 1)
  buffer = jax.lax.dynamic_update_index_in_dim(tensor_list.buffer, tensor.astype(tensor_list.element_dtype), end, 0)
  return dataclasses.replace(tensor_list, buffer=buffer)


@register("TensorListPopBack", ignores=("element_dtype",))
def tensor_list_pop_back(ctx: Context, input_handle: TensorList, element_shape: Value) -> tuple[TensorList, Array]:
  """The list without its last element, and that element.

  Source op: `tf.raw_ops.TensorListPopBack`.

  Raises:
    InvalidInputError: the list is empty.
  """
  what = _what(ctx, "TensorListPopBack")
  length = input_handle.length
  if isinstance(length, int) and length == 0:
    raise InvalidInputError(f"{what}: the list is empty.")
  buffer = input_handle.allocated(input_handle.checked_element_shape(element_shape, what)).buffer
  item = jax.lax.dynamic_index_in_dim(buffer, length - 1, keepdims=False)
  if isinstance(length, int):
    return dataclasses.replace(input_handle, buffer=buffer, length=length).with_length(length - 1), item
  return dataclasses.replace(input_handle, buffer=buffer, length=length - 1), item


@register("TensorListLength")
def tensor_list_length(input_handle: TensorList) -> Array:
  """Number of elements, int32.

  Source op: `tf.raw_ops.TensorListLength`.
  """
  length = input_handle.length
  return np.int32(length) if isinstance(length, int) else length


@register("TensorListElementShape")
def tensor_list_element_shape(input_handle: TensorList, *, shape_type: np.dtype) -> Array:
  """The element shape: -1 where it is not known, the scalar -1 where not even the rank is.

  Source op: `tf.raw_ops.TensorListElementShape`.
  """
  if input_handle.buffer is not None:
    return shape_vector(input_handle.buffer.shape[1:], shape_type)
  if input_handle.element_shape is None:
    return np.array(-1, shape_type)
  return shape_vector([-1 if d is None else d for d in input_handle.element_shape], shape_type)


@register("TensorListResize")
def tensor_list_resize(input_handle: TensorList, size: Static[int]) -> TensorList:
  """The list cut, or filled up with zeros, to `size` elements.

  Source op: `tf.raw_ops.TensorListResize`.
  """
  return dataclasses.replace(input_handle, length=input_handle.static_length("TensorListResize")).with_length(size)


@register("TensorListGather", ignores=("element_dtype",))
def tensor_list_gather(ctx: Context, input_handle: TensorList, indices: Array, element_shape: Value) -> Array:
  """Elements at `[n]` indices, as `[n, ...]`.

  Source op: `tf.raw_ops.TensorListGather`.

  Differs from TF: an element that is gathered twice gets the sum of both cotangents; TensorFlow keeps only one.
  """
  shape = input_handle.checked_element_shape(element_shape, _what(ctx, "TensorListGather"))
  return jnp.take(input_handle.allocated(shape).buffer, indices, axis=0, mode="clip")


@register("TensorListScatter", ignores=_IGNORES)
def tensor_list_scatter(tensor: Array, indices: Array, element_shape: Value) -> TensorList:
  """A list, as long as its largest index asks for, that holds slices of `[n, ...]` at `[n]` indices.

  Source op: `tf.raw_ops.TensorListScatter`.
  """
  return _scatter(tensor, indices, -1)


@register("TensorListScatterV2", ignores=_IGNORES)
def tensor_list_scatter_v2(
  tensor: Array, indices: Array, element_shape: Value, num_elements: Static[int]
) -> TensorList:
  """A list of `num_elements` (-1: as many as the largest index asks for) with slices of `[n, ...]` at `[n]` indices.

  Source op: `tf.raw_ops.TensorListScatterV2`.
  """
  return _scatter(tensor, indices, num_elements)


@register("TensorListScatterIntoExistingList", ignores=("element_dtype",))
def tensor_list_scatter_into_existing_list(input_handle: TensorList, tensor: Array, indices: Array) -> TensorList:
  """The list with slices of `[n, ...]` written at `[n]` indices; longer where a known index asks for it.

  Source op: `tf.raw_ops.TensorListScatterIntoExistingList`.
  """
  tensor_list = input_handle
  if not isinstance(indices, jax.core.Tracer) and tensor_list.has_static_length:
    needed = int(np.max(np.asarray(indices), initial=-1)) + 1
    tensor_list = tensor_list.with_length(max(needed, tensor_list.static_length("TensorListScatterIntoExistingList")))
  tensor_list = tensor_list.allocated(tuple(tensor.shape[1:]))
  assert tensor_list.buffer is not None
  return dataclasses.replace(tensor_list, buffer=_with_slices(tensor_list.buffer, indices, tensor))


@register("TensorListSplit", ignores=_IGNORES)
def tensor_list_split(tensor: Array, element_shape: Value, lengths: Static[np.ndarray]) -> TensorList:
  """The list of consecutive pieces of `[n, ...]`, which must all be of one length.

  Source op: `tf.raw_ops.TensorListSplit`.

  Differs from TF: pieces of different lengths are refused, since a JAX list has one element shape.
  """
  sizes = {int(length) for length in lengths}
  if len(sizes) > 1:
    raise StaticInputError(f"TensorListSplit: lengths {lengths.tolist()!r} differ; a JAX list has one element shape.")
  size = sizes.pop() if sizes else 0
  buffer = jnp.reshape(tensor, (len(lengths), size, *tensor.shape[1:]))
  return TensorList(buffer, len(lengths), tensor.dtype, tuple(buffer.shape[1:]), peak=len(lengths))


@register("TensorListConcat", ignores=("element_dtype", "element_shape"))
def tensor_list_concat(ctx: Context, input_handle: TensorList) -> tuple[Array, Array]:
  """All elements joined along their first axis, and the length of each along it.

  Source op: `tf.raw_ops.TensorListConcat`.
  """
  return _concat(ctx, input_handle, np.int32(-1))


@register("TensorListConcatV2", ignores=_IGNORES)
def tensor_list_concat_v2(
  ctx: Context, input_handle: TensorList, element_shape: Value, leading_dims: Array
) -> tuple[Array, Array]:
  """All elements joined along their first axis, and the length of each along it.

  Source op: `tf.raw_ops.TensorListConcatV2`.
  """
  return _concat(ctx, input_handle, element_shape)


@register("TensorListConcatLists", ignores=("element_dtype",))
def tensor_list_concat_lists(input_a: TensorList, input_b: TensorList) -> TensorList:
  """The elements of one list followed by those of another.

  Source op: `tf.raw_ops.TensorListConcatLists`.
  """
  length = input_a.static_length("TensorListConcatLists") + input_b.static_length("TensorListConcatLists")
  buffers = [tensor_list.buffer for tensor_list in (input_a, input_b) if tensor_list.buffer is not None]
  buffer = jnp.concatenate(buffers) if buffers else None
  return dataclasses.replace(input_a, buffer=buffer, length=length, max_length=None, peak=length)


def _concat(ctx: Context, tensor_list: TensorList, element_shape: Value) -> tuple[Array, Array]:
  what = _what(ctx, "TensorListConcat")
  length = tensor_list.static_length(what)
  shape = tensor_list.checked_element_shape(element_shape, what)
  if not shape:
    raise InvalidInputError(f"{what}: elements are scalars, which have no axis to join along.")
  buffer = tensor_list.allocated(shape).buffer
  assert buffer is not None
  joined = jnp.reshape(buffer[:length], (length * shape[0], *shape[1:]))
  return joined, np.full([length], shape[0], np.int64)


def _scatter(tensor: Array, indices: Array, num_elements: int) -> TensorList:
  length = num_elements
  if length < 0:
    if isinstance(indices, jax.core.Tracer):
      raise StaticInputError("TensorListScatter: indices depend on traced data, so num_elements must be given.")
    length = int(np.max(np.asarray(indices), initial=-1)) + 1
  buffer = _with_slices(jnp.zeros((length, *tensor.shape[1:]), tensor.dtype), indices, tensor)
  return TensorList(buffer, length, tensor.dtype, tuple(tensor.shape[1:]), peak=length)


def _with_slices(buffer: Array, indices: Array, tensor: Array) -> Array:
  places = positions_or_end("TensorListScatter", indices, buffer.shape[0])
  return jnp.asarray(buffer).at[places].set(tensor, mode="drop")


def _new_list(length: int, element_shape: Value, dtype: np.dtype[Any], max_length: int | None = None) -> TensorList:
  shape = declared_shape(element_shape)
  tensor_list = TensorList(None, length, np.dtype(dtype), shape, max_length, length)
  if shape is None or None in shape:
    return tensor_list
  return tensor_list.allocated(shape)  # type: ignore[arg-type]  # no None entries, tested above


def _with_room_for(tensor_list: TensorList, item: Array) -> TensorList:
  if tensor_list.buffer is not None and tuple(tensor_list.buffer.shape[1:]) != tuple(item.shape):
    raise InvalidInputError(
      f"tensor list: an element of shape {tuple(item.shape)} was written to a list of shape "
      f"{tuple(tensor_list.buffer.shape[1:])}; a JAX list has one element shape."
    )
  return tensor_list.allocated(tuple(item.shape))


def _what(ctx: Context, op: str) -> str:
  return f"{op} node {ctx.node_name!r} (function {ctx.function_name!r})"
