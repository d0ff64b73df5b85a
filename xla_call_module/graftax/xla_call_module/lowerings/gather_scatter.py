"""`gather` and `scatter` with every dimension number, out-of-bounds rule and reducer of the specification."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import primitives

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import mapped, region_function
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register

__all__ = ["gather"]

# StableHLO's gather clamps every start index, and XLA drops an update whose window leaves the operand.
_CLAMP = lax.GatherScatterMode.CLIP
_DROP = lax.GatherScatterMode.FILL_OR_DROP


def _index_vectors_last(indices: Array, index_vector_dim: int) -> Array:
  """Indices as JAX wants them, with the index vectors along the last axis."""
  if index_vector_dim == indices.ndim:
    return lax.expand_dims(indices, (indices.ndim,))
  if index_vector_dim == indices.ndim - 1:
    return indices
  order = [axis for axis in range(indices.ndim) if axis != index_vector_dim]
  return lax.transpose(indices, (*order, index_vector_dim))


@register("stablehlo.gather")
def _gather(context: Context, op: ir.Op, x: Array, indices: Array) -> Array:
  return gather(op, x, indices, tuple(op.attrs["slice_sizes"]))


def gather(op: ir.Op, x: Array, indices: Array, slice_sizes: tuple[Any, ...]) -> Array:
  """The gather that an op's dimension numbers describe, for slice sizes given apart."""
  numbers = op.attrs["dimension_numbers"]
  dimension_numbers = lax.GatherDimensionNumbers(
    offset_dims=numbers.get("offset_dims", ()),
    collapsed_slice_dims=numbers.get("collapsed_slice_dims", ()),
    start_index_map=numbers.get("start_index_map", ()),
    operand_batching_dims=numbers.get("operand_batching_dims", ()),
    start_indices_batching_dims=numbers.get("start_indices_batching_dims", ()),
  )
  return lax.gather(
    x,
    _index_vectors_last(indices, numbers.get("index_vector_dim", 0)),
    dimension_numbers,
    slice_sizes,
    indices_are_sorted=op.attrs.get("indices_are_sorted", False),
    mode=_CLAMP,
  )


_SCATTERS: dict[str, Callable[..., Array]] = {
    "add": lax.scatter_add, "multiply": lax.scatter_mul, "maximum": lax.scatter_max, "minimum": lax.scatter_min,
    "subtract": lax.scatter_sub,
}  # fmt: skip


