"""`gather` and `scatter` with every dimension number, out-of-bounds rule and reducer of the specification."""

from collections.abc import Sequence
from typing import Any, TypedDict

from jax import Array, lax

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import region_function
from graftax.xla_call_module.lax_extras import gather_scatter as forms
from graftax.xla_call_module.lax_extras.reductions import mapped
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register

__all__ = ["gather"]


@register("stablehlo.gather", attributes=("dimension_numbers", "indices_are_sorted", "slice_sizes"))
def _gather(context: Context, op: ir.Op, x: Array, indices: Array) -> Array:
  return gather(op, x, indices, op.attrs.integers("slice_sizes"))


def gather(op: ir.Op, x: Array, indices: Array, slice_sizes: tuple[int, ...]) -> Array:
  """Computes the gather that an op's dimension numbers describe, with the given slice sizes."""
  numbers = op.attrs.fields("dimension_numbers")
  dimension_numbers = lax.GatherDimensionNumbers(
    offset_dims=numbers.integers("offset_dims", ()),
    collapsed_slice_dims=numbers.integers("collapsed_slice_dims", ()),
    start_index_map=numbers.integers("start_index_map", ()),
    operand_batching_dims=numbers.integers("operand_batching_dims", ()),
    start_indices_batching_dims=numbers.integers("start_indices_batching_dims", ()),
  )
  indices = forms.index_vectors_last(indices, numbers.integer("index_vector_dim", 0))
  is_sorted = op.attrs.boolean("indices_are_sorted", False)
  return forms.gather(x, indices, slice_sizes, dimension_numbers, indices_are_sorted=is_sorted)


@register("stablehlo.scatter", attributes=("indices_are_sorted", "scatter_dimension_numbers", "unique_indices"))
def _scatter(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  half = len(operands) // 2
  numbers = op.attrs.fields("scatter_dimension_numbers")
  indices = forms.index_vectors_last(operands[half], numbers.integer("index_vector_dim", 0))
  dimension_numbers = lax.ScatterDimensionNumbers(
    update_window_dims=numbers.integers("update_window_dims", ()),
    inserted_window_dims=numbers.integers("inserted_window_dims", ()),
    scatter_dims_to_operand_dims=numbers.integers("scatter_dims_to_operand_dims", ()),
    operand_batching_dims=numbers.integers("input_batching_dims", ()),
    scatter_indices_batching_dims=numbers.integers("scatter_indices_batching_dims", ()),
  )
  settings: _Settings = {
    "numbers": dimension_numbers,
    "indices_are_sorted": op.attrs.boolean("indices_are_sorted", False),
    "unique_indices": op.attrs.boolean("unique_indices", False),
  }
  region = op.regions[0]
  if half > 1:
    return _scatter_several(context, op, operands[:half], indices, operands[half + 1 :], settings, environment)
  return _scatter_one(context, op, region, operands[0], indices, operands[2], settings, environment)


class _Settings(TypedDict):
  """What `forms.scatter` is told of the indices of an op."""

  numbers: lax.ScatterDimensionNumbers
  indices_are_sorted: bool
  unique_indices: bool


def _scatter_one(
  context: Context,
  op: ir.Op,
  region: ir.Region,
  x: Array,
  indices: Array,
  updates: Array,
  settings: _Settings,
  outer: Any,
) -> Array:
  """Returns one operand's result of a scatter whose reducer is a region of two arguments and one result."""
  combine = region_function(context, region, outer)

  def no_derivative(reason: str) -> Exception:
    return errors.DerivativeError(f"{op.place}: {reason}, or pass gradient='saved' if the artifact has a gradient.")

  name = _reducer(region)
  return forms.scatter(combine, x, indices, updates, name=name, no_derivative=no_derivative, **settings)


def _reducer(region: ir.Region) -> str | None:
  """Returns the name of a reducer for `forms.scatter`: a monoid, "update", "subtract", or None for others."""
  if region.returns == region.args[1:]:
    return "update"
  if len(region.ops) == 1 and region.ops[0].name == "stablehlo.subtract":
    # Subtraction is not a monoid; the updates must be the second operand.
    is_in_order = region.ops[0].operands == region.args and region.ops[0].results == region.returns
    return "subtract" if is_in_order else None
  return regions.reducer(region)


def _scatter_several(
  context: Context,
  op: ir.Op,
  xs: Sequence[Array],
  indices: Array,
  updates: Sequence[Array],
  settings: _Settings,
  outer: Any,
) -> tuple[Array, ...]:
  """Scatters several operands: separately if no result reads another's operand, together if indices are unique."""
  region = op.regions[0]
  owns = [_own_part(region, position) for position in range(len(xs))]
  apart = [own for own in owns if own is not None]
  if len(apart) == len(xs):
    parts = zip(apart, xs, updates, strict=True)
    return tuple(_scatter_one(context, op, own, x, indices, update, settings, outer) for own, x, update in parts)
  if not settings["unique_indices"]:
    raise context.unsupported(op, "its reducer mixes several operands, and its indices are not unique.")
  combine = mapped(region_function(context, region, outer), updates[0].ndim)
  olds = [forms.gather_old(x, indices, update, settings["numbers"]) for x, update in zip(xs, updates, strict=True)]
  values = combine(*olds, *updates)
  numbers, is_sorted = settings["numbers"], settings["indices_are_sorted"]
  return tuple(
    lax.scatter(x, indices, value, numbers, indices_are_sorted=is_sorted, unique_indices=True, mode=forms.DROP)
    for x, value in zip(xs, values, strict=True)
  )


def _own_part(region: ir.Region, position: int) -> ir.Region | None:
  """Returns the part of a reducer that computes one result, or None if that result reads other operands."""
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
