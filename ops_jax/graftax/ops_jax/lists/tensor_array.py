"""TensorFlow 1's TensorArrays: TensorArrayV3 and related ops.

The handle is static. The elements are passed along the flow edge, as a `TensorList`.

In TensorFlow the flow is a float without meaning, and its edges order reads after writes. Edges of a value do the same.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import PartialShape, UnsupportedError
from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize, Value
from graftax.ops_jax.lists.tensor_list import (
  array_buffer,
  new_list,
  tensor_list_concat,
  tensor_list_gather,
  tensor_list_get_item,
  tensor_list_length,
  tensor_list_scatter_into_existing_list,
  tensor_list_set_item,
  tensor_list_split,
)
from graftax.ops_jax.variants.padded_value import PaddedElement
from graftax.ops_jax.variants.structures import array_structure
from graftax.ops_jax.variants.tensor_array_gradient import FlowGradient
from graftax.ops_jax.variants.tensor_list_value import Size, TensorList, larger

__all__ = [
  "TensorArrayHandle",
  "tensor_array_close_v3",
  "tensor_array_concat_v3",
  "tensor_array_gather_v3",
  "tensor_array_grad_v3",
  "tensor_array_read_v3",
  "tensor_array_scatter_v3",
  "tensor_array_size_v3",
  "tensor_array_split_v3",
  "tensor_array_v3",
  "tensor_array_write_v3",
]

_ANY_SHAPE = np.int32(-1)


@dataclasses.dataclass(frozen=True, slots=True)
class TensorArrayHandle(ResourceHandle):
  """The static part of a TensorArray: its name, and whether writing beyond its end makes it longer."""

  kind: str = "tensor_array"
  dynamic_size: bool = False
  written: "_Written" = dataclasses.field(default_factory=lambda: _Written(), compare=False)
  is_gradient: bool = False


@dataclasses.dataclass(slots=True)
class _Written:
  """The elements written to a TensorArray so far while tracing; its gradients have their structure."""

  capacity: Size = 0
  element: jax.ShapeDtypeStruct | PaddedElement | None = None

  def note(self, flow: TensorList) -> TensorList:
    self.capacity = larger(self.capacity, flow.capacity)
    if flow.buffer is not None:
      self.element = array_structure(flow.element)
    return flow


@register("TensorArrayV3", ignores=("clear_after_read", "identical_element_shapes", "tensor_array_name"))
def tensor_array_v3(
  ctx: Context, size: StaticSize, *, dtype: np.dtype, element_shape: PartialShape, dynamic_size: bool = False
) -> tuple[TensorArrayHandle, TensorList]:
  """Returns handle and flow of a TensorArray of `size` zeros.

  Source op: `tf.raw_ops.TensorArrayV3`.

  Args:
    ctx: the program around the node.
    size: number of elements. Must be concrete.
    dtype: dtype of every element.
    element_shape: shape of every element, where known.
    dynamic_size: whether writing beyond the end makes it longer.

  Differs from TF: an element that was never written reads as zeros, elements can be read more than once whatever
  `clear_after_read` says, and all have one rank. If they differ in shape, the array of their gradients raises.
  """
  flow = new_list(size, element_shape.dims, np.dtype(dtype))
  handle = TensorArrayHandle(f"{ctx.function_name}/{ctx.node_name}", dynamic_size=dynamic_size)
  return handle, handle.written.note(flow)


@register("TensorArrayGradV3", ignores=("source",))
def tensor_array_grad_v3(handle: TensorArrayHandle, flow_in: Value) -> tuple[TensorArrayHandle, Value]:
  """Returns the handle of the array of gradients of a TensorArray's elements, and the unchanged flow.

  Source op: `tf.raw_ops.TensorArrayGradV3`.

  Gradients written to it are added up. Elements that were never written are zeros.
  """
  return dataclasses.replace(handle, is_gradient=True), flow_in


@register("TensorArrayWriteV3", ignores=("T",))
def tensor_array_write_v3(
  ctx: Context, handle: TensorArrayHandle, index: Array, value: Array, flow_in: TensorList
) -> Value:
  """Returns the flow with element `index` set to `value`, or increased by it in an array of gradients.

  Source op: `tf.raw_ops.TensorArrayWriteV3`.
  """
  value = jnp.asarray(value)
  if handle.is_gradient:
    gradient = _gradient(ctx, handle, flow_in, value.shape, value.dtype)
    return FlowGradient(gradient.buffer.at[index].add(value))
  flow = _flow(ctx, flow_in)
  return handle.written.note(
    tensor_list_set_item(ctx, flow, index, value, resize_if_index_out_of_bounds=handle.dynamic_size)
  )


@register("TensorArrayReadV3", ignores=("dtype",))
def tensor_array_read_v3(ctx: Context, handle: TensorArrayHandle, index: Array, flow_in: TensorList) -> Array:
  """Returns element `index`.

  Source op: `tf.raw_ops.TensorArrayReadV3`.

  Differs from TF: a traced index outside the array gives the nearest element instead of an error.
  """
  if handle.is_gradient:
    return jax.lax.dynamic_index_in_dim(_gradient(ctx, handle, flow_in).buffer, index, keepdims=False)
  return tensor_list_get_item(ctx, _flow(ctx, flow_in), index, _ANY_SHAPE)


@register("TensorArrayGatherV3", ignores=("dtype",))
def tensor_array_gather_v3(
  ctx: Context, handle: TensorArrayHandle, indices: Array, flow_in: TensorList, *, element_shape: PartialShape
) -> Array:
  """Returns the elements at `[n]` indices, as `[n, ...]`.

  Source op: `tf.raw_ops.TensorArrayGatherV3`.
  """
  if handle.is_gradient:
    return jnp.take(_gradient(ctx, handle, flow_in).buffer, indices, axis=0, mode="clip")
  flow, shape = _flow(ctx, flow_in), _shape_vector(element_shape)
  if _is_everything(indices, flow):
    return array_buffer(flow, shape, _what(ctx, "TensorArrayGatherV3"))[: len(indices)]
  return tensor_list_gather(ctx, flow, indices, shape)


@register("TensorArrayScatterV3", ignores=("T",))
def tensor_array_scatter_v3(
  ctx: Context, handle: TensorArrayHandle, indices: Array, value: Array, flow_in: TensorList
) -> Value:
  """Returns the flow with slices of `[n, ...]` written at `[n]` indices, or added in an array of gradients.

  Source op: `tf.raw_ops.TensorArrayScatterV3`.
  """
  value = jnp.asarray(value)
  if handle.is_gradient:
    gradient = _gradient(ctx, handle, flow_in, value.shape[1:], value.dtype)
    return FlowGradient(gradient.buffer.at[indices].add(value))
  flow = _flow(ctx, flow_in)
  if _is_everything(indices, flow):
    return handle.written.note(TensorList.of(value, flow.element_shape))
  return handle.written.note(tensor_list_scatter_into_existing_list(ctx, flow, value, indices))


@register("TensorArrayConcatV3", ignores=("dtype", "element_shape_except0"))
def tensor_array_concat_v3(ctx: Context, handle: TensorArrayHandle, flow_in: TensorList) -> tuple[Array, Array]:
  """Returns all elements concatenated along their first axis, and the length of each along it.

  Source op: `tf.raw_ops.TensorArrayConcatV3`.
  """
  if handle.is_gradient:
    flow_in = TensorList.of(_gradient(ctx, handle, flow_in).buffer)
  return tensor_list_concat(ctx, _flow(ctx, flow_in))


@register("TensorArraySplitV3", ignores=("T",))
def tensor_array_split_v3(
  ctx: Context, handle: TensorArrayHandle, value: Array, lengths: Static[np.ndarray], flow_in: TensorList
) -> Value:
  """Returns the flow with consecutive pieces of `[n, ...]` as elements.

  Source op: `tf.raw_ops.TensorArraySplitV3`.
  """
  pieces = tensor_list_split(ctx, value, _ANY_SHAPE, lengths)
  if handle.is_gradient:
    _element_of_one_shape(ctx, handle)
    return FlowGradient(pieces.buffer) + flow_in
  return handle.written.note(dataclasses.replace(pieces, element_shape=_flow(ctx, flow_in).element_shape))


@register("TensorArraySizeV3")
def tensor_array_size_v3(ctx: Context, handle: TensorArrayHandle, flow_in: TensorList) -> Array | np.int32:
  """Returns the number of elements, int32.

  Source op: `tf.raw_ops.TensorArraySizeV3`.
  """
  if handle.is_gradient:
    return np.int32(_gradient(ctx, handle, flow_in).buffer.shape[0])
  return tensor_list_length(_flow(ctx, flow_in), facts=ctx.facts)


@register("TensorArrayCloseV3")
def tensor_array_close_v3(handle: TensorArrayHandle) -> tuple[()]:
  """Does nothing: elements are values, and are freed when they are no longer needed.

  Source op: `tf.raw_ops.TensorArrayCloseV3`.
  """
  return ()


def _gradient(
  ctx: Context, handle: TensorArrayHandle, flow: Value, element: tuple[int, ...] | None = None, dtype: Any = None
) -> FlowGradient:
  """Returns the gradients from the flow of an array of gradients; zeros if the flow carries none."""
  written = _element_of_one_shape(ctx, handle)
  if isinstance(flow, FlowGradient):
    return flow.with_capacity(handle.written.capacity)
  if element is None:
    if written is None:
      raise InvalidInputError(
        f"{_what(ctx, 'TensorArray')}: its gradients are read, but nothing was written to it, and its element shape is "
        f"not known. Set element_shape where it is made."
      )
    element, dtype = written.shape, written.dtype
  return FlowGradient.of(None, handle.written.capacity, element, dtype)


def _element_of_one_shape(ctx: Context, handle: TensorArrayHandle) -> jax.ShapeDtypeStruct | None:
  """Returns the structure of the elements written to a TensorArray, or None if it is not known.

  Raises:
    UnsupportedError: they differ in shape, and the buffer of their gradients has no place for their sizes.
  """
  element = handle.written.element
  if isinstance(element, PaddedElement):
    raise UnsupportedError(
      f"{_what(ctx, 'TensorArray')}: the graph computes gradients of elements that differ in shape; expected elements "
      f"of one shape. Convert the forward function, and use jax.grad."
    )
  return element


def _flow(ctx: Context, flow: Value) -> TensorList:
  if not isinstance(flow, TensorList):
    raise InvalidInputError(
      f"TensorArray node {ctx.node_name!r} (function {ctx.function_name!r}): its flow is a {type(flow).__name__}; "
      f"expected that of another TensorArray op. A flow cannot be an argument of the converted function."
    )
  return flow


def _is_everything(indices: Value, flow: TensorList) -> bool:
  """Returns whether indices are known to be 0, 1, ... up to the array's length."""
  if isinstance(indices, jax.core.Tracer) or not flow.has_static_length:
    return False
  known: np.ndarray[Any, Any] = np.asarray(indices)
  return known.dtype != object and len(known) == flow.length and bool((known == np.arange(len(known))).all())


def _shape_vector(shape: PartialShape) -> np.ndarray[Any, Any]:
  if shape.dims is None:
    return np.asarray(_ANY_SHAPE)
  return np.array([-1 if dim is None else dim for dim in shape.dims], np.int32)


def _what(ctx: Context, op: str) -> str:
  return f"{op} node {ctx.node_name!r} (function {ctx.function_name!r})"
