"""`gather` as GatherV2: the axes along which slices have positions are made one axis."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules._common import broadcast, full, reshape, select, static_slice, transpose
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
  slice_sizes = [*slice_sizes, *x.shape[len(slice_sizes) :]]  # the words of random keys
  numbers = dimension_numbers
  batch_dims = [int(axis) for axis in numbers.operand_batching_dims]
  axes = (*batch_dims, *(int(axis) for axis in numbers.start_index_map))
  x = _without_unused(b, x, axes, slice_sizes)
  if not axes:
    # All slices begin at the first element of the operand.
    kept = [x.shape[axis] for axis in range(x.rank) if axis not in map(int, numbers.collapsed_slice_dims)]
    words = range(len(out.shape) - (len(kept) - len(numbers.offset_dims)), len(out.shape))
    sizes = dict(zip([*map(int, numbers.offset_dims), *words], kept, strict=True))
    return broadcast(b, reshape(b, x, tuple(sizes.get(axis, 1) for axis in range(len(out.shape)))), out.shape)
  indexed = IndexedAxes(
    axes,
    tuple(x.shape[axis] for axis in axes),
    tuple(slice_sizes[axis] for axis in axes),
    len(batch_dims),
    tuple(int(axis) for axis in numbers.start_indices_batching_dims),
  )
  at = coordinates(b, starts, indexed)
  where = flat_positions(b, clamped(b, at, indexed), indexed)
  rest = [axis for axis in range(x.rank) if axis not in axes]
  found = _rows(b, x, axes, rest, where)
  dropped = {*map(int, numbers.collapsed_slice_dims), *batch_dims}
  rest = [axis for axis in rest if axis not in dropped]  # those dropped have size 1
  found = reshape(b, found, (*where.shape, *(x.shape[axis] for axis in rest)))
  inside = in_bounds(b, at, indexed) if mode.name == "FILL_OR_DROP" else None
  if inside is not None:
    found = _filled(b, found, inside, fill_value)
  # The axes are now those of `starts`, the lengths that are not 1, and the axes without positions.
  windows = [axis for axis in axes if not (isinstance(slice_sizes[axis], int) and slice_sizes[axis] == 1)]
  by_axis = {axis: starts.rank - 1 + number for number, axis in enumerate([*windows, *rest])}
  of_slices = [by_axis.get(axis) for axis in range(x.rank) if axis not in dropped]
  order = _result_order(len(out.shape), numbers.offset_dims, of_slices)
  return reshape(b, transpose(b, found, order), out.shape)


def _result_order(rank: int, offset_dims: Sequence[int], of_slices: Sequence[int | None]) -> list[int]:
  """Returns the axes of the slices in the order of the result.

  Args:
    rank: of the result.
    offset_dims: the axes of the result that are axes of slices, without those of the words of random keys, which are
      last. The others are axes of the positions.
    of_slices: where the axes of slices are, in their order; None for one of size 1 that is not there.
  """
  num_words = len(of_slices) - len(offset_dims)
  slice_dims = {*map(int, offset_dims), *range(rank - num_words, rank)}
  outer, slices = itertools.count(), iter(of_slices)
  found = [next(slices) if position in slice_dims else next(outer) for position in range(rank)]
  return [axis for axis in found if axis is not None]


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
  # `jax.lax.gather` has replaced None by a value for the dtype.
  mask = reshape(b, inside, (*inside.shape, *(1 for _ in range(x.rank - inside.rank))))
  return select(b, mask, x, full(b, x, fill_value), x.shape)
