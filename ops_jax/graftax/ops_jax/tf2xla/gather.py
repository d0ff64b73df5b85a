"""tf2xla's general gather and scatter."""

import jax.numpy as jnp
from jax import lax

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes
from graftax.ops_jax.tf2xla.computation import monoid, scalar_function, takes_the_second
from graftax.ops_jax.tf2xla.proto_fields import integer_fields
from graftax.xla_call_module.lax_extras import gather, index_vectors_last, scatter

__all__ = ["xla_gather", "xla_scatter"]


@register("XlaGather", ignores=("T", "Tindices"))
def xla_gather(
  operand: Array,
  start_indices: Array,
  slice_sizes: StaticSizes,
  *,
  dimension_numbers: bytes,
  indices_are_sorted: bool,
) -> Array:
  """Returns slices of an array at many positions.

  Source op: `XlaGather` (tf2xla).

  Args:
    operand: any dtype.
    start_indices: integers, with an index vector along one dimension; clamped to the bounds.
    slice_sizes: one per dimension of `operand`.
    dimension_numbers: serialized `xla.GatherDimensionNumbers`.
    indices_are_sorted: a promise.
  """
  fields = integer_fields("XlaGather", dimension_numbers)
  numbers = lax.GatherDimensionNumbers(
    offset_dims=tuple(fields.get(1, ())),
    collapsed_slice_dims=tuple(fields.get(2, ())),
    start_index_map=tuple(fields.get(3, ())),
    operand_batching_dims=tuple(fields.get(5, ())),
    start_indices_batching_dims=tuple(fields.get(6, ())),
  )
  indices = index_vectors_last(jnp.asarray(start_indices), *fields.get(4, [0])[-1:])
  return gather(jnp.asarray(operand), indices, slice_sizes, numbers, indices_are_sorted=indices_are_sorted)


@register("XlaScatter", ignores=("T", "Tindices"))
def xla_scatter(
  ctx: Context,
  operand: Array,
  scatter_indices: Array,
  updates: Array,
  *,
  update_computation: FunctionRef,
  dimension_numbers: bytes,
  indices_are_sorted: bool,
) -> Array:
  """Returns an array with slices combined with updates.

  Source op: `XlaScatter` (tf2xla).

  Args:
    ctx: the program that has the function.
    operand: any dtype.
    scatter_indices: integers, with an index vector along one dimension; updates that are out of bounds are dropped.
    updates: dtype of `operand`.
    update_computation: a function of two scalars, the old value and the update, that returns the new value.
    dimension_numbers: serialized `xla.ScatterDimensionNumbers`.
    indices_are_sorted: a promise.

  Differs from TF: functions other than update, sum, product, maximum and minimum have no derivative, because the order
  of several updates at one position is not defined.
  """
  fields = integer_fields("XlaScatter", dimension_numbers)
  numbers = lax.ScatterDimensionNumbers(
    update_window_dims=tuple(fields.get(1, ())),
    inserted_window_dims=tuple(fields.get(2, ())),
    scatter_dims_to_operand_dims=tuple(fields.get(3, ())),
    operand_batching_dims=tuple(fields.get(5, ())),
    scatter_indices_batching_dims=tuple(fields.get(6, ())),
  )
  operand, updates = jnp.asarray(operand), jnp.asarray(updates)
  indices = index_vectors_last(jnp.asarray(scatter_indices), *fields.get(4, [0])[-1:])
  combine = scalar_function(ctx, update_computation, [operand.dtype] * 2)
  node = ctx.node_name
  return scatter(
    lambda old, new: combine(old, new)[0],
    operand,
    indices,
    updates,
    numbers,
    name="update" if takes_the_second(combine, operand.dtype) else monoid(combine, operand.dtype),
    indices_are_sorted=indices_are_sorted,
    no_derivative=lambda reason: UnsupportedOpError(f"XlaScatter node {node!r}: {reason}."),
  )
