"""`gather` as GatherV2: the axes along which slices have positions are made one axis."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import full, reshape, select, static_slice, transpose
from graftax.convert.jax2tf.tf_ops.rules._positions import (
  IndexedAxes,
  clamped,
  coordinates,
  flat_positions,
  in_bounds,
  product,
)
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Tensor


@rule("gather", ignores=("indices_are_sorted", "unique_indices"))
def gather(
  b: Builder,
  x: Tensor,
  starts: Tensor,
  *,
  dimension_numbers: Any,
  slice_sizes: Sequence[Dim],
  mode: Any,
  fill_value: Any,
  out: Any,
) -> Tensor:
  """Returns slices at positions. Positions out of bounds are moved inside, or their slices are filled."""
  numbers = dimension_numbers
  slice_sizes = [*slice_sizes, *x.shape[len(slice_sizes) :]]  # the words of random keys
  batch_dims = [int(axis) for axis in numbers.operand_batching_dims]
  axes = (*batch_dims, *(int(axis) for axis in numbers.start_index_map))
  x = _without_unused(b, x, axes, slice_sizes)
  rest = [axis for axis in range(x.rank) if axis not in axes]
  indexed = IndexedAxes(
    axes,
    tuple(x.shape[axis] for axis in axes),
    tuple(slice_sizes[axis] for axis in axes),
    len(batch_dims),
    tuple(int(axis) for axis in numbers.start_indices_batching_dims),
  )
  if not axes:
    raise Unsupported("slices without positions")
  at = coordinates(b, starts, indexed)
  inside = in_bounds(b, at, indexed) if mode.name == "FILL_OR_DROP" else None
  where = flat_positions(b, clamped(b, at, indexed), indexed)
  found = _rows(b, x, axes, rest, where)
  # The axes are now those of `starts`, the lengths that are not 1, and the axes without positions.
  num_outer = starts.rank - 1
  dropped = {*map(int, numbers.collapsed_slice_dims), *batch_dims}
  rest = [axis for axis in rest if axis not in dropped]  # those dropped have size 1
  found = reshape(b, found, (*where.shape, *(x.shape[axis] for axis in rest)))
  windows = [axis for axis in axes if not (isinstance(slice_sizes[axis], int) and slice_sizes[axis] == 1)]
  by_axis = {axis: num_outer + number for number, axis in enumerate([*windows, *rest])}
  if inside is not None:
    found = _filled(b, found, inside, fill_value)
  kept = [axis for axis in range(x.rank) if axis not in dropped]
  num_words = x.rank - len(dropped) - len(numbers.offset_dims)
  offset_dims = {*map(int, numbers.offset_dims), *range(len(out.shape) - num_words, len(out.shape))}
  order = iter(range(num_outer))
  offsets = iter(kept)
  permutation: list[int] = []
  for position in range(len(out.shape)):
    if position in offset_dims:
      axis = next(offsets)
      permutation += [by_axis[axis]] if axis in by_axis else []
    else:
      permutation.append(next(order))
  return reshape(b, transpose(b, found, permutation), out.shape)


def _without_unused(b: Builder, x: Tensor, axes: Sequence[int], slice_sizes: Sequence[Dim]) -> Tensor:
  """Returns the operand without what slices leave out along axes without positions."""
  limits = [size if axis in axes else slice_sizes[axis] for axis, size in enumerate(x.shape)]
  return static_slice(b, x, [0] * x.rank, limits)


def _rows(b: Builder, x: Tensor, axes: Sequence[int], rest: Sequence[int], where: Tensor) -> Tensor:
  """Returns the elements at flat positions along some axes; all along the `rest`."""
  others = tuple(x.shape[axis] for axis in rest)
  rows = reshape(b, transpose(b, x, [*axes, *rest]), (product([x.shape[axis] for axis in axes]), *others))
  return b.op("GatherV2", rows, where, np.int32(0), shape=(*where.shape, *others))


def _filled(b: Builder, x: Tensor, inside: Tensor, fill_value: Any) -> Tensor:
  if fill_value is None:
    fill_value = _default_fill(x.dtype)
  mask = reshape(b, inside, (*inside.shape, *(1 for _ in range(x.rank - inside.rank))))
  return select(b, mask, x, full(b, x, fill_value), x.shape)


def _default_fill(dtype: "np.dtype[Any]") -> Any:
  """Returns what JAX fills slices with: NaN, the least signed and the largest unsigned integer, or True."""
  if jnp.issubdtype(dtype, np.inexact):
    return np.nan
  if dtype == np.bool_:
    return True
  return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
