"""Tensor lists (TF2 TensorArrays, `map_fn`, `scan`, RNNs): TensorListReserve and related ops."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget, DType
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, Static, StaticSize, Unconverted, Value, shape_vector
from graftax.ops_jax.array.gather import positions_or_end
from graftax.ops_jax.variants.padded_value import PaddedElement, RaggedValue, is_concrete
from graftax.ops_jax.variants.row_packing import packed_rows, padded_rows
from graftax.ops_jax.variants.structures import (
  Constant,
  array_dtype,
  as_held,
  conformed,
  joined_elements,
  kind_of,
  only,
  released,
  shapes_of,
  with_element,
)
from graftax.ops_jax.variants.tensor_list_value import (
  VARIANT,
  Size,
  TensorList,
  check_index,
  declared_shape,
  is_size,
  larger,
  valid_length,
)

__all__ = [
  "array_buffer",
  "empty_tensor_list",
  "new_list",
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
  "without_last",
]

_IGNORES = ("element_dtype", "shape_type")


@register("EmptyTensorList", ignores=("shape_type",))
def empty_tensor_list(element_shape: Value, max_num_elements: Static[int], *, element_dtype: DType) -> TensorList:
  """Returns a list without elements.

  Source op: `tf.raw_ops.EmptyTensorList`.

  Args:
    element_shape: shape of every element, -1 where unknown.
    max_num_elements: the most elements it may hold; -1 for no bound.
    element_dtype: dtype of every element; VARIANT for lists and optionals.
  """
  bound = None if max_num_elements < 0 else max_num_elements
  return new_list(0, declared_shape(element_shape), _numpy(element_dtype), max_length=bound)


@register("TensorListReserve", ignores=("shape_type",))
def tensor_list_reserve(element_shape: Value, num_elements: StaticSize, *, element_dtype: DType) -> TensorList:
  """Returns a list of `num_elements` zeros.

  Source op: `tf.raw_ops.TensorListReserve`.
  """
  return new_list(num_elements, declared_shape(element_shape), _numpy(element_dtype))


@register("TensorListFromTensor", ignores=_IGNORES)
def tensor_list_from_tensor(tensor: Value, element_shape: Value) -> TensorList:
  """Returns the list of slices of `[n, ...]` along its first axis.

  Source op: `tf.raw_ops.TensorListFromTensor`.
  """
  if isinstance(tensor, RaggedValue):
    (length,) = tensor.shape
    return TensorList(tensor, length, length, VARIANT, (), peak=length)
  return TensorList.of(tensor)


@register("TensorListStack")
def tensor_list_stack(
  ctx: Context,
  input_handle: TensorList,
  element_shape: Value,
  *,
  element_dtype: DType | None = None,
  num_elements: int = -1,
) -> Array:
  """Returns all elements as `[n, ...]`.

  Source op: `tf.raw_ops.TensorListStack`.

  Raises:
    InvalidInputError: the list does not have `num_elements` elements.
  """
  what = _what(ctx, "TensorListStack")
  tensor_list = _given(input_handle, element_dtype, what)
  length = tensor_list.static_length(what)
  if num_elements >= 0 and isinstance(length, int) and length != num_elements:
    raise InvalidInputError(f"{what}: the list has {length} elements; expected {num_elements}.")
  return array_buffer(tensor_list.with_length(length), element_shape, what)


@register("TensorListGetItem", ignores=("Tshape",))
def tensor_list_get_item(
  ctx: Context, input_handle: TensorList, index: Array, element_shape: Value, *, element_dtype: DType | None = None
) -> Value:
  """Returns element `index`.

  Source op: `tf.raw_ops.TensorListGetItem`.

  Differs from TF: a traced index outside the list gives the nearest element instead of an error.
  """
  what = _what(ctx, "TensorListGetItem")
  tensor_list = _given(input_handle, element_dtype, what)
  check_index(index, tensor_list, what)
  return _read(_with_buffer(tensor_list, element_shape, what).at(index), what)


@register("TensorListSetItem")
def tensor_list_set_item(
  ctx: Context,
  input_handle: TensorList,
  index: Array,
  item: Value,
  *,
  element_dtype: DType | None = None,
  resize_if_index_out_of_bounds: bool = False,
) -> TensorList:
  """Returns the list with element `index` replaced; longer if `resize_if_index_out_of_bounds` is true.

  Source op: `tf.raw_ops.TensorListSetItem`.
  """
  what = _what(ctx, "TensorListSetItem")
  tensor_list = _given(input_handle, element_dtype, what)
  element = as_held(item, tensor_list.element_dtype, keep_known=False)
  tensor_list = _with_elements_like(tensor_list, element, what)
  static = not isinstance(index, jax.core.Tracer) and tensor_list.has_static_length
  if resize_if_index_out_of_bounds and static:
    tensor_list = tensor_list.with_length(larger(tensor_list.static_length(what), int(index) + 1))
  elif resize_if_index_out_of_bounds:
    tensor_list = _with_room_at(tensor_list, index, what)
  else:
    check_index(index, tensor_list, what)
  return tensor_list.updated(index, conformed(element, tensor_list.element))


@register("TensorListPushBack")
def tensor_list_push_back(
  ctx: Context, input_handle: TensorList, tensor: Unconverted, *, element_dtype: DType | None = None
) -> TensorList:
  """Returns the list with one more element at its end.

  Source op: `tf.raw_ops.TensorListPushBack`.

  If all elements are the same known value, elements read from the list are known too.
  """
  what = _what(ctx, "TensorListPushBack")
  tensor_list = _given(input_handle, element_dtype, what)
  element = as_held(tensor, tensor_list.element_dtype)
  end = tensor_list.length
  max_length = tensor_list.max_length
  if isinstance(end, int) and isinstance(max_length, int) and end >= max_length:
    raise InvalidInputError(f"{what}: the list is full: it may hold {max_length} elements.")
  tensor_list = _with_elements_like(tensor_list, element, what)
  if is_size(end):
    tensor_list = tensor_list.with_length(end + 1)
  else:
    capacity = tensor_list.capacity
    is_tight = not tensor_list.has_room and (max_length is None or capacity != larger(capacity, max_length))
    tensor_list = dataclasses.replace(tensor_list.with_capacity(larger(capacity + is_tight, 1)), length=end + 1)
  return tensor_list.updated(end, conformed(element, tensor_list.element))


@register("TensorListPopBack")
def tensor_list_pop_back(
  ctx: Context, input_handle: TensorList, element_shape: Value, *, element_dtype: DType | None = None
) -> tuple[TensorList, Value]:
  """Returns the list without its last element, and that element.

  Source op: `tf.raw_ops.TensorListPopBack`.

  Raises:
    InvalidInputError: the list is empty.
  """
  what = _what(ctx, "TensorListPopBack")
  tensor_list = _given(input_handle, element_dtype, what)
  length = tensor_list.length
  if isinstance(length, int) and length == 0:
    raise InvalidInputError(f"{what}: the list is empty.")
  tensor_list = _with_buffer(tensor_list, element_shape, what)
  return without_last(tensor_list), _read(tensor_list.at(length - 1), what)


def without_last(tensor_list: TensorList) -> TensorList:
  """Returns the list without its last element, where it has one."""
  length = tensor_list.length
  return tensor_list.with_length(length - 1) if is_size(length) else dataclasses.replace(tensor_list, length=length - 1)


@register("TensorListLength")
def tensor_list_length(input_handle: TensorList, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Returns the number of elements, int32.

  Source op: `tf.raw_ops.TensorListLength`.

  Args:
    input_handle: the list.
    facts: is told that a traced length is at most the room that the list has.
  """
  tensor_list = only(input_handle, TensorList, None, "TensorListLength")
  if tensor_list.has_static_length:
    return shape_vector([tensor_list.length])[0]
  length = valid_length(tensor_list)
  # Within a loop the room may not be final yet.
  if tensor_list.has_room is not None:
    facts.note_range(length, 0, tensor_list.capacity, is_certain=False)
  return length


