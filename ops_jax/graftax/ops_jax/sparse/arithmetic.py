"""Sparse tensors merged or reduced to sparse tensors: SparseAdd, SparseSparseMaximum, SparseReduceSumSparse.

Inputs that decide the size of a result must be known while tracing: the coordinates, and the threshold of a sum.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.axes import kept_axes
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.static_inputs import static_value
from graftax.ops_jax._core.values import Array, Static
from graftax.xla_call_module.lax_extras import lowest

__all__ = ["sparse_add", "sparse_add_grad", "sparse_slice_grad"]


@register("SparseAdd", ignores=("T", "Treal"))
def sparse_add(
  a_indices: Static[np.ndarray],
  a_values: Array,
  a_shape: Static[tuple[int, ...]],
  b_indices: Static[np.ndarray],
  b_values: Array,
  b_shape: Static[tuple[int, ...]],
  thresh: Static[np.ndarray],
) -> tuple[Array, Array, Array]:
  """Adds two sparse tensors.

  Source op: `tf.raw_ops.SparseAdd`.

  Args:
    a_indices: `[na, rank]` int64, in row-major order. Must be concrete, as those of `b`: they decide the result's size.
    a_values: `[na]`, any numeric dtype.
    a_shape: `[rank]`.
    b_indices: `[nb, rank]` int64, in row-major order.
    b_values: `[nb]`.
    b_shape: `[rank]`, equal to `a_shape`.
    thresh: scalar; sums of two entries whose magnitude is smaller are dropped. Unless it is 0, the values must be
      concrete.

  Returns:
    Coordinates, values and shape of the sum.

  Raises:
    StaticInputError: coordinates, or values that a threshold is compared with, depend on traced data.
    InvalidInputError: the shapes differ.
  """
  operands = [a_values, b_values]
  if thresh > 0:
    what = "SparseAdd: with a threshold that is not 0, the values"
    operands = [static_value(values, np.ndarray, what) for values in operands]
  # With a threshold, all operands are known.
  with jax.ensure_compile_time_eval():
    a, b = (a_indices, operands[0], a_shape), (b_indices, operands[1], b_shape)
    indices, values, shared = _merged("SparseAdd", a, b, jnp.add)
    if thresh > 0:
      kept = np.flatnonzero(~shared | (np.abs(np.asarray(values)) >= thresh))
      indices, values = indices[kept], values[kept]
  return indices, values, np.array(a_shape, np.int64)


_Sparse = tuple[np.ndarray, Array, tuple[int, ...]]


def _register_extremum(op: str, combine: Callable[[Array, Array], Array]) -> None:
  def extremum(
    a_indices: Static[np.ndarray],
    a_values: Array,
    a_shape: Static[tuple[int, ...]],
    b_indices: Static[np.ndarray],
    b_values: Array,
    b_shape: Static[tuple[int, ...]],
  ) -> tuple[np.ndarray, Array]:
    """Returns the larger (or smaller) of two sparse tensors, entry by entry; arguments as for `SparseAdd`.

    Source ops: `tf.raw_ops.SparseSparseMaximum` and `SparseSparseMinimum`.

    Returns:
      Coordinates and values. An entry that only one operand has is compared with 0.
    """
    return _merged(op, (a_indices, a_values, a_shape), (b_indices, b_values, b_shape), combine)[:2]

  register(op, ignores=("T",))(extremum)


_register_extremum("SparseSparseMaximum", jnp.maximum)
_register_extremum("SparseSparseMinimum", jnp.minimum)


def _merged(
  op: str, a: _Sparse, b: _Sparse, combine: Callable[[Array, Array], Array]
) -> tuple[np.ndarray, Array, np.ndarray]:
  """Returns coordinates and values of all entries, and which of them both operands have."""
  if a[2] != b[2]:
    raise InvalidInputError(f"{op}: operands of shapes {a[2]} and {b[2]}; expected the same.")
  rank = len(a[2])
  indices, positions = np.unique(
    np.concatenate([a[0].reshape(-1, rank), b[0].reshape(-1, rank)]), axis=0, return_inverse=True
  )
  num = len(a[0])
  # An entry that only one operand has is combined with a zero, as TensorFlow does.
  sides = [
    jnp.zeros(len(indices), values.dtype).at[place].set(values)
    for values, place in (
      (jnp.asarray(a[1]), positions.reshape(-1)[:num]),
      (jnp.asarray(b[1]), positions.reshape(-1)[num:]),
    )
  ]
  in_both = np.bincount(positions.reshape(-1), minlength=len(indices)) == 2
  return indices.astype(np.int64), combine(*sides), in_both


def _reduced_to_sparse(
  op: str,
  indices: np.ndarray,
  values: Array,
  shape: tuple[int, ...],
  axes: tuple[int, ...],
  keep_dims: bool,
  how: str,
) -> tuple[Array, Array, Array]:
  kept, sizes = kept_axes(op, shape, axes, keep_dims)
  result_shape = np.array(sizes, np.int64)
  groups, positions = np.unique(indices[:, kept], axis=0, return_inverse=True)
  values = jnp.asarray(values)
  start = jnp.zeros(len(groups), values.dtype)
  if how == "max":
    start = jnp.full(len(groups), lowest(values.dtype), values.dtype)
  reduced = getattr(start.at[positions.reshape(-1)], how)(values)
  if keep_dims:
    coordinates = np.zeros((len(groups), len(shape)), np.int64)
    coordinates[:, kept] = groups
    return coordinates, reduced, result_shape
  return groups.astype(np.int64), reduced, result_shape


def _register_reduction(op: str, how: str) -> None:
  def reduce(
    input_indices: Static[np.ndarray],
    input_values: Array,
    input_shape: Static[tuple[int, ...]],
    reduction_axes: Static[tuple[int, ...]],
    *,
    keep_dims: bool = False,
  ) -> tuple[Array, Array, Array]:
    """Reduces a sparse tensor's entries along axes, by sum or maximum, to a sparse tensor.

    Source ops: `tf.raw_ops.SparseReduceSumSparse` and `SparseReduceMaxSparse`.

    Args:
      input_indices: `[nnz, rank]` int64. If traced, the result has a bounded size. All other inputs but the values must
        be concrete.
      input_values: `[nnz]`, any numeric dtype for sums, any real dtype for maxima.
      input_shape: `[rank]`.
      reduction_axes: the axes to remove. If there are none, nothing is reduced.
      keep_dims: whether they stay with size 1.

    Returns:
      Coordinates, values and shape.

    Raises:
      StaticInputError: `input_shape` or `reduction_axes` depends on traced data.
      InvalidInputError: an axis does not exist.
    """
    return _reduced_to_sparse(op, input_indices, input_values, input_shape, reduction_axes, keep_dims, how)

  register(op, ignores=("T",))(reduce)


_register_reduction("SparseReduceSumSparse", "add")
_register_reduction("SparseReduceMaxSparse", "max")


@register("SparseAddGrad", ignores=("T",))
def sparse_add_grad(
  backprop_val_grad: Array, a_indices: Array, b_indices: Array, sum_indices: Array
) -> tuple[Array, Array]:
  """Returns gradients of `SparseAdd` with respect to the values of its operands.

  Source op: `tf.raw_ops.SparseAddGrad`.

  Args:
    backprop_val_grad: `[nsum]`, gradient of the sum's values.
    a_indices: `[na, rank]` int64.
    b_indices: `[nb, rank]` int64.
    sum_indices: `[nsum, rank]` int64.

  Returns:
    `[na]` and `[nb]`; 0 if the sum has no such entry.
  """
  of_a = _matching(backprop_val_grad, sum_indices, a_indices)
  return of_a, _matching(backprop_val_grad, sum_indices, b_indices)


@register("SparseSliceGrad", ignores=("T",))
def sparse_slice_grad(
  backprop_val_grad: Array, input_indices: Array, input_start: Array, output_indices: Array
) -> Array:
  """Returns the gradient of `SparseSlice` with respect to the values.

  Source op: `tf.raw_ops.SparseSliceGrad`.

  Args:
    backprop_val_grad: `[nout]`, gradient of the window's values.
    input_indices: `[nnz, rank]` int64.
    input_start: `[rank]`, first corner of the window.
    output_indices: `[nout, rank]` int64, coordinates in the window.

  Returns:
    `[nnz]`; 0 outside of the window.
  """
  return _matching(backprop_val_grad, output_indices, input_indices - input_start)


def _matching(values: Array, coordinates: Array, wanted: Array) -> Array:
  """Returns for each of `wanted` the value whose coordinates are the same, or 0."""
  values, coordinates, wanted = jnp.asarray(values), jnp.asarray(coordinates), jnp.asarray(wanted)
  if not values.size:
    return jnp.zeros(wanted.shape[:1], values.dtype)
  # After sorting both together by coordinates, each wanted entry follows the value that it matches.
  num = coordinates.shape[0]
  both = jnp.concatenate([coordinates, wanted])
  order = jnp.lexsort([both[:, axis] for axis in reversed(range(both.shape[1]))])
  latest = jnp.maximum.accumulate(jnp.where(order < num, jnp.arange(order.shape[0]), -1))
  source = order[jnp.maximum(latest, 0)]
  same = (latest >= 0) & jnp.all(both[source] == both[order], axis=1) & (source < num)
  found = jnp.where(same, values[jnp.minimum(source, num - 1)], jnp.zeros((), values.dtype))
  return jnp.zeros(order.shape[0], values.dtype).at[order].set(found)[num:]
