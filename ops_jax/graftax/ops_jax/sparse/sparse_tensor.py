"""Sparse tensors with results of static shape: SparseToDense, SparseTensorDenseMatMul, SparseReduceSum, SparseConcat.

Coordinates are `[nnz, rank]` int64 in row-major order; shapes are `[rank]` int64 and known while tracing. Known
coordinates out of range raise an error, as in TensorFlow. At traced ones, writes are dropped, and reads return what
`gather` returns.
"""

import math
import operator
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import kept_axes
from graftax.ops_jax._core.errors import InvalidInputError, StaticInputError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Namespace, Static, StaticSizes, Value, namespace
from graftax.ops_jax.array.gather import positions_or_end
from graftax.xla_call_module.lax_extras import lowest

__all__ = [
  "sparse_concat",
  "sparse_reduce_max",
  "sparse_reduce_sum",
  "sparse_reorder",
  "sparse_reshape",
  "sparse_softmax",
  "sparse_tensor_dense_add",
  "sparse_tensor_dense_mat_mul",
  "sparse_to_dense",
]


def _columns(indices: Array) -> tuple[Array, ...]:
  return tuple(indices[:, axis] for axis in range(indices.shape[1]))


def _places(op: str, indices: Array, shape: Sequence[int]) -> tuple[jax.Array, ...]:
  """Returns the coordinates of each axis, with those out of range moved beyond the end, where JAX drops updates.

  Raises:
    InvalidInputError: they are known, and one is out of range.
  """
  return tuple(positions_or_end(op, column, size) for column, size in zip(_columns(indices), shape, strict=True))


def _linear(indices: Array, shape: tuple[int, ...], xp: Namespace) -> Array:
  """Returns the row-major position of each coordinate."""
  position = xp.zeros(indices.shape[:1], indices.dtype)
  for column, size in zip(_columns(indices), shape, strict=True):
    position = position * size + column
  return position


def _to_int64(value: Array) -> Array:
  return value.astype(canonical_dtype(INT64)) if isinstance(value, jax.Array) else value.astype(INT64)


@register(
  "SparseToDense", ignores=("T", "Tindices", "validate_indices"), data_inputs=("sparse_values", "default_value")
)
def sparse_to_dense(
  sparse_indices: Array, output_shape: StaticSizes, sparse_values: Array, default_value: Array
) -> Array:
  """Returns a dense tensor with values at coordinates, and one value elsewhere.

  Source op: `tf.raw_ops.SparseToDense`.

  Args:
    sparse_indices: `[nnz, rank]`, or `[nnz]` or a scalar for a vector; int32 or int64.
    output_shape: shape of the result.
    sparse_values: `[nnz]` or a scalar, any dtype.
    default_value: scalar, dtype of `sparse_values`.

  Returns:
    `output_shape`, dtype of `sparse_values`.

  Raises:
    InvalidInputError: known coordinates are out of range.

  Differs from TF: coordinates that are repeated or out of order are accepted.
  """
  indices = sparse_indices
  indices = indices.reshape(1, 1) if indices.ndim == 0 else indices[:, None] if indices.ndim == 1 else indices
  values = jnp.broadcast_to(jnp.asarray(sparse_values), indices.shape[:1])
  dense = jnp.full(output_shape, jnp.asarray(default_value), values.dtype)
  return dense.at[_places("SparseToDense", indices, output_shape)].set(values, mode="drop")