@register("TensorListElementShape")
def tensor_list_element_shape(input_handle: TensorList, *, shape_type: np.dtype) -> Array:
  """Returns the element shape, with -1 for unknown dimensions; the scalar -1 if the rank is unknown.

  Source op: `tf.raw_ops.TensorListElementShape`.
  """
  tensor_list = only(input_handle, TensorList, None, "TensorListElementShape")
  if tensor_list.buffer is not None and tensor_list.element_dtype != VARIANT:
    sizes = kind_of(tensor_list.element)[1]
    return shape_vector([-1 if size is None else size for size in sizes], shape_type)
  if tensor_list.element_shape is None:
    return np.array(-1, shape_type)
  return shape_vector([-1 if d is None else d for d in tensor_list.element_shape], shape_type)


@register("TensorListResize")
def tensor_list_resize(ctx: Context, input_handle: TensorList, size: StaticSize) -> TensorList:
  """Returns the list, truncated or padded with zeros to `size` elements.

  Source op: `tf.raw_ops.TensorListResize`.
  """
  what = _what(ctx, "TensorListResize")
  tensor_list = only(input_handle, TensorList, None, what)
  length = tensor_list.static_length(what)
  if length != larger(length, size):
    tensor_list = _with_arrays(tensor_list)
  return tensor_list.with_length(size)


