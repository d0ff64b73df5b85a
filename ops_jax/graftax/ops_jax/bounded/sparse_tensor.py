"""Sparse tensors whose number of elements depends on data: SparseToDense, SparseReorder, SparseReduceSumSparse."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import kept_axes
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Value, shape_vector
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  filled,
  masked_derivative,
  may_be_less,
  resized,
  row_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.scatter import dropped, finished, in_step
from graftax.ops_jax.bounded.select_where import true_positions
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded
from graftax.xla_call_module.lax_extras import lowest

__all__ = [
  "sparse_fill_empty_rows",
  "sparse_reduce",
  "sparse_reorder",
  "sparse_reshape",
  "sparse_tensor_dense_mat_mul",
  "sparse_to_dense",
]


@makes("SparseToDense")
def sparse_to_dense(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Writes values at coordinates; the shape may be traced."""
  indices, shape, values, default = inputs
  if is_bounded(shape):
    call.refuse("the rank of its result depends on data")
  i, v = as_bounded(indices), as_bounded(values)
  if i.padded.ndim < 2:
    i = BoundedArray(i.padded.reshape(-1, 1), (*(i.lengths or (None,)), None), i.may_overflow)
  if v.padded.ndim:
    i, v = in_step(call, i, v, 1, keeps_lengths=True)
  sizes = [bounded_size(call, entry) for entry in call.facts.entries(shape)]
  lengths = [length for _, length, _ in sizes]
  bounds = shape_vector(bound for bound, _, _ in sizes)
  result = call.run_one(dropped(i, lengths), bounds, v.padded, default)
  return [finished(call, result, lengths, (i, v), any(may for _, _, may in sizes))]