@register("SparseTensorDenseMatMul", ignores=("T", "Tindices"))
def sparse_tensor_dense_mat_mul(
  a_indices: Array,
  a_values: Array,
  a_shape: Static[tuple[int, ...]],
  b: Array,
  *,
  adjoint_a: bool = False,
  adjoint_b: bool = False,
) -> Array:
  """Multiplies a sparse and a dense matrix.

  Source op: `tf.raw_ops.SparseTensorDenseMatMul`.

  Args:
    a_indices: `[nnz, 2]`, int32 or int64; in any order, repeated ones add up.
    a_values: `[nnz]`, any numeric dtype.
    a_shape: `[2]`.
    b: `[k, m]`, or `[m, k]` with `adjoint_b`; dtype of `a_values`.
    adjoint_a: multiply with the conjugate transpose of the sparse matrix.
    adjoint_b: multiply with the conjugate transpose of `b`.

  Returns:
    `[n, m]`, dtype of `b`.

  Raises:
    InvalidInputError: the inner sizes differ, or known coordinates are out of range.
  """
  values, b = jnp.asarray(a_values), jnp.asarray(b)
  rows, inner = _places("SparseTensorDenseMatMul", a_indices, a_shape)
  num_rows, num_inner = a_shape
  if adjoint_a:
    rows, inner, num_rows, num_inner, values = inner, rows, num_inner, num_rows, jnp.conj(values)
  b = jnp.conj(b.T) if adjoint_b else b
  if b.shape[0] != num_inner:
    raise InvalidInputError(f"SparseTensorDenseMatMul: inner sizes {num_inner} and {b.shape[0]} differ.")
  accumulate = np.float32 if b.dtype.itemsize == 2 and jnp.issubdtype(b.dtype, jnp.floating) else b.dtype
  products = values[:, None].astype(accumulate) * b.at[inner].get(mode="fill").astype(accumulate)
  return jnp.zeros((num_rows, b.shape[1]), accumulate).at[rows].add(products, mode="drop").astype(b.dtype)


def _dense_at(op: str, sp_indices: Array, sp_shape: tuple[int, ...], dense: Array) -> Array:
  """Returns elements of a dense tensor, broadcast to the sparse one's shape, at the coordinates."""
  dense = jnp.asarray(dense)
  if dense.ndim > len(sp_shape) or any(
    d not in (1, s) for d, s in zip(dense.shape[::-1], sp_shape[::-1], strict=False)
  ):
    raise InvalidInputError(f"{op}: shape {dense.shape} does not broadcast to {sp_shape!r}.")
  return jnp.broadcast_to(dense, sp_shape).at[_places(op, sp_indices, sp_shape)].get(mode="fill")


def _register_cwise(op: str, combine: Callable[[Array, Array], Array]) -> None:
  def cwise(sp_indices: Array, sp_values: Array, sp_shape: Static[tuple[int, ...]], dense: Array) -> Array:
    """Combines the values of a sparse tensor with the elements of a dense one at the same coordinates.

    Source ops: `tf.raw_ops.SparseDenseCwiseAdd`, `SparseDenseCwiseMul` and `SparseDenseCwiseDiv`.

    Args:
      sp_indices: `[nnz, rank]`, int64.
      sp_values: `[nnz]`, any numeric dtype.
      sp_shape: `[rank]`. Must be concrete.
      dense: dtype of `sp_values`; broadcasts to `sp_shape`.

    Returns:
      `[nnz]`, dtype of `sp_values`. Division of integers truncates.

    Raises:
      InvalidInputError: `dense` does not broadcast, or known coordinates are out of range.
    """
    return combine(jnp.asarray(sp_values), _dense_at(op, sp_indices, sp_shape, dense))

  register(op, ignores=("T",))(cwise)


_register_cwise("SparseDenseCwiseAdd", operator.add)
_register_cwise("SparseDenseCwiseMul", operator.mul)
_register_cwise("SparseDenseCwiseDiv", jax.lax.div)


@register("SparseTensorDenseAdd", ignores=("T", "Tindices"))
def sparse_tensor_dense_add(a_indices: Array, a_values: Array, a_shape: Array, b: Array) -> Array:
  """Adds the values of a sparse tensor to a dense one.

  Source op: `tf.raw_ops.SparseTensorDenseAdd`.

  Args:
    a_indices: `[nnz, rank]`, int32 or int64.
    a_values: `[nnz]`, any numeric dtype.
    a_shape: the shape of `b`; not read.
    b: dtype of `a_values`.

  Returns:
    Shape and dtype of `b`.
  """
  del a_shape
  return jnp.asarray(b).at[_places("SparseTensorDenseAdd", a_indices, b.shape)].add(a_values, mode="drop")


