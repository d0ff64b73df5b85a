"""Elements and slices at given positions: GatherV2, Gather, GatherNd, UnravelIndex.

TensorFlow's CPU kernels raise an error for positions out of range, including negative ones. These lowerings do so if
the positions are known. A traced position out of range gives NaN, so that the mistake is visible; dtypes without NaN
give the smallest signed integer, the largest unsigned one, or true.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.axes import canonical_axis
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import as_known
from graftax.ops_jax._core.numeric import invalid
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, is_known, is_symbolic, materialize
from graftax.ops_jax.array.strided_gather import strided_gather

__all__ = ["check_bounds", "gather", "gather_nd", "gather_v2", "positions_or_end", "unravel_index"]


@register("GatherV2", ignores=("Tparams", "Tindices", "Taxis"), symbolic=True, data_inputs=("params",))
def gather_v2(
  params: Array, indices: Array, axis: Static[int], *, batch_dims: int = 0, facts: IntegerFacts = NO_FACTS
) -> Array:
  """Gathers slices of `params` along an axis, at given positions.

  Source op: `tf.raw_ops.GatherV2`.

  Args:
    params: `[*batch, *before, n, *after]`, any dtype.
    indices: `[*batch, *positions]`, integer in `[0, n)`.
    axis: position of `n`; negative counts from the end. Must be known.
    batch_dims: number of dimensions in `batch`; negative counts from the rank of `indices`.
    facts: what is known of traced integers.

  Returns:
    `[*batch, *before, *positions, *after]`, of the dtype of `params`; known if both inputs are.

  Raises:
    InvalidInputError: a known position is out of range, or the batches differ.

  Differs from TF: a traced position out of range gives NaN or an extreme integer (see above) instead of raising an
  error.
  """
  axis = canonical_axis("GatherV2", axis, params.ndim)
  indices = materialize(indices)
  if not -indices.ndim <= batch_dims <= indices.ndim:
    raise InvalidInputError(f"GatherV2: batch_dims={batch_dims} is out of range for indices of shape {indices.shape}.")
  batch_dims = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
  if batch_dims > axis or params.shape[:batch_dims] != indices.shape[:batch_dims]:
    raise InvalidInputError(
      f"GatherV2: params {params.shape} and indices {indices.shape} do not share {batch_dims} dimensions before "
      f"axis {axis}."
    )
  in_bounds = check_bounds("GatherV2", indices, params.shape[axis])
  if is_known(params) and is_known(indices):
    return as_known(_np_gather(np.asarray(params), np.asarray(indices), axis, batch_dims))
  x = jnp.asarray(materialize(params))
  found = strided_gather(x, np.asarray(indices), axis) if in_bounds and not batch_dims else None
  result: Array = _gather(x, jnp.asarray(indices), axis, batch_dims, in_bounds) if found is None else found
  if params.ndim != 1 or not (in_bounds and is_known(indices)):
    return result
  return facts.selected(result, params, np.asarray(indices))


@register("Gather", ignores=("Tparams", "Tindices", "validate_indices"), symbolic=True, data_inputs=("params",))
def gather(params: Array, indices: Array, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Computes `gather_v2` along the first axis."""
  return gather_v2(params, indices, 0, facts=facts)


@register("GatherNd", ignores=("Tparams", "Tindices"), symbolic=True, data_inputs=("params",))
def gather_nd(params: Array, indices: Array, *, bad_indices_policy: str = "") -> Array:
  """Gathers elements or slices of `params` at given coordinates.

  Source op: `tf.raw_ops.GatherNd`.

  Args:
    params: `[d0, ..., dk, *rest]`, any dtype.
    indices: `[*positions, k + 1]`, integer coordinates.
    bad_indices_policy: "IGNORE" gives 0 for coordinates out of range; otherwise they are an error.

  Returns:
    `[*positions, *rest]`, of the dtype of `params`; known if both inputs are.

  Raises:
    InvalidInputError: known coordinates are out of range, or there are more of them than dimensions.

  Differs from TF: traced coordinates out of range give NaN or an extreme integer (see above) instead of raising an
  error.
  """
  indices = materialize(indices)
  depth = indices.shape[-1] if indices.ndim else 0
  if not indices.ndim or depth > params.ndim:
    raise InvalidInputError(f"GatherNd: indices of shape {indices.shape} do not fit params of shape {params.shape}.")
  ignores = bad_indices_policy == "IGNORE"
  in_bounds = not ignores and check_bounds("GatherNd", indices, params.shape[:depth])
  if in_bounds and is_known(params) and depth:
    return as_known(np.asarray(params)[tuple(np.moveaxis(np.asarray(indices), -1, 0))])
  params, indices = jnp.asarray(materialize(params)), jnp.asarray(indices)
  num_positions = indices.ndim - 1
  dims = lax.GatherDimensionNumbers(
    offset_dims=tuple(range(num_positions, num_positions + params.ndim - depth)),
    collapsed_slice_dims=tuple(range(depth)),
    start_index_map=tuple(range(depth)),
  )
  sizes = (1,) * depth + params.shape[depth:]
  mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS if in_bounds else lax.GatherScatterMode.FILL_OR_DROP
  return lax.gather(params, indices, dims, sizes, mode=mode, fill_value=0 if ignores else None)


