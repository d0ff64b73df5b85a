"""How often each integer occurs, as a sparse tensor: DenseCountSparseOutput, SparseCountSparseOutput and others.

All inputs must be known: the number of different integers is a size of the result, which is computed in NumPy together
with the counts.
"""

from typing import NotRequired, TypedDict, Unpack

import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Static

__all__ = ["CountAttrs", "dense_count_sparse_output", "ragged_count_sparse_output", "sparse_count_sparse_output"]

_Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]


class CountAttrs(TypedDict):
  """Attributes of the ops.

  Attributes:
    binary_output: whether to return 1 for what occurs at all.
    minlength: the last size of the result is at least this; -1 by default.
    maxlength: if not negative, the last size of the result; integers that large are left out.
    output_type: dtype of the counts.
  """

  binary_output: bool
  minlength: NotRequired[int]
  maxlength: NotRequired[int]
  output_type: np.dtype


@register("DenseCountSparseOutput", ignores=("T",))
def dense_count_sparse_output(
  values: Static[np.ndarray],
  weights: Static[np.ndarray],
  **attrs: Unpack[CountAttrs],
) -> _Sparse:
  """Returns how often each integer occurs in each row, as a sparse tensor.

  Source op: `tf.raw_ops.DenseCountSparseOutput`.

  Args:
    values: `[n]` or `[rows, n]` integers, not negative. Must be concrete.
    weights: what each element counts, of the shape of `values`, or empty for 1. Must be concrete.
    **attrs: see `CountAttrs`.

  Returns:
    Coordinates `[m, 1]` or `[m, 2]` int64 in their order, counts `[m]`, and the dense shape, int64.

  Raises:
    StaticInputError: an input depends on traced data, and with it the shape of the result.
    InvalidInputError: an integer is negative, the weights have another shape, or an integer is 2**63 - 1 and there is
      no `maxlength`.

  Differs from TF: without `maxlength`, the last size of the result is one above the largest integer. For 2**63 - 1
  TensorFlow returns a negative size.
  """
  if values.ndim not in (1, 2) or (weights.size and weights.shape != values.shape):
    raise InvalidInputError(
      f"DenseCountSparseOutput: values of shape {values.shape} and weights of shape {weights.shape}; expected [n] or "
      "[rows, n], and weights of the same shape or none."
    )
  rows = np.indices(values.shape)[0].reshape(-1) if values.ndim == 2 else None
  num_rows = values.shape[0] if values.ndim == 2 else None
  return _counts("DenseCountSparseOutput", rows, num_rows, values.reshape(-1), weights, attrs)


@register("SparseCountSparseOutput", ignores=("T",))
def sparse_count_sparse_output(
  indices: Static[np.ndarray],
  values: Static[np.ndarray],
  dense_shape: Static[tuple[int, ...]],
  weights: Static[np.ndarray],
  **attrs: Unpack[CountAttrs],
) -> _Sparse:
  """Returns how often each integer occurs in each row of a sparse tensor; see `dense_count_sparse_output`.

  Source op: `tf.raw_ops.SparseCountSparseOutput`.

  Args:
    indices: `[n, 1]` or `[n, 2]` int64, coordinates. Must be concrete.
    values: `[n]` integers. Must be concrete.
    dense_shape: one or two sizes. Must be concrete.
    weights: `[n]`, what each element counts, or empty for 1. Must be concrete.
    **attrs: see `CountAttrs`.

  Raises:
    InvalidInputError: the inputs do not fit each other, a row does not exist, or an integer is negative.
  """
  op, rank = "SparseCountSparseOutput", len(dense_shape)
  if rank not in (1, 2) or indices.shape != (len(values), rank) or (weights.size and weights.shape != values.shape):
    raise InvalidInputError(
      f"{op}: indices of shape {indices.shape}, values of shape {values.shape}, weights of shape {weights.shape} and "
      f"dense_shape={dense_shape!r}; expected one or two sizes, and one coordinate of that many numbers for each value."
    )
  rows, num_rows = (indices[:, 0], dense_shape[0]) if rank == 2 else (None, None)
  if rows is not None and ((rows < 0) | (rows >= dense_shape[0])).any():
    raise InvalidInputError(f"{op}: a coordinate lies outside of the shape {tuple(dense_shape)}.")
  return _counts(op, rows, num_rows, values, weights, attrs)


@register("RaggedCountSparseOutput", ignores=("T",))
def ragged_count_sparse_output(
  splits: Static[np.ndarray],
  values: Static[np.ndarray],
  weights: Static[np.ndarray],
  **attrs: Unpack[CountAttrs],
) -> _Sparse:
  """Returns how often each integer occurs in each row of a ragged tensor; see `dense_count_sparse_output`.

  Source op: `tf.raw_ops.RaggedCountSparseOutput`.

  Args:
    splits: `[rows + 1]` int64, where each row begins, and the end. Must be concrete.
    values: `[n]` integers. Must be concrete.
    weights: `[n]`, what each element counts, or empty for 1. Must be concrete.
    **attrs: see `CountAttrs`.

  Raises:
    InvalidInputError: the inputs do not fit each other, or an integer is negative.
  """
  op = "RaggedCountSparseOutput"
  lengths = np.diff(splits)
  fits = len(splits) and splits[0] == 0 and splits[-1] == len(values) and (lengths >= 0).all()
  if not fits or (weights.size and weights.shape != values.shape):
    raise InvalidInputError(
      f"{op}: splits of shape {splits.shape}, values of shape {values.shape} and weights of shape {weights.shape}; "
      "expected splits that rise from 0 to the number of values, and as many weights or none."
    )
  rows = np.repeat(np.arange(len(lengths)), lengths)
  return _counts(op, rows, len(lengths), values, weights, attrs)


def _last_size(op: str, values: np.ndarray, minlength: int, maxlength: int) -> tuple[int, int]:
  """Returns the last size of the result, and the integer from which on none are counted."""
  if (values < 0).any():
    raise InvalidInputError(f"{op}: values are negative, such as {int(values.min())}; expected 0 or more.")
  if maxlength >= 0:
    return maxlength, maxlength
  # Without values, TensorFlow's last size is 1.
  end = int(values.max(initial=0)) + 1
  if end > np.iinfo(np.int64).max:
    raise InvalidInputError(
      f"{op}: the largest of the values is {end - 1}, so that the last size of the result, {end}, is beyond int64; "
      "expected smaller values, or a maxlength, from which on values are left out."
    )
  return max(end, minlength), end


def _counts(
  op: str,
  rows: np.ndarray | None,
  num_rows: int | None,
  values: np.ndarray,
  weights: np.ndarray,
  attrs: CountAttrs,
) -> _Sparse:
  last_size, end = _last_size(op, values, attrs.get("minlength", -1), attrs.get("maxlength", -1))
  dtype = attrs["output_type"]
  columns = [values] if rows is None else [rows, values]
  kept = values < end
  places, inverse = np.unique(np.stack(columns, axis=1)[kept].astype(np.int64), axis=0, return_inverse=True)
  counts = np.zeros(len(places), dtype)
  np.add.at(counts, inverse.reshape(-1), weights.reshape(-1)[kept].astype(dtype) if weights.size else 1)
  shape = [last_size] if num_rows is None else [num_rows, last_size]
  return places, np.ones_like(counts) if attrs["binary_output"] else counts, np.array(shape, np.int64)