@register("TensorListGather")
def tensor_list_gather(
  ctx: Context, input_handle: TensorList, indices: Array, element_shape: Value, *, element_dtype: DType | None = None
) -> Array:
  """Returns the elements at `[n]` indices, as `[n, ...]`.

  Source op: `tf.raw_ops.TensorListGather`.

  Differs from TF: an element that is gathered twice gets the sum of both cotangents; TensorFlow keeps only one.
  """
  what = _what(ctx, "TensorListGather")
  buffer = array_buffer(_given(input_handle, element_dtype, what), element_shape, what)
  return (np if buffer.dtype.kind == "O" else jnp).take(buffer, indices, axis=0, mode="clip")


@register("TensorListScatter", ignores=_IGNORES)
def tensor_list_scatter(
  tensor: Array, indices: Array, element_shape: Value, *, budget: Budget = NO_BUDGET
) -> TensorList:
  """Returns a list with slices of `[n, ...]` at `[n]` indices, as long as the largest index needs.

  Source op: `tf.raw_ops.TensorListScatter`.
  """
  return _scatter(tensor, indices, -1, budget)


@register("TensorListScatterV2", ignores=_IGNORES)
def tensor_list_scatter_v2(
  tensor: Array, indices: Array, element_shape: Value, num_elements: StaticSize, *, budget: Budget = NO_BUDGET
) -> TensorList:
  """Returns a list of `num_elements` (-1: as the largest index needs) with slices of `[n, ...]` at `[n]` indices.

  Source op: `tf.raw_ops.TensorListScatterV2`.
  """
  return _scatter(tensor, indices, num_elements, budget)


@register("TensorListScatterIntoExistingList", ignores=("element_dtype",))
def tensor_list_scatter_into_existing_list(
  ctx: Context, input_handle: TensorList, tensor: Array, indices: Array
) -> TensorList:
  """Returns the list with slices of `[n, ...]` written at `[n]` indices; longer if a known index needs it.

  Source op: `tf.raw_ops.TensorListScatterIntoExistingList`.
  """
  what = _what(ctx, "TensorListScatterIntoExistingList")
  tensor = jnp.asarray(tensor)
  element = jax.ShapeDtypeStruct(tensor.shape[1:], tensor.dtype)
  tensor_list = _with_elements_like(only(input_handle, TensorList, None, what), element, what)
  if not isinstance(indices, jax.core.Tracer) and tensor_list.has_static_length:
    needed = int(np.max(np.asarray(indices), initial=-1)) + 1
    check_known((needed, *tensor.shape[1:]), ctx.budget, what)
    tensor_list = tensor_list.with_length(larger(needed, tensor_list.static_length(what)))
  return dataclasses.replace(tensor_list, buffer=_with_slices(tensor_list.buffer, indices, tensor))


