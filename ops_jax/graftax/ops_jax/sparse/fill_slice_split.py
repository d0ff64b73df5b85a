"""Sparse tensors cut or filled: SparseFillEmptyRows, SparseSlice, SparseSplit. Coordinates must be known."""

import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, Static, Value, namespace

__all__ = ["sparse_fill_empty_rows", "sparse_fill_empty_rows_grad", "sparse_slice", "sparse_split"]


@register("SparseFillEmptyRows", ignores=("T",), compared_inputs=("values", "default_value"))
def sparse_fill_empty_rows(
  indices: Static[np.ndarray],
  values: Array,
  dense_shape: Static[tuple[int, ...]],
  default_value: Array,
  *,
  budget: Budget = NO_BUDGET,
) -> tuple[Value, Value, Value, Value]:
  """Inserts one value at the start of every empty row of a sparse matrix.

  Source op: `tf.raw_ops.SparseFillEmptyRows`.

  Args:
    indices: `[nnz, rank]` int64, row-major. Must be concrete: it decides the size of the result.
    values: `[nnz]`, any dtype.
    dense_shape: `[rank]`.
    default_value: scalar, dtype of `values`.
    budget: is asked for memory.

  Returns:
    Coordinates, values, which rows were empty, and for each input value its new position.

  Raises:
    StaticInputError: `indices` depends on traced data.
    InvalidInputError: the shape is negative or empty, or a row lies outside of it.
    LimitExceededError: there are too many empty rows.
  """
  if not dense_shape or min(dense_shape) < 0:
    raise InvalidInputError(f"SparseFillEmptyRows: dense_shape is {dense_shape}; expected sizes of at least 0.")
  num_rows = dense_shape[0]
  if np.any((indices[:, 0] < 0) | (indices[:, 0] >= num_rows)):
    raise InvalidInputError(f"SparseFillEmptyRows: a row of indices is out of range for {num_rows} rows.")
  check_known((num_rows, indices.shape[1]), budget, "SparseFillEmptyRows")
  is_empty = np.bincount(indices[:, 0], minlength=num_rows)[:num_rows] == 0 if num_rows else np.zeros(0, bool)
  fillers = np.zeros((int(is_empty.sum()), indices.shape[1]), np.int64)
  fillers[:, 0] = np.flatnonzero(is_empty)
  joined = np.concatenate([indices, fillers])
  order = np.argsort(joined[:, 0], kind="stable")
  places = np.empty(order.size, np.int64)
  places[order] = np.arange(order.size)
  xp = namespace(values, default_value)
  extended = xp.concatenate([xp.asarray(values), xp.full((fillers.shape[0],), default_value, values.dtype)])
  return joined[order], extended[order], is_empty, places[: indices.shape[0]]


@register("SparseFillEmptyRowsGrad", ignores=("T",))
def sparse_fill_empty_rows_grad(reverse_index_map: Array, grad_values: Array) -> tuple[Array, Array]:
  """Computes the gradients of `SparseFillEmptyRows` with respect to its values and its default value.

  Source op: `tf.raw_ops.SparseFillEmptyRowsGrad`.

  Args:
    reverse_index_map: `[n]`, int64.
    grad_values: `[m]`, any numeric dtype.

  Returns:
    `[n]` and a scalar, dtype of `grad_values`.
  """
  grad_values = jnp.asarray(grad_values)
  is_original = jnp.zeros(grad_values.shape, bool).at[jnp.asarray(reverse_index_map)].set(True)
  of_default = jnp.sum(jnp.where(is_original, jnp.zeros((), grad_values.dtype), grad_values), dtype=grad_values.dtype)
  return grad_values[jnp.asarray(reverse_index_map)], of_default


@register("SparseSlice", ignores=("T",), compared_inputs=("values",))
def sparse_slice(
  indices: Static[np.ndarray],
  values: Array,
  shape: Static[tuple[int, ...]],
  start: Static[tuple[int, ...]],
  size: Static[tuple[int, ...]],
) -> tuple[Value, Value, Value]:
  """Cuts a window out of a sparse tensor.

  Source op: `tf.raw_ops.SparseSlice`.

  Args:
    indices: `[nnz, rank]` int64. Must be concrete: it decides the size of the result.
    values: `[nnz]`, any dtype.
    shape: `[rank]`.
    start: `[rank]`, first corner.
    size: `[rank]`, maximum size; the window is cut at the end of the tensor.

  Returns:
    Coordinates, values and shape of the window.

  Raises:
    StaticInputError: `indices` depends on traced data.
  """
  first = np.array(start, np.int64)
  last = np.minimum(first + np.array(size, np.int64), np.array(shape, np.int64))
  inside = np.all((indices >= first) & (indices < last), axis=1)
  return indices[inside] - first, values[np.flatnonzero(inside)], np.maximum(last - first, 0)


@register("SparseSplit", ignores=("T",), compared_inputs=("values",))
def sparse_split(
  split_dim: Static[int], indices: Static[np.ndarray], values: Array, shape: Static[tuple[int, ...]], *, num_split: int
) -> tuple[Value, ...]:
  """Splits a sparse tensor along an axis; the first parts are longer by one if the axis does not divide evenly.

  Source op: `tf.raw_ops.SparseSplit`.

  Args:
    split_dim: the axis.
    indices: `[nnz, rank]` int64. Must be concrete: it decides the sizes of the results.
    values: `[nnz]`, any dtype.
    shape: `[rank]`.
    num_split: number of parts.

  Returns:
    Coordinates of all parts, then values of all, then shapes of all.

  Raises:
    StaticInputError: `indices` depends on traced data.
  """
  axis = split_dim % len(shape)
  length, longer = divmod(shape[axis], num_split)
  parts = []
  begin = 0
  for part in range(num_split):
    start, size = [0] * len(shape), list(shape)
    start[axis], size[axis] = begin, length + (part < longer)
    parts.append(sparse_slice(indices, values, shape, tuple(start), tuple(size)))
    begin += size[axis]
  return tuple(part[i] for i in range(3) for part in parts)