@register("SparseReduceSum", ignores=("T",), known_inputs=("input_indices",))
def sparse_reduce_sum(
  input_indices: Array,
  input_values: Array,
  input_shape: Static[tuple[int, ...]],
  reduction_axes: Static[tuple[int, ...]],
  *,
  keep_dims: bool = False,
) -> Array:
  """Sums a sparse tensor along axes; the result is dense.

  Source op: `tf.raw_ops.SparseReduceSum`.

  Args:
    input_indices: `[nnz, rank]`, int64.
    input_values: `[nnz]`, any numeric dtype.
    input_shape: `[rank]`.
    reduction_axes: negative ones count from the end.
    keep_dims: keep the axes with size 1.

  Returns:
    The remaining axes, dtype of `input_values`.
  """
  kept, result = kept_axes("SparseReduceSum", input_shape, reduction_axes, keep_dims)
  values, shape = jnp.asarray(input_values), [input_shape[axis] for axis in kept]
  columns = _places("SparseReduceSum", input_indices[:, kept], shape)
  total = (
    jnp.zeros(shape, values.dtype).at[columns].add(values, mode="drop") if kept else jnp.sum(values, dtype=values.dtype)
  )
  return total.reshape(result)


@register("SparseReduceMax", ignores=("T",), known_inputs=("input_indices",))
def sparse_reduce_max(
  input_indices: Array,
  input_values: Array,
  input_shape: Static[tuple[int, ...]],
  reduction_axes: Static[tuple[int, ...]],
  *,
  keep_dims: bool = False,
) -> Array:
  """Computes the largest stored values of a sparse tensor along axes, dense; 0 without stored values.

  Source op: `tf.raw_ops.SparseReduceMax`.

  Args:
    input_indices: `[nnz, rank]`, int64.
    input_values: `[nnz]`, any real dtype.
    input_shape: `[rank]`.
    reduction_axes: negative ones count from the end.
    keep_dims: keep the axes with size 1.

  Returns:
    The remaining axes, dtype of `input_values`.
  """
  kept, result = kept_axes("SparseReduceMax", input_shape, reduction_axes, keep_dims)
  values, shape = jnp.asarray(input_values), [input_shape[axis] for axis in kept]
  columns = _places("SparseReduceMax", input_indices[:, kept], shape)
  if not kept:
    return (jnp.max(values) if values.size else jnp.zeros((), values.dtype)).reshape(result)
  largest = jnp.full(shape, lowest(values.dtype)).at[columns].max(values, mode="drop")
  is_stored = jnp.zeros(shape, bool).at[columns].set(True, mode="drop")
  return jnp.where(is_stored, largest, jnp.zeros((), values.dtype)).reshape(result)


@register("SparseReorder", ignores=("T",), compared_inputs=("input_values",), known_inputs=("input_indices",))
def sparse_reorder(
  input_indices: Array, input_values: Array, input_shape: Static[tuple[int, ...]]
) -> tuple[Array, Array]:
  """Sorts a sparse tensor's coordinates in row-major order.

  Source op: `tf.raw_ops.SparseReorder`.

  Args:
    input_indices: `[nnz, rank]`, int64.
    input_values: `[nnz]`, any dtype.
    input_shape: `[rank]`.

  Returns:
    Coordinates and values in order; equal coordinates keep theirs.
  """
  xp = namespace(input_indices)
  order = _row_major_order(xp.asarray(input_indices), xp)
  return _to_int64(xp.asarray(input_indices)[order]), namespace(input_values, order).asarray(input_values)[order]


def _row_major_order(indices: Array, xp: Namespace) -> Array:
  if indices.shape[1] == 0:
    return xp.arange(indices.shape[0])
  return xp.lexsort(tuple(indices[:, axis] for axis in reversed(range(indices.shape[1]))))