@register("TensorListSplit", ignores=_IGNORES)
def tensor_list_split(ctx: Context, tensor: Array, element_shape: Value, lengths: Static[np.ndarray]) -> TensorList:
  """Returns the list of consecutive pieces of `[n, ...]`.

  Source op: `tf.raw_ops.TensorListSplit`.
  """
  if sum(lengths.tolist()) != tensor.shape[0] or (lengths < 0).any():
    raise InvalidInputError(
      f"{_what(ctx, 'TensorListSplit')}: the lengths {lengths.tolist()!r} do not divide {tensor.shape[0]} rows."
    )
  if len(set(lengths.tolist())) == 1:
    return TensorList.of(jnp.reshape(tensor, (len(lengths), int(lengths[0]), *tensor.shape[1:])))
  ends = lengths.cumsum(dtype=np.int64)
  bound = int(lengths.max(initial=0))
  pieces = padded_rows(tensor, ends - lengths, ends, bound, ctx.budget, _what(ctx, "TensorListSplit"))
  return TensorList(pieces, len(lengths), len(lengths), array_dtype(np.dtype(tensor.dtype)), None, peak=len(lengths))


@register("TensorListConcat", ignores=("element_dtype", "element_shape"))
def tensor_list_concat(ctx: Context, input_handle: TensorList) -> tuple[Array, Array]:
  """Returns all elements concatenated along their first axis, and the length of each along it.

  Source op: `tf.raw_ops.TensorListConcat`.
  """
  return _concat(ctx, input_handle, np.int32(-1))


@register("TensorListConcatV2", ignores=_IGNORES)
def tensor_list_concat_v2(
  ctx: Context, input_handle: TensorList, element_shape: Value, leading_dims: Array
) -> tuple[Array, Array]:
  """Returns all elements concatenated along their first axis, and the length of each along it.

  Source op: `tf.raw_ops.TensorListConcatV2`.
  """
  return _concat(ctx, input_handle, element_shape)


@register("TensorListConcatLists", ignores=("element_dtype",))
def tensor_list_concat_lists(ctx: Context, input_a: TensorList, input_b: TensorList) -> TensorList:
  """Returns the elements of one list followed by those of another.

  Source op: `tf.raw_ops.TensorListConcatLists`.
  """
  what = _what(ctx, "TensorListConcatLists")
  lists = [only(value, TensorList, None, what) for value in (input_a, input_b)]
  length = sum(value.static_length(what) for value in lists)
  for value in lists:
    if value.buffer is not None:
      lists = [_with_elements_like(other, value.element, what) for other in lists]
  a, b = lists
  buffer = None
  if a.buffer is not None:
    pair = [value.with_capacity(value.static_length(what)).buffer for value in lists]
    buffer = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pair)
  return dataclasses.replace(a, buffer=buffer, length=length, capacity=length, max_length=None, peak=length)


def new_list(
  length: Size, element_shape: tuple[int | None, ...] | None, dtype: np.dtype[Any], max_length: Size | None = None
) -> TensorList:
  """Returns a list of zeros; it has a buffer if the element shape is known and the list is not empty.

  Args:
    length: number of elements.
    element_shape: shape of the elements, as far as it is known.
    dtype: TensorFlow's dtype of the elements.
    max_length: the most elements it may ever hold, or None.
  """
  dtype = dtype if dtype == VARIANT else array_dtype(dtype)
  tensor_list = TensorList(None, length, length, dtype, element_shape, max_length, peak=length)
  if dtype == VARIANT or element_shape is None or None in element_shape or length == 0:
    return tensor_list
  return with_element(tensor_list, jax.ShapeDtypeStruct(element_shape, canonical_dtype(dtype)))


def array_buffer(tensor_list: TensorList, element_shape: Value, what: str) -> Array:
  """Returns the elements as one array `[capacity, ...]`.

  Raises:
    StaticInputError: nothing was written, and neither the list nor `element_shape` gives the shape of elements.
  """
  buffer = _with_arrays(_with_buffer(tensor_list, element_shape, what)).buffer
  return _of_one_shape(buffer, what) if isinstance(buffer, PaddedElement) else buffer


