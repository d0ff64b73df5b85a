"""Distinct elements: Unique, UniqueWithCounts, UniqueV2, ListDiff. The data must be known while tracing."""

import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT32
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Static

__all__ = ["list_diff", "unique", "unique_v2", "unique_with_counts", "unique_with_counts_v2"]


@register("Unique", ignores=("T",), compared_inputs=("x",))
def unique(x: Static[np.ndarray], *, out_idx: np.dtype = INT32) -> tuple[np.ndarray, np.ndarray]:
  """Returns distinct elements in order of first occurrence, and the position of each input element among them.

  Source op: `tf.raw_ops.Unique`.

  Args:
    x: `[n]`, any dtype. Must be concrete.
    out_idx: int32 or int64.

  Returns:
    Elements `[m]`, dtype of `x`; indices `[n]` of `out_idx`. Each NaN is distinct.

  Raises:
    StaticInputError: `x` depends on traced data, and with it the shape of the result.
  """
  return _unique(x, None, out_idx)[:2]


@register("UniqueWithCounts", ignores=("T",), compared_inputs=("x",))
def unique_with_counts(
  x: Static[np.ndarray], *, out_idx: np.dtype = INT32
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns distinct elements in order of first occurrence, positions of all elements among them, and counts.

  Source op: `tf.raw_ops.UniqueWithCounts`.

  Args:
    x: `[n]`, any dtype. Must be concrete.
    out_idx: int32 or int64.

  Returns:
    Elements `[m]`, dtype of `x`; indices `[n]` and counts `[m]` of `out_idx`.

  Raises:
    StaticInputError: `x` depends on traced data, and with it the shape of the result.
  """
  return _unique(x, None, out_idx)


@register("UniqueV2", ignores=("T", "Taxis"), compared_inputs=("x",))
def unique_v2(
  x: Static[np.ndarray], axis: Static[tuple[int, ...]], *, out_idx: np.dtype = INT32
) -> tuple[np.ndarray, np.ndarray]:
  """Returns distinct slices along an axis in order of first occurrence, and positions of all slices among them.

  Source op: `tf.raw_ops.UniqueV2`.

  Args:
    x: any dtype. Must be concrete.
    axis: `[0]` for a vector, or `[1]` with the axis.
    out_idx: int32 or int64.

  Returns:
    Slices, dtype of `x`; indices of `out_idx`.

  Raises:
    StaticInputError: `x` depends on traced data, and with it the shape of the result.
  """
  return _unique(x, axis, out_idx)[:2]


@register("UniqueWithCountsV2", ignores=("T", "Taxis"), compared_inputs=("x",))
def unique_with_counts_v2(
  x: Static[np.ndarray], axis: Static[tuple[int, ...]], *, out_idx: np.dtype = INT32
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns distinct slices along an axis, positions of all slices among them, and counts.

  Source op: `tf.raw_ops.UniqueWithCountsV2`.

  Args:
    x: any dtype. Must be concrete.
    axis: `[0]` for a vector, or `[1]` with the axis.
    out_idx: int32 or int64.

  Returns:
    Slices, dtype of `x`; indices and counts of `out_idx`.

  Raises:
    StaticInputError: `x` depends on traced data, and with it the shape of the result.
  """
  return _unique(x, axis, out_idx)


@register("ListDiff", ignores=("T",), compared_inputs=("x", "y"))
def list_diff(
  x: Static[np.ndarray], y: Static[np.ndarray], *, out_idx: np.dtype = INT32
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the elements of one list that another lacks, and their positions.

  Source op: `tf.raw_ops.ListDiff`.

  Args:
    x: `[n]`, any dtype. Must be concrete.
    y: `[m]`, dtype of `x`. Must be concrete.
    out_idx: int32 or int64.

  Returns:
    Elements `[k]`, dtype of `x`; positions `[k]` of `out_idx`.

  Raises:
    StaticInputError: an input depends on traced data, and with it the shape of the result.
    InvalidInputError: an input is not a vector.
  """
  if x.ndim != 1 or y.ndim != 1:
    raise InvalidInputError(f"ListDiff: shapes {x.shape} and {y.shape}; expected two vectors.")
  (positions,) = np.nonzero(~np.isin(x, y))
  return x[positions], positions.astype(out_idx)


def _unique(
  x: np.ndarray, axes: tuple[int, ...] | None, out_idx: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  if not axes:
    if x.ndim != 1:
      raise InvalidInputError(f"Unique: shape {x.shape}; expected a vector, or an axis with UniqueV2.")
    axis = 0
  else:
    (axis,) = axes
    if not -x.ndim <= axis < x.ndim:
      raise InvalidInputError(f"Unique: axis {axis} is out of range for shape {x.shape}.")
  first, inverse, counts = _positions(x, axis)
  order = np.argsort(first, kind="stable")
  rank = np.empty_like(order)
  rank[order] = np.arange(order.size)
  return np.take(x, first[order], axis=axis), rank[inverse].astype(out_idx), counts[order].astype(out_idx)


def _positions(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  if x.ndim == 1:
    unique = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return unique[1], unique[2].reshape(-1), unique[3]
  # Slices are compared element by element: equality in a dictionary of tuples is that of TensorFlow.
  seen: dict[tuple[object, ...], int] = {}
  first: list[int] = []
  inverse: list[int] = []
  counts: list[int] = []
  size = x.size // max(x.shape[axis], 1)
  for position, row in enumerate(np.moveaxis(x, axis, 0).reshape(x.shape[axis], size).tolist()):
    index = seen.setdefault(tuple(row), len(seen))
    if index == len(first):
      first.append(position)
      counts.append(0)
    inverse.append(index)
    counts[index] += 1
  return np.array(first, np.intp), np.array(inverse, np.intp), np.array(counts, np.intp)