@register("UnravelIndex", ignores=("Tidx",))
def unravel_index(indices: Array, dims: Array) -> Array:
  """Converts flat positions to coordinates in an array of shape `dims`.

  Source op: `tf.raw_ops.UnravelIndex`.

  Args:
    indices: scalar or `[n]`, integer.
    dims: `[rank]`, of the same dtype.

  Returns:
    `[rank]` or `[rank, n]`, of the same dtype.

  Raises:
    InvalidInputError: a known position lies beyond the array.
  """
  if is_known(indices) and is_known(dims) and dims.dtype != object:
    if np.any(indices < 0) or np.any(indices >= np.prod(dims)):
      raise InvalidInputError(f"UnravelIndex: {indices!r} is out of range for an array of shape {dims!r}.")
  rest, sizes = jnp.asarray(indices), jnp.asarray(materialize(dims))
  coordinates = []
  for axis in reversed(range(sizes.shape[0])):
    coordinates.append(rest % sizes[axis])
    rest = rest // sizes[axis]
  return jnp.stack(coordinates[::-1])


def check_bounds(op: str, indices: Array, limits: Any) -> bool:
  """Returns whether `indices` are known and valid.

  Args:
    op: for the message.
    indices: positions below one limit, or `[..., n]` coordinates below `n` limits.
    limits: dimension or dimensions; symbolic ones are not checked.

  Raises:
    InvalidInputError: they are known, and one is out of range.
  """
  if not is_known(indices) or is_symbolic(indices):
    return False
  is_single = not isinstance(limits, tuple)
  columns = [np.asarray(indices)] if is_single else list(np.moveaxis(np.asarray(indices), -1, 0))
  bounds = [limits] if is_single else list(limits)
  for column, bound in zip(columns, bounds, strict=True):
    if not isinstance(bound, int):
      return False
    bad = column[(column < 0) | (column >= bound)]
    if bad.size:
      raise InvalidInputError(f"{op}: index {bad.flat[0]} is not in [0, {bound}).")
  return True


def positions_or_end(op: str, indices: Array, limit: Any) -> jax.Array:
  """Returns `indices` with those out of range moved beyond the end, where JAX drops updates.

  JAX would count negative ones from the end.

  Args:
    op: for the message.
    indices: any shape, integer.
    limit: number of positions; may be symbolic.

  Raises:
    InvalidInputError: they are known, and one is out of range.
  """
  check_bounds(op, indices, limit)
  indices = jnp.asarray(indices)
  return jnp.where(indices < 0, jnp.asarray(limit, indices.dtype), indices)


def _np_gather(params: np.ndarray, indices: np.ndarray, axis: int, batch_dims: int) -> np.ndarray:
  if not batch_dims:
    return np.take(params, indices, axis)
  parts = [_np_gather(p, i, axis - 1, batch_dims - 1) for p, i in zip(params, indices, strict=True)]
  if parts:
    return np.stack(parts)
  shape = params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1 :]
  return np.zeros(shape, params.dtype)


def _gather(params: Array, indices: Array, axis: int, batch_dims: int, in_bounds: bool) -> Array:
  limit = params.shape[axis]
  if not isinstance(limit, int) and jax.core.max_dim(limit, 1) != limit:
    # JAX cannot know whether a symbolic dimension is 0; one more element makes sure that it is not.
    last = jnp.full((*params.shape[:axis], 1, *params.shape[axis + 1 :]), invalid(params.dtype))
    params = jnp.concatenate([params, last], axis)
  batch = tuple(range(batch_dims))
  num_positions = indices.ndim - batch_dims
  rank = params.ndim - 1 + num_positions
  dims = lax.GatherDimensionNumbers(
    offset_dims=(*range(batch_dims, axis), *range(axis + num_positions, rank)),
    collapsed_slice_dims=(axis,),
    start_index_map=(axis,),
    operand_batching_dims=batch,
    start_indices_batching_dims=batch,
  )
  sizes = [1 if i in batch or i == axis else dim for i, dim in enumerate(params.shape)]
  mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS if in_bounds else lax.GatherScatterMode.FILL_OR_DROP
  return lax.gather(params, indices[..., None], dims, sizes, mode=mode)
