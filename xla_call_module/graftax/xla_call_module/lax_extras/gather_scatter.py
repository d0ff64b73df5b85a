"""Gather and scatter with HLO's semantics: any dimension of index vectors, any combining function."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import primitives

from graftax.xla_call_module.lax_extras.reductions import mapped

__all__ = ["DROP", "gather", "gather_old", "index_vectors_last", "scatter"]

# HLO's gather clamps every start index; XLA drops an update if its window is partly out of bounds.
_CLAMP = lax.GatherScatterMode.CLIP
DROP = lax.GatherScatterMode.FILL_OR_DROP

_SCATTERS: dict[str, Callable[..., Array]] = {
    "update": lax.scatter, "add": lax.scatter_add, "subtract": lax.scatter_sub, "multiply": lax.scatter_mul,
    "maximum": lax.scatter_max, "minimum": lax.scatter_min,
}  # fmt: skip
_ON_BOOLS = {"update": "update", "or": "maximum", "and": "minimum"}


def index_vectors_last(indices: Array, index_vector_dim: int) -> Array:
  """Returns indices with the index vectors along the last axis, as JAX expects.

  Args:
    indices: integers.
    index_vector_dim: the axis of the index vectors, not negative. If it is the rank of `indices`, each element is an
      index vector by itself, and the result has one more axis, of size 1.

  Example:
    >>> index_vectors_last(jax.numpy.array([5, 7]), 1).shape
    (2, 1)
  """
  if index_vector_dim == indices.ndim:
    return lax.expand_dims(indices, (indices.ndim,))
  if index_vector_dim == indices.ndim - 1:
    return indices
  order = [axis for axis in range(indices.ndim) if axis != index_vector_dim]
  return lax.transpose(indices, (*order, index_vector_dim))


def gather(
  x: Array,
  indices: Array,
  slice_sizes: tuple[Any, ...],
  numbers: lax.GatherDimensionNumbers,
  *,
  indices_are_sorted: bool = False,
) -> Array:
  """Returns slices of `x` at many positions, which are clamped to the bounds; index vectors are along the last axis.

  Args:
    x: any dtype.
    indices: integers, `[*batch, num_indices]`.
    slice_sizes: the size of a slice along each axis of `x`; may be symbolic.
    numbers: which axes of `x` the indices address, and where the axes of a slice are in the result.
    indices_are_sorted: the caller guarantees that they are; results are undefined otherwise.

  Example:
    >>> numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(jax.numpy.array([5, 6, 7]), jax.numpy.array([[2], [9]]), (1,), numbers)  # 9 becomes 2
    Array([7, 7], dtype=int32)
  """
  return lax.gather(x, indices, numbers, slice_sizes, indices_are_sorted=indices_are_sorted, mode=_CLAMP)


def scatter(
  combine: Callable[..., Any],
  x: Array,
  indices: Array,
  updates: Array,
  numbers: lax.ScatterDimensionNumbers,
  *,
  name: str | None,
  indices_are_sorted: bool = False,
  unique_indices: bool = False,
  no_derivative: Callable[[str], Exception],
) -> Array:
  """Returns `x` with slices combined with updates; updates that are out of bounds are dropped.

  Args:
    combine: `combine(old, update)` returns the new scalar.
    x: any dtype.
    indices: integers, with the index vectors along the last axis.
    updates: dtype of `x`.
    numbers: the dimension numbers.
    name: the name of `combine`: "update", "subtract", a key of `MONOIDS`, or None for any other function.
    indices_are_sorted: the caller guarantees that they are.
    unique_indices: the caller guarantees that they are; any function then has a derivative.
    no_derivative: returns the error to raise for derivatives that depend on the order of the updates.
  """
  name = _ON_BOOLS.get(name or "") if x.dtype == np.bool_ else name
  if name == "multiply" and not unique_indices:
    return _scatter_multiply(x, indices, updates, numbers, indices_are_sorted)
  if name in _SCATTERS:
    known = _SCATTERS[name]
    return known(
      x, indices, updates, numbers, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=DROP
    )
  settings: dict[str, Any] = {
    "dimension_numbers": numbers,
    "indices_are_sorted": indices_are_sorted,
    "unique_indices": unique_indices,
    "mode": DROP,
  }
  if unique_indices:
    old = gather_old(x, indices, updates, numbers)
    return lax.scatter(x, indices, mapped(combine, updates.ndim)(old, updates), **settings)
  return _scatter_in_any_order(combine, x, indices, updates, settings, no_derivative)


def _scatter_multiply(
  x: Array, indices: Array, updates: Array, numbers: lax.ScatterDimensionNumbers, indices_are_sorted: bool
) -> Array:
  """Multiplies entries of `x` by updates. JAX has no derivative if several updates may have one position."""

  def apply(function: Callable[..., Array], x: Array, indices: Array, updates: Array) -> Array:
    return function(x, indices, updates, numbers, indices_are_sorted=indices_are_sorted, mode=DROP)

  @jax.custom_jvp
  def run(x: Array, indices: Array, updates: Array) -> Array:
    return apply(lax.scatter_mul, x, indices, updates)

  @run.defjvp
  def _(primals: Any, tangents: Any) -> Any:
    x, indices, updates = primals
    x_dot, _, updates_dot = tangents
    result = run(*primals)
    # The product of everything else at the position of an update: by division, unless the update is 0.
    is_zero = updates == 0
    safe = jnp.where(is_zero, jnp.ones_like(updates), updates)
    num_zeros = apply(lax.scatter_add, jnp.zeros_like(x), indices, is_zero.astype(x.dtype))
    without_zeros = gather_old(run(x, indices, safe), indices, updates, numbers)
    others = jnp.where(is_zero, without_zeros, gather_old(result, indices, updates, numbers) / safe)
    others = jnp.where(gather_old(num_zeros, indices, updates, numbers).real > 1, jnp.zeros_like(others), others)
    moved = apply(lax.scatter_add, jnp.zeros_like(x), indices, updates_dot * others)
    return result, x_dot * run(jnp.ones_like(x), indices, updates) + moved

  return run(x, indices, updates)


def _scatter_in_any_order(
  combine: Callable[..., Any],
  x: Array,
  indices: Array,
  updates: Array,
  settings: dict[str, Any],
  no_derivative: Callable[[str], Exception],
) -> Array:
  scalar = jax.ShapeDtypeStruct((), x.dtype)
  closed = jax.make_jaxpr(combine)(scalar, scalar)

  @jax.custom_jvp
  def run(x: Array, updates: Array, indices: Array) -> Array:
    return primitives.scatter_p.bind(
      x, indices, updates, update_jaxpr=closed.jaxpr, update_consts=tuple(closed.consts), **settings
    )

  @run.defjvp
  def refuse(primals: Any, tangents: Any) -> Any:
    raise no_derivative(
      "its function is none of update, add, subtract, multiply, maximum and minimum, and the indices are not unique, so"
      " its derivative depends on the order of the updates, which is not defined. Exclude it from differentiation"
      " (jax.lax.stop_gradient on its inputs)"
    )

  return run(jnp.asarray(x), jnp.asarray(updates), indices)


def gather_old(x: Array, indices: Array, updates: Array, numbers: lax.ScatterDimensionNumbers) -> Array:
  """Returns the current values of `x` at the position of each update; arbitrary values for updates out of bounds.

  Args:
    x: the array that is updated, any dtype.
    indices: integers, with the index vectors along the last axis.
    updates: only its shape is used, with the window axes of `numbers` among its axes.
    numbers: the dimension numbers of the scatter that is about to update `x`.

  Returns:
    The shape of `updates`, the dtype of `x`.
  """
  sizes, window = [], iter(numbers.update_window_dims)
  for axis in range(x.ndim):
    fixed = axis in numbers.inserted_window_dims or axis in numbers.operand_batching_dims
    sizes.append(1 if fixed else updates.shape[next(window)])
  gather_numbers = lax.GatherDimensionNumbers(
    offset_dims=tuple(numbers.update_window_dims),
    collapsed_slice_dims=tuple(numbers.inserted_window_dims),
    start_index_map=tuple(numbers.scatter_dims_to_operand_dims),
    operand_batching_dims=tuple(numbers.operand_batching_dims),
    start_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
  )
  return gather(x, indices, tuple(sizes), gather_numbers)
