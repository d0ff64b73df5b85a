"""tf2xla's general gather and scatter."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.tf2xla.computation import Computation, monoid, scalar_function, takes_the_second
from graftax.ops_jax.tf2xla.proto_fields import integer_fields

__all__ = ["xla_gather", "xla_scatter"]

_SCATTERS = {"add": lax.scatter_add, "mul": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}
_ON_BOOLS = {"or": "max", "and": "min"}


@register("XlaGather", ignores=("T", "Tindices"))
def xla_gather(
  operand: Array,
  start_indices: Array,
  slice_sizes: Static[tuple[int, ...]],
  *,
  dimension_numbers: bytes,
  indices_are_sorted: bool,
) -> Array:
  """Slices of an array at many positions.

  Source op: `XlaGather` (tf2xla).

  Args:
    operand: any dtype.
    start_indices: integers, with an index vector along one dimension; moved to where the slice fits.
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
  indices = _index_vectors_last(jnp.asarray(start_indices), *fields.get(4, [0])[-1:])
  return lax.gather(
    jnp.asarray(operand),
    indices,
    numbers,
    slice_sizes,
    indices_are_sorted=indices_are_sorted,
    mode=lax.GatherScatterMode.CLIP,
  )


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
  """An array with slices of it combined with updates.

  Source op: `XlaScatter` (tf2xla).

  Args:
    ctx: the program, for the function.
    operand: any dtype.
    scatter_indices: integers, with an index vector along one dimension; updates that do not fit are left out.
    updates: dtype of `operand`.
    update_computation: takes two scalars, what was there and the update, and returns what will be.
    dimension_numbers: serialized `xla.ScatterDimensionNumbers`.
    indices_are_sorted: a promise.

  Differs from TF: a function that is none of update, sum, product, maximum and minimum has no derivative, since the
  order in which updates of one place are applied is open.
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
  indices = _index_vectors_last(jnp.asarray(scatter_indices), *fields.get(4, [0])[-1:])
  settings = {
    "dimension_numbers": numbers,
    "indices_are_sorted": indices_are_sorted,
    "mode": lax.GatherScatterMode.FILL_OR_DROP,
  }
  combine = scalar_function(ctx, update_computation, [operand.dtype] * 2)
  if takes_the_second(combine, operand.dtype):
    return lax.scatter(operand, indices, updates, **settings)
  name = monoid(combine, operand.dtype) or ""
  scatter = _SCATTERS.get(_ON_BOOLS.get(name, name) if operand.dtype == np.bool_ else name)
  if scatter is not None:
    return scatter(operand, indices, updates, **settings)
  return _scatter_with(combine, operand, indices, updates, ctx.node_name, settings)


def _index_vectors_last(indices: Array, index_vector_dim: int) -> Array:
  if index_vector_dim == indices.ndim:
    return indices[..., None]
  return jnp.moveaxis(indices, index_vector_dim, -1)


def _scatter_with(
  combine: Computation, operand: Array, indices: Array, updates: Array, node: str, settings: dict[str, Any]
) -> Array:
  scalar = jax.ShapeDtypeStruct((), operand.dtype)
  closed = jax.make_jaxpr(lambda old, new: combine(old, new)[0])(scalar, scalar)

  @jax.custom_jvp
  def run(operand: Array, updates: Array, indices: Array) -> Array:
    return primitives.scatter_p.bind(
      operand,
      indices,
      updates,
      update_jaxpr=closed.jaxpr,
      update_consts=tuple(closed.consts),
      unique_indices=False,
      **settings,
    )

  @run.defjvp
  def refuse(primals: Any, tangents: Any) -> Any:
    raise UnsupportedOpError(
      f"XlaScatter node {node!r}: its function is none of update, sum, product, maximum and minimum, so its derivative "
      f"depends on an order that XLA leaves open. Differentiate around it, with jax.lax.stop_gradient on its inputs."
    )

  return run(operand, updates, indices)