def _of_one_shape(elements: PaddedElement, what: str) -> Array:
  """Returns elements as one array.

  Raises:
    StaticInputError: their sizes depend on traced data.
    InvalidInputError: they differ.
  """
  if not is_concrete(elements.lengths):
    raise StaticInputError(_traced_sizes(what))
  sizes = [None if n is None else set(np.asarray(n).tolist()) for n in elements.lengths]
  if any(size is not None and len(size) > 1 for size in sizes):
    raise InvalidInputError(f"{what}: elements of different shapes cannot be stacked; join them with `concat`.")
  return elements.padded[(slice(None), *(slice(None if not size else size.pop()) for size in sizes))]


def _read(element: Any, what: str) -> Value:
  """Returns an element of a list as an ordinary value.

  Raises:
    StaticInputError: its sizes depend on traced data.
  """
  if not isinstance(element, PaddedElement):
    return released(element)
  if not is_concrete(element.lengths):
    raise StaticInputError(_traced_sizes(what))
  return element.cut()


def _traced_sizes(what: str) -> str:
  return (
    f"{what}: the elements of the list differ in shape, and the sizes of those that are read depend on traced data."
  )


def _with_buffer(tensor_list: TensorList, given: Value, what: str) -> TensorList:
  """Returns the list; if it had no buffer, with one of zeros of the declared or the `given` shape."""
  if tensor_list.buffer is not None:
    return tensor_list
  for shape in (declared_shape(given), tensor_list.element_shape):
    if shape is not None and None not in shape and tensor_list.element_dtype != VARIANT:
      return with_element(tensor_list, jax.ShapeDtypeStruct(shape, canonical_dtype(tensor_list.element_dtype)))
  raise StaticInputError(
    f"{what}: nothing was written to the tensor list and its element shape is {tensor_list.element_shape}; it must be "
    f"fully known. Set the element shape where the list is made."
  )


def _with_elements_like(tensor_list: TensorList, element: Any, what: str) -> TensorList:
  """Returns the list with room for elements of another structure.

  Raises:
    InvalidInputError: one is an array, and they differ in shape.
  """
  wanted = shapes_of(element)
  declared = tensor_list.element_shape
  if tensor_list.element_dtype != VARIANT and declared is not None:
    shape = kind_of(wanted)[1]
    if len(shape) != len(declared) or any(
      d is not None and n is not None and d != n for d, n in zip(declared, shape, strict=True)
    ):
      raise InvalidInputError(f"{what}: an element of shape {shape} for a list of elements of shape {declared}.")
  try:
    # A list without elements accepts any element.
    is_new = tensor_list.buffer is None or tensor_list.capacity == 0
    return with_element(tensor_list, wanted if is_new else joined_elements(tensor_list.element, wanted))
  except InvalidInputError as e:
    raise InvalidInputError(
      f"{what}: all elements of a JAX list have one rank and dtype; got {str(e).partition(';')[0]}. If their number is "
      f"fixed, collect them in a Python list in place of a TensorArray."
    ) from e


def _with_room_at(tensor_list: TensorList, index: Array, what: str) -> TensorList:
  """Returns the list with room at an index that may be beyond its end; the index or the length is traced.

  Raises:
    StaticInputError: the list has no known maximum length.
  """
  if tensor_list.max_length is not None:
    tensor_list = tensor_list.with_capacity(larger(tensor_list.capacity, tensor_list.max_length))
  elif tensor_list.has_room is False:
    raise StaticInputError(
      f"{what}: it depends on traced data which element is written, and the list may grow. Give the list its final "
      f"size where it is made, and dynamic_size=False."
    )
  length = jnp.maximum(tensor_list.length, index + 1)
  # While a loop is sized, the capacity counts what an iteration writes.
  is_counting = tensor_list.has_room is None and tensor_list.max_length is None
  tensor_list = tensor_list.with_capacity(larger(tensor_list.capacity + is_counting, 1))
  return dataclasses.replace(tensor_list, length=length, is_written_beyond=True)