@carries("SparseReorder")
def sparse_reorder(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Sorts coordinates in row-major order; those in the padding come last."""
  i, v = in_step(call, as_bounded(inputs[0]), as_bounded(inputs[1]), 1)
  last = filled(i, np.iinfo(np.dtype(i.dtype)).max, [0])
  indices, values = call.run(call.context, [last, v.padded, inputs[2]])
  may_overflow = i.may_overflow or v.may_overflow
  values = masked_derivative(values, None if v.lengths[0] is None else row_mask(v.lengths[0], values.shape[0]))
  return [call.made(indices, i.lengths, may_overflow), call.made(values, v.lengths, may_overflow)]


@carries("SparseReshape")
def sparse_reshape(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Converts coordinates to another shape."""
  i = as_bounded(inputs[0])
  if any(map(is_bounded, inputs[1:])):
    call.refuse("the rank of a shape depends on data")
  indices, shape = call.run(call.context, [filled(i, 0), *inputs[1:]])
  return [call.made(indices, (i.lengths[0], None), i.may_overflow), shape]


@carries("SparseTensorDenseMatMul")
def sparse_tensor_dense_mat_mul(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Multiplies a sparse matrix and a dense one."""
  indices, values, shape, b = inputs
  if is_bounded(b) or is_bounded(shape):
    call.refuse("an input other than the sparse matrix has a size that depends on data")
  i, v = in_step(call, as_bounded(indices), as_bounded(values), 1, keeps_lengths=True)
  result = call.run_one(dropped(i, (None, None)), filled(v, 0), shape, b)
  return [finished(call, result, (None, None), (i, v), False)]


@makes("SparseFillEmptyRows")
def sparse_fill_empty_rows(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Inserts one element at the start of every empty row; there are at most as many more as rows."""
  shape = call.static(inputs[2], tuple[int, ...], "dense_shape")
  num_rows = shape[0]
  i, v = in_step(call, as_bounded(inputs[0]), as_bounded(inputs[1]), 1)
  n = i.padded.shape[0]
  # Padding is sorted behind all rows.
  rows = filled(i, num_rows, [0])[:, 0].astype(jnp.int32)
  is_empty = jnp.zeros(num_rows, jnp.int32).at[rows].add(1, mode="drop") == 0
  own = jnp.concatenate([rows, jnp.where(is_empty, jnp.arange(num_rows, dtype=jnp.int32), num_rows)])
  order = jnp.argsort(own, stable=True)
  places = jnp.zeros(order.size, jnp.int32).at[order].set(jnp.arange(order.size, dtype=jnp.int32))
  fillers = jnp.zeros((num_rows, len(shape)), i.dtype).at[:, 0].set(jnp.arange(num_rows, dtype=i.dtype))
  indices = jnp.concatenate([i.padded, fillers])[order]
  values = jnp.concatenate([v.padded, jnp.full(num_rows, inputs[3], v.dtype)])[order]
  count = jnp.sum(own < num_rows, dtype=jnp.int32)
  return _filled_rows(call, (i, v), indices, values, is_empty, places[:n], count)


def _filled_rows(
  call: BoundedCall,
  sources: tuple[BoundedArray, BoundedArray],
  indices: jax.Array,
  values: jax.Array,
  is_empty: jax.Array,
  places: jax.Array,
  count: Any,
) -> Sequence[Value]:
  """Returns the results of `SparseFillEmptyRows` with their lengths."""
  wanted = call.max_size()
  bound = indices.shape[0] if wanted is None else jax.core.min_dim(wanted, indices.shape[0])
  overflow = any_overflow(*sources)
  may_overflow = overflow is not None or may_be_less(bound, indices.shape[0])
  count = checked_length(count, overflow)
  values = masked_derivative(resized(values, 0, bound), row_mask(count, bound))
  return [
    call.made(resized(indices, 0, bound), (count, None), may_overflow),
    call.made(values, (count,), may_overflow),
    is_empty,
    call.made(places.astype(canonical_dtype(np.int64)), sources[0].lengths[:1], overflow is not None),
  ]


@makes("SparseReduceSumSparse", "SparseReduceMaxSparse")
def sparse_reduce(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Reduces entries along axes to a sparse tensor, which has at most as many."""
  shape = call.static(inputs[2], tuple[int, ...], "input_shape")
  axes = call.static(inputs[3], tuple[int, ...], "reduction_axes")
  kept, sizes = kept_axes(call.node.op, shape, axes, call.attrs["keep_dims"])
  i, v = in_step(call, as_bounded(inputs[0]), as_bounded(inputs[1]), 1)
  rows, is_first, places, order = _grouped(i, kept)
  positions, count, may_overflow = true_positions(call, is_first, i)
  count, may_overflow = checked_length(count, any_overflow(v)), may_overflow or v.may_overflow
  is_sum = call.node.op == "SparseReduceSumSparse"
  start = jnp.full(order.size, 0 if is_sum else lowest(v.dtype), v.dtype)
  reduced = getattr(start.at[places], "add" if is_sum else "max")(v.padded[order], mode="drop")
  values = masked_derivative(reduced[: positions.size], row_mask(count, positions.size))
  coordinates = rows[positions]
  if call.attrs["keep_dims"]:
    coordinates = jnp.zeros((positions.size, len(shape)), rows.dtype).at[:, np.array(kept, int)].set(coordinates)
  return [
    call.made(coordinates, (count, None), may_overflow),
    call.made(values, (count,), may_overflow),
    np.array(sizes, np.int64),
  ]


def _grouped(i: BoundedArray, kept: Sequence[int]) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Groups the coordinates that are equal along some axes.

  Returns:
    The coordinates along these axes in order, padding last; which of them is the first of a group; the group of each,
    out of range in the padding; and their positions in `i`.
  """
  size = i.padded.shape[0]
  is_valid = jnp.ones(size, bool) if i.lengths[0] is None else row_mask(i.lengths[0], size)
  rows = i.padded[:, np.array(kept, int)]
  order = jnp.lexsort([*rows.T[::-1], ~is_valid])
  rows, is_valid = rows[order], is_valid[order]
  is_first = jnp.concatenate([jnp.ones(1, bool), jnp.any(rows[1:] != rows[:-1], axis=1)])[:size] & is_valid
  return rows, is_first, jnp.where(is_valid, jnp.cumsum(is_first) - 1, size), order
