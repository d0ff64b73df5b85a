"""Parts of variables, read and updated: ResourceGather, ResourceScatterUpdate, ScatterNdUpdate, StridedSliceAssign."""

from collections.abc import Callable
from typing import Any, Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, Value
from graftax.ops_jax.array.gather import gather_nd, gather_v2, positions_or_end
from graftax.ops_jax.array.scatter import (
  tensor_scatter_add,
  tensor_scatter_max,
  tensor_scatter_min,
  tensor_scatter_sub,
  tensor_scatter_update,
)
from graftax.ops_jax.array.slicing import StridedSliceMasks, tensor_strided_slice_update
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, map_halves

__all__ = [
  "count_up_to",
  "resource_gather",
  "resource_gather_nd",
  "resource_strided_slice_assign",
  "strided_slice_assign",
]

# Current value, indices, updates -> new value.
_Update = Callable[[Array, Array, Array], Array]


@register("ResourceGather", ignores=("Tindices", "dtype", "validate_indices"))
def resource_gather(ctx: Context, resource: ResourceHandle, indices: Array, *, batch_dims: int = 0) -> Array:
  """Gathers rows of a variable.

  Source op: `tf.raw_ops.ResourceGather`.

  Args:
    ctx: holds the variable.
    resource: a variable of shape `[*batch, num_rows, ...]`.
    indices: `[*batch, ...]` integers.
    batch_dims: number of batch dimensions.
  """
  return _gathered(ctx.read(resource), lambda rows: gather_v2(rows, indices, batch_dims, batch_dims=batch_dims))


@register("ResourceGatherNd", ignores=("Tindices", "dtype"))
def resource_gather_nd(ctx: Context, resource: ResourceHandle, indices: Array) -> Array:
  """Gathers elements or slices of a variable at the coordinates in the last dimension of `indices`."""
  return _gathered(ctx.read(resource), lambda elements: gather_nd(elements, indices))


def _gathered(variable: Value, gather: Callable[[Array], Array]) -> Value:
  is_pair = isinstance(variable, Int64Pair)
  return map_halves(gather, [variable], variable.dtype) if is_pair else gather(variable)


def _row_update(method: str) -> _Update:
  def update(value: Array, indices: Array, updates: Array) -> Array:
    value, updates = jnp.asarray(value), jnp.asarray(updates)
    return getattr(value.at[indices], method)(updates, mode="drop")

  return update


def _divided(value: Array, indices: Array, updates: Array) -> Array:
  value = jnp.asarray(value)
  updates = jnp.broadcast_to(jnp.asarray(updates), indices.shape + value.shape[1:])

  # Updates are applied one after the other: dividing integers twice is not dividing by the product.
  def body(value: jax.Array, item: Any) -> Any:
    index, update = item
    return value.at[index].set(lax.div(value[index], update), mode="drop"), None

  return lax.scan(body, value, (indices.reshape(-1), updates.reshape(-1, *value.shape[1:])))[0]


_ROW_UPDATES: dict[str, _Update] = {
  "Update": _row_update("set"),
  "Add": _row_update("add"),
  "Sub": lambda value, indices, updates: _row_update("add")(value, indices, -jnp.asarray(updates)),
  "Mul": _row_update("multiply"),
  "Div": _divided,
  "Min": _row_update("min"),
  "Max": _row_update("max"),
}

_COORDINATE_UPDATES: dict[str, Callable[..., Array]] = {
  "Update": tensor_scatter_update,
  "Add": tensor_scatter_add,
  "Sub": tensor_scatter_sub,
  "Min": tensor_scatter_min,
  "Max": tensor_scatter_max,
}


