"""The scatter primitives: the axes along which slices have positions are made one axis.

Slices that JAX drops go to one more row, which is then cut off: TensorFlow's CPU kernels raise an error for positions
out of bounds.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import (
  broadcast,
  cast,
  compare,
  full,
  is_nan,
  pad,
  reshape,
  same_shape,
  scatter_update,
  select,
  static_slice,
  transpose,
)
from graftax.convert.jax2tf.tf_ops.rules._positions import (
  IndexedAxes,
  clamped,
  coordinates,
  flat_positions,
  in_bounds,
  product,
)
from graftax.convert.jax2tf.tf_ops.rules._traced import traced
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Shape, Tensor
from graftax.xla_call_module.lax_extras import highest, lowest

_MAX_MASKED = 1 << 22
_HINTS = ("indices_are_sorted", "update_consts")


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
  """A scatter to rows.

  Attributes:
    operand: `[rows, ...]`, the operand with its indexed axes first, as one axis.
    updates: `[n, ...]`.
    positions: `[n, 1]`, the row of each update; `rows` if the update is dropped.
    drops: whether an update may be dropped.
    order: the axes of the operand in the order in which they are in the rows.
    apart: the shape of the operand in that order, before the axes were joined.
  """

  operand: Tensor
  updates: Tensor
  positions: Tensor
  drops: bool
  order: tuple[int, ...]
  apart: Shape

  def with_dropped(self, b: Builder) -> Tensor:
    """Returns the operand, with a row for dropped updates."""
    return pad(b, self.operand, [(0, int(self.drops)), *((0, 0) for _ in self.operand.shape[1:])], 0)

  @property
  def padded_shape(self) -> Shape:
    """The shape of the operand with a row for dropped updates."""
    return (self.operand.shape[0] + int(self.drops), *self.operand.shape[1:])

  def restored(self, b: Builder, x: Tensor) -> Tensor:
    """Returns rows in the shape of the operand, without the row for dropped updates."""
    rows = static_slice(b, x, [0] * x.rank, list(self.operand.shape))
    return transpose(b, reshape(b, rows, self.apart), list(np.argsort(self.order)))


def _rows(b: Builder, x: Tensor, starts: Tensor, updates: Tensor, numbers: Any, mode: Any) -> _Rows:
  """Returns a scatter as one to rows."""
  inserted = {*map(int, numbers.inserted_window_dims), *map(int, numbers.operand_batching_dims)}
  window_dims = [int(dim) for dim in numbers.update_window_dims]
  num_words = x.rank - len(inserted) - len(window_dims)  # random keys have one more axis, of their words
  window_dims += range(updates.rank - num_words, updates.rank)
  # The axes of windows: those of the operand, and where they are in the updates.
  of_window = dict(zip((axis for axis in range(x.rank) if axis not in inserted), window_dims, strict=True))
  indexed, num_short = _indexed_axes(x, {axis: updates.shape[dim] for axis, dim in of_window.items()}, numbers)
  where, drops = _positions(b, starts, indexed, num_short, mode)
  axes = indexed.axes
  rest = [axis for axis in range(x.rank) if axis not in axes]
  windows = [axis for axis in axes if axis in of_window]
  outer_dims = [dim for dim in range(updates.rank) if dim not in window_dims]
  ordered = transpose(b, updates, [*outer_dims, *(of_window[axis] for axis in [*windows, *rest])])
  others = tuple(x.shape[axis] for axis in rest)
  num_updates = product(where.shape)
  return _Rows(
    operand=reshape(b, transpose(b, x, [*axes, *rest]), (product(indexed.sizes), *others)),
    updates=reshape(b, ordered, (num_updates, *others)),
    positions=reshape(b, where, (num_updates, 1)),
    drops=drops,
    order=(*axes, *rest),
    apart=tuple(x.shape[axis] for axis in [*axes, *rest]),
  )


def _indexed_axes(x: Tensor, lengths: Mapping[int, Dim], numbers: Any) -> tuple[IndexedAxes, int]:
  """Returns the axes along which updates have positions, and how many of them, the last ones, have position zero.

  Args:
    x: the operand.
    lengths: axis of the operand -> size of an update along it.
    numbers: the `ScatterDimensionNumbers`.
  """
  batch_dims = [int(axis) for axis in numbers.operand_batching_dims]
  given = [*batch_dims, *(int(axis) for axis in numbers.scatter_dims_to_operand_dims)]
  # Along axes that windows do not have, all updates are at position 0.
  whole = [axis for axis, length in lengths.items() if same_shape([length], [x.shape[axis]])]
  short = [axis for axis in range(x.rank) if axis not in (*given, *whole)]
  if not given and not short:
    if not x.rank:
      raise Unsupported("an update of a scalar")
    short = [0]  # the update is as large as the operand, and begins at its first row
  axes = (*given, *short)
  indexed = IndexedAxes(
    axes,
    tuple(x.shape[axis] for axis in axes),
    tuple(lengths.get(axis, 1) for axis in axes),
    len(batch_dims),
    tuple(int(axis) for axis in numbers.scatter_indices_batching_dims),
  )
  return indexed, len(short)


def _positions(b: Builder, starts: Tensor, indexed: IndexedAxes, num_short: int, mode: Any) -> tuple[Tensor, bool]:
  """Returns the row of each element of the updates, and whether there may be one more row, for those dropped."""
  num_given = len(indexed.axes) - num_short
  of_starts = dataclasses.replace(
    indexed, axes=indexed.axes[:num_given], sizes=indexed.sizes[:num_given], lengths=indexed.lengths[:num_given]
  )
  outer = starts.shape[:-1]
  zero = reshape(b, b.constant(0, np.int32), (1,) * len(outer))
  at = [*coordinates(b, starts, of_starts), *(broadcast(b, zero, outer) for _ in range(num_short))]
  where = flat_positions(b, clamped(b, at, indexed), indexed)
  inside = None if mode.name == "CLIP" else in_bounds(b, at, indexed)
  if inside is None:
    return where, False
  mask = reshape(b, inside, (*inside.shape, *(1 for _ in range(where.rank - inside.rank))))
  return select(b, mask, where, b.size(product(indexed.sizes)), where.shape), True


@rule("scatter_add", "scatter-add", ignores=(*_HINTS, "unique_indices", "update_jaxpr"))
def scatter_add(b: Builder, x: Tensor, starts: Tensor, updates: Tensor, *, dimension_numbers: Any, mode: Any) -> Tensor:
  """Returns the operand with updates added."""
  return _added(b, "AddV2", x, starts, updates, dimension_numbers, mode)


@rule("scatter_sub", "scatter-sub", ignores=(*_HINTS, "unique_indices", "update_jaxpr"))
def scatter_sub(b: Builder, x: Tensor, starts: Tensor, updates: Tensor, *, dimension_numbers: Any, mode: Any) -> Tensor:
  """Returns the operand with updates subtracted."""
  return _added(b, "Sub", x, starts, updates, dimension_numbers, mode)


def _added(b: Builder, op: str, x: Tensor, starts: Tensor, updates: Tensor, numbers: Any, mode: Any) -> Tensor:
  rows = _rows(b, x, starts, updates, numbers, mode)
  if x.dtype == np.bool_:
    raise Unsupported("sums of bools")
  if b.lacks("ScatterNd"):
    changes = b.op("Neg", rows.updates, shape=rows.updates.shape) if op == "Sub" else rows.updates
    operand = rows.with_dropped(b)
    return rows.restored(b, b.op("TensorScatterAdd", operand, rows.positions, changes, shape=operand.shape))
  sums = b.op("ScatterNd", rows.positions, rows.updates, b.shape(rows.padded_shape), shape=rows.padded_shape)
  return b.op(op, x, rows.restored(b, sums), shape=x.shape)


@rule("scatter_mul", "scatter-mul", ignores=(*_HINTS, "unique_indices", "update_jaxpr"))
def scatter_mul(b: Builder, x: Tensor, starts: Tensor, updates: Tensor, *, dimension_numbers: Any, mode: Any) -> Tensor:
  """Returns the operand multiplied by updates."""
  rows = _rows(b, x, starts, updates, dimension_numbers, mode)
  where = reshape(b, rows.positions, rows.positions.shape[:1])
  number = b.size(rows.padded_shape[0])
  products = b.op("UnsortedSegmentProd", rows.updates, where, number, shape=rows.padded_shape)
  return b.op("Mul", x, rows.restored(b, products), shape=x.shape)


@rule("scatter_min", "scatter-min", ignores=(*_HINTS, "unique_indices", "update_jaxpr"))
def scatter_min(b: Builder, x: Tensor, starts: Tensor, updates: Tensor, *, dimension_numbers: Any, mode: Any) -> Tensor:
  """Returns the smaller one of operand and updates."""
  return _extreme(b, "TensorScatterMin", _rows(b, x, starts, updates, dimension_numbers, mode))


@rule("scatter_max", "scatter-max", ignores=(*_HINTS, "unique_indices", "update_jaxpr"))
def scatter_max(b: Builder, x: Tensor, starts: Tensor, updates: Tensor, *, dimension_numbers: Any, mode: Any) -> Tensor:
  """Returns the larger one of operand and updates."""
  return _extreme(b, "TensorScatterMax", _rows(b, x, starts, updates, dimension_numbers, mode))


def _extreme(b: Builder, op: str, rows: _Rows) -> Tensor:
  if b.lacks(op) or (rows.updates.is_float and b.lacks("ScatterNd")):
    return _extreme_by_mask(b, op, rows)
  operand = rows.with_dropped(b)
  updates = rows.updates
  if not updates.is_float:
    return rows.restored(b, b.op(op, operand, rows.positions, updates, shape=operand.shape))
  # TensorFlow's kernels may lose NaN.
  nans = is_nan(b, updates)
  numbers = select(b, nans, full(b, updates, np.inf if op.endswith("Min") else -np.inf), updates, updates.shape)
  found = b.op(op, operand, rows.positions, numbers, shape=operand.shape)
  marks = b.op("ScatterNd", rows.positions, cast(b, nans, np.int32), b.shape(rows.padded_shape), shape=operand.shape)
  marked = b.op("LogicalOr", compare(b, "Greater", marks, 0), is_nan(b, operand), shape=operand.shape)
  return rows.restored(b, select(b, marked, full(b, updates, np.nan), found, operand.shape))


def _extreme_by_mask(b: Builder, op: str, rows: _Rows) -> Tensor:
  """Returns the extremes of each row and all updates, of which a mask has those for the row."""
  number, (height, *width) = rows.updates.shape[0], rows.operand.shape
  sizes = (number, height, *width)
  if not all(isinstance(size, int) for size in sizes) or math.prod(sizes) > _MAX_MASKED:
    raise Unsupported(
      f"the converter to {b.library.consumer} does not read the op {op}, and without it {number} updates of "
      f"{tuple(rows.operand.shape)} need more than {_MAX_MASKED} elements"
    )
  is_least = op == "TensorScatterMin"
  neutral = highest(rows.operand.dtype) if is_least else lowest(rows.operand.dtype)

  def extreme(operand: jax.Array, updates: jax.Array, positions: jax.Array) -> jax.Array:
    mask = (positions == jnp.arange(height)).reshape(number, height, *(1 for _ in width))
    masked = jnp.where(mask, updates[:, None], neutral)
    return (
      jnp.minimum(operand, masked.min(0, initial=neutral))
      if is_least
      else jnp.maximum(operand, masked.max(0, initial=neutral))
    )

  found = traced(b, extreme, [rows.operand, rows.updates, rows.positions])
  return transpose(b, reshape(b, found, rows.apart), list(np.argsort(rows.order)))


@rule("scatter", ignores=("indices_are_sorted",), folds=False)
def scatter(
  b: Builder,
  x: Tensor,
  starts: Tensor,
  updates: Tensor,
  *,
  dimension_numbers: Any,
  mode: Any,
  unique_indices: bool,
  update_jaxpr: Any,
  update_consts: Sequence[Any] = (),
) -> Tensor:
  """Returns the operand with slices replaced, or changed by a function."""
  rows = _rows(b, x, starts, updates, dimension_numbers, mode)
  operand = rows.with_dropped(b)
  values = rows.updates
  if not _replaces(update_jaxpr):
    if not unique_indices:
      raise Unsupported("a function of elements at positions that may occur twice; pass unique_indices=True")
    before = b.op(
      "GatherV2", operand, reshape(b, rows.positions, rows.positions.shape[:1]), np.int32(0), shape=values.shape
    )
    values = _elementwise(b, update_jaxpr, update_consts, before, values)
  return rows.restored(b, scatter_update(b, operand, rows.positions, values))


def _replaces(jaxpr: Jaxpr | None) -> bool:
  """Returns whether the function of an element and an update is the update."""
  return jaxpr is None or (not jaxpr.eqns and jaxpr.outvars[0] is jaxpr.invars[1])


def _elementwise(b: Builder, jaxpr: Jaxpr, consts: Sequence[Any], x: Tensor, y: Tensor) -> Tensor:
  """Returns a function of scalars for each element."""
  function = jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))
  flat = product(x.shape)
  specs = [jax.ShapeDtypeStruct((flat,), operand.dtype) for operand in (x, y)]
  mapped = jax.make_jaxpr(jax.vmap(lambda *pair: function(*pair)[0]))(*specs)
  (found,) = run_jaxpr(b, mapped, [reshape(b, operand, (flat,)) for operand in (x, y)])
  return reshape(b, found, x.shape)