def _with_arrays(tensor_list: TensorList) -> TensorList:
  """Returns the list with arrays for elements that are known while tracing."""
  if tensor_list.buffer is None or not isinstance(tensor_list.element, Constant):
    return tensor_list
  return with_element(tensor_list, jax.eval_shape(lambda: tensor_list.element.array))


def _given(value: Value, element_dtype: DType | None, what: str) -> TensorList:
  return only(value, TensorList, None if element_dtype is None else _numpy(element_dtype), what)


def _numpy(dtype: DType) -> np.dtype[Any]:
  return VARIANT if dtype.base is DType.VARIANT else array_dtype(dtype.numpy)


def _concat(ctx: Context, tensor_list: TensorList, element_shape: Value) -> tuple[Array, Array]:
  what = _what(ctx, "TensorListConcat")
  tensor_list = only(tensor_list, TensorList, None, what)
  length = tensor_list.static_length(what)
  if isinstance(tensor_list.buffer, PaddedElement):
    return _joined_pieces(tensor_list.with_length(length).buffer, ctx.budget, what)
  buffer = array_buffer(tensor_list.with_length(length), element_shape, what)
  shape = buffer.shape[1:]
  if not shape:
    raise InvalidInputError(f"{what}: elements are scalars, which have no axis to join along.")
  joined_elements = jnp.reshape(buffer, (length * shape[0], *shape[1:]))
  return joined_elements, _repeated(shape[0], length)


def _joined_pieces(pieces: PaddedElement, budget: Budget, what: str) -> tuple[Array, Array]:
  """Returns the elements of a list that differ in their first size, one after the other, and these sizes.

  Raises:
    StaticInputError: their sizes depend on traced data.
    InvalidInputError: they are scalars, or differ in other sizes.
    LimitExceededError: the result needs too much memory.
  """
  if not is_concrete(pieces.lengths):
    raise StaticInputError(_traced_sizes(what))
  sizes = np.array([pieces.length(axis) for axis in range(len(pieces.lengths))])
  if len(sizes) == 0 or (sizes[1:] != sizes[1:, :1]).any():
    raise InvalidInputError(f"{what}: elements differ in other sizes than the first; got {sizes.T.tolist()}.")
  others = [slice(None if n is None else int(size[0])) for n, size in zip(pieces.lengths[1:], sizes[1:], strict=True)]
  joined = packed_rows(pieces.padded[(slice(None), slice(None), *others)], sizes[0], budget, what)
  return joined.padded, shape_vector(sizes[0].tolist(), np.int64)


def _repeated(size: Size, times: Size) -> Array:
  """Returns `[times]` copies of one size, int64."""
  if isinstance(times, int):
    return shape_vector([size] * times, np.int64)
  dtype = canonical_dtype(np.dtype(np.int64))
  return jnp.broadcast_to(jnp.asarray(size, dtype), (times,))


def _scatter(tensor: Array, indices: Array, num_elements: int, budget: Budget) -> TensorList:
  length = num_elements
  if isinstance(length, int) and length < 0:
    if isinstance(indices, jax.core.Tracer):
      raise StaticInputError("TensorListScatter: indices depend on traced data, so num_elements must be given.")
    length = int(np.max(np.asarray(indices), initial=-1)) + 1
    check_known((length, *tensor.shape[1:]), budget, "TensorListScatter")
  return TensorList.of(_with_slices(jnp.zeros((length, *tensor.shape[1:]), tensor.dtype), indices, tensor))


def _with_slices(buffer: Array, indices: Array, tensor: Array) -> Array:
  places = positions_or_end("TensorListScatter", indices, buffer.shape[0])
  return jnp.asarray(buffer).at[places].set(tensor, mode="drop")


def _what(ctx: Context, op: str) -> str:
  return f"{op} node {ctx.node_name!r} (function {ctx.function_name!r})"