def _register_row_update(name: str, update: _Update) -> None:
  def resource_scatter(ctx: Context, resource: ResourceHandle, indices: Array, updates: Array) -> tuple[()]:
    """Changes rows of a variable.

    Source ops: `tf.raw_ops.ResourceScatterUpdate` and those for Add, Sub, Mul, Div, Min and Max.

    Args:
      ctx: holds the variable.
      resource: a variable of shape `[num_rows, ...]`.
      indices: row numbers, integers of any shape; a row that occurs twice is updated twice.
      updates: `[*indices.shape, ...]`, or a scalar; dtype of the variable.

    Raises:
      InvalidInputError: a known index is out of range.

    Differs from TF: updates at traced indices out of range are dropped instead of raising an error.
    """
    value = ctx.read(resource)
    ctx.write(resource, update(value, positions_or_end(f"ResourceScatter{name}", indices, value.shape[0]), updates))
    return ()

  def scatter(ctx: Context, ref: ResourceHandle, indices: Array, updates: Array) -> ResourceHandle:
    """Changes rows of a variable and returns the variable; see `ResourceScatterUpdate`."""
    resource_scatter(ctx, ref, indices, updates)
    return ref

  register(f"ResourceScatter{name}", ignores=("Tindices", "dtype"))(resource_scatter)
  register(f"Scatter{name}", ignores=("T", "Tindices", "use_locking"))(scatter)


def _register_coordinate_update(name: str, update: Callable[..., Array]) -> None:
  def resource_scatter_nd(
    ctx: Context, ref: ResourceHandle, indices: Array, updates: Array, *, bad_indices_policy: str = ""
  ) -> tuple[()]:
    """Changes elements or slices of a variable at given coordinates; see `TensorScatterUpdate`."""
    ctx.write(ref, update(ctx.read(ref), indices, updates, bad_indices_policy=bad_indices_policy))
    return ()

  def scatter_nd(
    ctx: Context, ref: ResourceHandle, indices: Array, updates: Array, *, bad_indices_policy: str = ""
  ) -> ResourceHandle:
    """Changes elements or slices of a variable and returns the variable; see `TensorScatterUpdate`."""
    resource_scatter_nd(ctx, ref, indices, updates, bad_indices_policy=bad_indices_policy)
    return ref

  ignores = ("T", "Tindices", "use_locking")
  register(f"ResourceScatterNd{name}", ignores=ignores)(resource_scatter_nd)
  register(f"ScatterNd{name}", ignores=ignores)(scatter_nd)


for _name, _update in _ROW_UPDATES.items():
  _register_row_update(_name, _update)
for _name, _function in _COORDINATE_UPDATES.items():
  _register_coordinate_update(_name, _function)


@register("ResourceStridedSliceAssign", ignores=("T", "Index"), known_inputs=("begin", "end"))
def resource_strided_slice_assign(
  ctx: Context,
  ref: ResourceHandle,
  begin: Array,
  end: Array,
  strides: Static[tuple[int, ...]],
  value: Array,
  **masks: Unpack[StridedSliceMasks],
) -> tuple[()]:
  """Replaces a slice of a variable; the slice is described as for `StridedSlice`."""
  ctx.write(ref, tensor_strided_slice_update(ctx.read(ref), begin, end, strides, value, **masks))
  return ()


@register("StridedSliceAssign", ignores=("T", "Index"), known_inputs=("begin", "end"))
def strided_slice_assign(
  ctx: Context,
  ref: ResourceHandle,
  begin: Array,
  end: Array,
  strides: Static[tuple[int, ...]],
  value: Array,
  **masks: Unpack[StridedSliceMasks],
) -> ResourceHandle:
  """Replaces a slice of a variable and returns the variable; the slice is described as for `StridedSlice`."""
  resource_strided_slice_assign(ctx, ref, begin, end, strides, value, **masks)
  return ref


@register("ResourceCountUpTo", "CountUpTo", ignores=("T",))
def count_up_to(ctx: Context, resource: ResourceHandle, *, limit: int) -> Array:
  """Returns the variable's value, and increases it by 1.

  Differs from TF: TensorFlow raises an error at `limit`; here the variable stays at `limit`.
  """
  value = jnp.asarray(ctx.read(resource))
  ctx.write(resource, jnp.minimum(value + 1, limit).astype(value.dtype))
  return value