@register("stablehlo.scatter")
def _scatter(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  half = len(operands) // 2
  numbers = op.attrs["scatter_dimension_numbers"]
  indices = _index_vectors_last(operands[half], numbers.get("index_vector_dim", 0))
  dimension_numbers = lax.ScatterDimensionNumbers(
    update_window_dims=numbers.get("update_window_dims", ()),
    inserted_window_dims=numbers.get("inserted_window_dims", ()),
    scatter_dims_to_operand_dims=numbers.get("scatter_dims_to_operand_dims", ()),
    operand_batching_dims=numbers.get("input_batching_dims", ()),
    scatter_indices_batching_dims=numbers.get("scatter_indices_batching_dims", ()),
  )
  settings = {
    "dimension_numbers": dimension_numbers,
    "indices_are_sorted": op.attrs.get("indices_are_sorted", False),
    "unique_indices": op.attrs.get("unique_indices", False),
    "mode": _DROP,
  }
  region = op.regions[0]
  if half > 1:
    return _scatter_several(context, op, operands[:half], indices, operands[half + 1 :], settings, environment)
  return _scatter_one(context, op, region, operands[0], indices, operands[2], settings, environment)


def _scatter_one(
  context: Context, op: ir.Op, region: ir.Region, x: Array, indices: Array, updates: Array, settings: Any, outer: Any
) -> Array:
  """One operand of a scatter, whose reducer is a region of two arguments and one result."""
  if region.returns == region.args[1:]:
    return lax.scatter(x, indices, updates, **settings)
  name = _reducer(region, x.dtype)
  if name in _SCATTERS:
    return _SCATTERS[name](x, indices, updates, **settings)
  return _scatter_general(op, region_function(context, region, outer), x, indices, updates, settings)


def _reducer(region: ir.Region, dtype: Any) -> str | None:
  name = regions.reducer(region)
  if len(region.ops) == 1 and region.ops[0].name == "stablehlo.subtract":
    # No monoid: the updates are what is subtracted.
    is_in_order = region.ops[0].operands == region.args and region.ops[0].results == region.returns
    return "subtract" if is_in_order else None
  if np.dtype(dtype) == np.bool_:
    return {"or": "maximum", "and": "minimum"}.get(name or "")
  return name


def _scatter_several(
  context: Context, op: ir.Op, xs: Any, indices: Array, updates: Any, settings: Any, outer: Any
) -> tuple[Array, ...]:
  """Several operands at once: one by one where no result reads another's operand, together where indices are unique."""
  region = op.regions[0]
  owns = [_own_part(region, position) for position in range(len(xs))]
  apart = [own for own in owns if own is not None]
  if len(apart) == len(xs):
    parts = zip(apart, xs, updates, strict=True)
    return tuple(_scatter_one(context, op, own, x, indices, update, settings, outer) for own, x, update in parts)
  if not settings["unique_indices"]:
    raise context.unsupported(op, "its reducer mixes several operands, and its indices are not unique.")
  combine = mapped(region_function(context, region, outer), updates[0].ndim)
  olds = [_gather_old(x, indices, update, settings["dimension_numbers"]) for x, update in zip(xs, updates, strict=True)]
  values = combine(*olds, *updates)
  return tuple(lax.scatter(x, indices, value, **settings) for x, value in zip(xs, values, strict=True))


def _own_part(region: ir.Region, position: int) -> ir.Region | None:
  """The part of a reducer that makes one result, as a reducer of its operand alone; None where it reads others."""
  half = len(region.returns)
  own = (position, half + position)
  args = tuple(region.args[i] for i in own)
  foreign = set(region.args) - set(args)
  needed, ops = {region.returns[position]}, []
  for op in reversed(region.ops):
    if needed & set(op.results):
      ops.append(op)
      needed.update(op.operands, *(inner.captures for inner in op.regions))
  if needed & foreign:
    return None
  types = tuple(region.types[i] for i in own)
  return ir.Region(args, types, tuple(reversed(ops)), (region.returns[position],), region.captures)


def _scatter_general(
  op: ir.Op, combine: Callable[..., Any], x: Array, indices: Array, updates: Array, settings: Any
) -> Any:
  """Any other reducer. With unique indices it is gather, combine, scatter; otherwise it has no derivative."""
  if settings["unique_indices"]:
    old = _gather_old(x, indices, updates, settings["dimension_numbers"])
    return lax.scatter(x, indices, mapped(combine, updates.ndim)(old, updates), **settings)
  scalar = jax.ShapeDtypeStruct((), x.dtype)
  closed = jax.make_jaxpr(combine)(scalar, scalar)

  @functools.partial(jax.custom_jvp)
  def run(x: Array, updates: Array, indices: Array) -> Array:
    return primitives.scatter_p.bind(
      x, indices, updates, update_jaxpr=closed.jaxpr, update_consts=tuple(closed.consts), **settings
    )

  @run.defjvp
  def refuse(primals: Any, tangents: Any) -> Any:
    raise errors.DerivativeError(
      f"{op.place}: its reducer is none of update, add, subtract, multiply, maximum, minimum, and the indices are not"
      " unique, so its derivative depends on an order that StableHLO leaves open. Differentiate"
      " around it (jax.lax.stop_gradient on its inputs), or pass gradient='saved' where the artifact has a gradient."
    )

  return run(jnp.asarray(x), jnp.asarray(updates), indices)


def _gather_old(x: Array, indices: Array, updates: Array, numbers: lax.ScatterDimensionNumbers) -> Array:
  """What the operand holds where each update goes; a window that leaves the operand reads as anything."""
  sizes, window = [], iter(numbers.update_window_dims)
  for axis in range(x.ndim):
    fixed = axis in numbers.inserted_window_dims or axis in numbers.operand_batching_dims
    sizes.append(1 if fixed else updates.shape[next(window)])
  gather_numbers = lax.GatherDimensionNumbers(
    offset_dims=numbers.update_window_dims,
    collapsed_slice_dims=numbers.inserted_window_dims,
    start_index_map=numbers.scatter_dims_to_operand_dims,
    operand_batching_dims=numbers.operand_batching_dims,
    start_indices_batching_dims=numbers.scatter_indices_batching_dims,
  )
  return lax.gather(x, indices, gather_numbers, tuple(sizes), mode=_CLAMP)