@register("SparseReshape")
def sparse_reshape(
  input_indices: Array, input_shape: Static[tuple[int, ...]], new_shape: Static[tuple[int, ...]]
) -> tuple[Value, Value]:
  """Converts the coordinates of a sparse tensor to another shape.

  Source op: `tf.raw_ops.SparseReshape`.

  Args:
    input_indices: `[nnz, rank]`, int64.
    input_shape: `[rank]`.
    new_shape: `[new_rank]`; one entry may be -1.

  Returns:
    Coordinates `[nnz, new_rank]` and shape `[new_rank]`, int64.

  Raises:
    InvalidInputError: the shapes hold different numbers of elements.
    StaticInputError: they hold more elements than an index can count (2 ** 31 - 1 for traced coordinates with 64-bit
      types off).
  """
  size = math.prod(input_shape)
  known = math.prod(n for n in new_shape if n != -1)
  shape = tuple(size // known if n == -1 and known else n for n in new_shape)
  if math.prod(shape) != size:
    raise InvalidInputError(f"SparseReshape: {input_shape!r} does not reshape to {new_shape!r}.")
  xp = namespace(input_indices)
  if size > np.iinfo(input_indices.dtype).max:
    raise StaticInputError(
      f"SparseReshape: positions in shape {input_shape!r} do not fit {input_indices.dtype}, and the coordinates depend "
      f"on traced data. Turn 64-bit types on (jax_enable_x64), or pass the coordinates as a constant."
    )
  position = _linear(xp.asarray(input_indices), input_shape, xp)
  columns = []
  for length in reversed(shape):
    columns.append(position % max(length, 1))
    position = position // max(length, 1)
  indices = xp.stack(columns[::-1], axis=-1) if columns else xp.zeros((input_indices.shape[0], 0), INT64)
  return _to_int64(indices), np.array(shape, np.int64)


@register("SparseSoftmax", ignores=("T",), known_inputs=("sp_indices",))
def sparse_softmax(sp_indices: Array, sp_values: Array, sp_shape: Static[tuple[int, ...]]) -> Array:
  """Computes the softmax over the stored values of each row; rows agree in all but the last coordinate.

  Source op: `tf.raw_ops.SparseSoftmax`.

  Args:
    sp_indices: `[nnz, rank]`, int64.
    sp_values: `[nnz]`, float16, float32 or float64.
    sp_shape: `[rank]`, at least 2.

  Returns:
    `[nnz]`, dtype of `sp_values`.
  """
  del sp_shape
  values = jnp.asarray(sp_values)
  if not values.size:
    return values
  # As in TensorFlow a row ends at the next different coordinates, whatever number of rows the shape has.
  coordinates = jnp.asarray(sp_indices)[:, :-1]
  is_next = jnp.any(coordinates[1:] != coordinates[:-1], axis=1)
  rows = jnp.concatenate([jnp.zeros(1, np.int32), jnp.cumsum(is_next, dtype=np.int32)])
  highest = jax.ops.segment_max(values, rows, values.size)
  weights = jnp.exp(values - jax.lax.stop_gradient(highest)[rows])
  return weights / jax.ops.segment_sum(weights, rows, values.size)[rows]


@register("SparseConcat", ignores=("T", "N"), compared_inputs=("values",), known_inputs=("indices",))
def sparse_concat(
  indices: list[Array], values: list[Array], shapes: Static[np.ndarray], *, concat_dim: int
) -> tuple[Value, Value, Value]:
  """Concatenates sparse tensors along an axis.

  Source op: `tf.raw_ops.SparseConcat`.

  Args:
    indices: coordinates of each, `[nnz, rank]` int64.
    values: values of each, `[nnz]`, any dtype.
    shapes: shape of each, `[rank]` int64.
    concat_dim: the axis; negative counts from the end.

  Returns:
    Coordinates in row-major order, values and shape of the result.
  """
  shape = np.array(shapes[0], np.int64)
  axis = concat_dim % shape.size
  starts = np.cumsum([0, *[int(s[axis]) for s in shapes]])
  shape[axis] = starts[-1]
  xp = namespace(*indices)
  unit = np.eye(shape.size, dtype=np.int64)[axis]
  joined = xp.concatenate(
    [xp.asarray(i) + (start * unit).astype(i.dtype) for i, start in zip(indices, starts[:-1], strict=True)]
  )
  order = _row_major_order(joined, xp)
  return _to_int64(joined[order]), namespace(order, *values).concatenate(values)[order], shape
