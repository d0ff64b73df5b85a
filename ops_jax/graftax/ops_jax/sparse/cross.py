"""Crossed features as hash buckets: SparseCross, RaggedCross. Integer columns only.

A cross takes one value of every column of a row, in all combinations; the last column varies fastest.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from graftax.graphdef_ir import Budget, DType
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.static_inputs import static_value
from graftax.ops_jax._core.values import Array, Value

__all__ = ["ragged_cross", "sparse_cross"]

_WORD = (1 << 64) - 1
_LARGEST = (1 << 63) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995

_STRINGS = "Compute the strings' buckets outside, with StringToHashBucketFast, and cross these."

# What a number, or the list of a row, takes in Python, and in time as memory.
_CROSS_BYTES = 256

# The values of each row of one column.
_Column = list[list[int]]


def _combined(first: int, second: int) -> int:
  """Returns the fingerprint of two fingerprints in order, as TensorFlow's `FingerprintCat64`."""

  def mixed(word: int) -> int:
    return word ^ (word >> 47)

  result = first ^ _MULTIPLIER
  result ^= mixed(second * _MULTIPLIER & _WORD) * _MULTIPLIER & _WORD
  result = result * _MULTIPLIER & _WORD
  return mixed(mixed(result) * _MULTIPLIER & _WORD)


@register("SparseCross", ignores=("N", "sparse_types", "dense_types", "out_type", "internal_type"))
def sparse_cross(
  indices: list[Array],
  values: list[Array],
  shapes: list[Array],
  dense_inputs: list[Array],
  *,
  hashed_output: bool,
  num_buckets: int,
  hash_key: int,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the crosses of every row of sparse and dense columns as hash buckets, in a sparse tensor.

  Source op: `tf.raw_ops.SparseCross`.

  Args:
    indices: coordinates `[nnz, 2]` of each sparse column, int64. Must be concrete, like all inputs.
    values: `[nnz]` int64 of each sparse column.
    shapes: `[2]` of each sparse column.
    dense_inputs: `[batch, n]` int64.
    hashed_output: must be set; otherwise the results are strings.
    num_buckets: number of hash buckets; 0 for all numbers that are not negative.
    hash_key: where the hash begins.
    budget: is asked for memory.

  Returns:
    Coordinates `[crosses, 2]`, buckets `[crosses]`, dense shape `[2]`, all int64.

  Raises:
    StaticInputError: an input depends on traced data, and with it the shape of the result.
    UnsupportedAttrError: the op works on strings.
    InvalidInputError: the columns differ in their number of rows, or a row is out of range.
    LimitExceededError: there are too many crosses.
  """
  _check_hashed("SparseCross", hashed_output)
  columns = [
    *_sparse_columns("SparseCross", indices, values, shapes, budget),
    *_dense_columns("SparseCross", dense_inputs),
  ]
  return _as_sparse(_crosses("SparseCross", columns, hash_key, num_buckets, budget))


@register(
  "RaggedCross",
  ignores=("Nsparse", "ragged_values_types", "ragged_splits_types", "sparse_values_types", "dense_types"),
)
def ragged_cross(
  ragged_values: list[Array],
  ragged_row_splits: list[Array],
  sparse_indices: list[Array],
  sparse_values: list[Array],
  sparse_shape: list[Array],
  dense_inputs: list[Array],
  *,
  input_order: str,
  hashed_output: bool,
  num_buckets: int,
  hash_key: int,
  out_values_type: DType,
  out_row_splits_type: np.dtype,
  budget: Budget = NO_BUDGET,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the crosses of every row of ragged, sparse and dense columns as hash buckets, in a ragged tensor.

  Source op: `tf.raw_ops.RaggedCross`.

  Args:
    ragged_values: `[n]` int64 of each ragged column. Must be concrete, like all inputs.
    ragged_row_splits: `[batch + 1]` of each ragged column.
    sparse_indices: coordinates `[nnz, 2]` of each sparse column.
    sparse_values: `[nnz]` int64 of each sparse column.
    sparse_shape: `[2]` of each sparse column.
    dense_inputs: `[batch, n]` int64.
    input_order: the order of the columns: a letter for each, `R`, `S` or `D`.
    hashed_output: must be set; otherwise the results are strings.
    num_buckets: number of hash buckets; 0 for all numbers that are not negative.
    hash_key: where the hash begins.
    out_values_type: int64.
    out_row_splits_type: int32 or int64.
    budget: is asked for memory.

  Returns:
    Buckets `[crosses]` int64, and row splits `[batch + 1]` of `out_row_splits_type`.

  Raises:
    StaticInputError: an input depends on traced data, and with it the shape of the result.
    UnsupportedAttrError: the op works on strings.
    InvalidInputError: the columns differ in their number of rows, or a row is out of range.
    LimitExceededError: there are too many crosses.
  """
  del out_values_type
  _check_hashed("RaggedCross", hashed_output)
  ragged = [
    _known("RaggedCross", "ragged_" + name, x)
    for name, x in (("values", ragged_values), ("row_splits", ragged_row_splits))
  ]
  of_kind = {
    "R": iter([_by_splits(values, splits) for values, splits in zip(*ragged, strict=True)]),
    "S": iter(_sparse_columns("RaggedCross", sparse_indices, sparse_values, sparse_shape, budget)),
    "D": iter(_dense_columns("RaggedCross", dense_inputs)),
  }
  rows = _crosses("RaggedCross", [next(of_kind[kind]) for kind in input_order], hash_key, num_buckets, budget)
  splits = np.cumsum([0, *map(len, rows)])
  return np.array([value for row in rows for value in row], np.int64), splits.astype(out_row_splits_type)


def _crosses(op: str, columns: Sequence[_Column], start: int, num_buckets: int, budget: Budget) -> list[list[int]]:
  """Returns the buckets of the crosses of every row."""
  batches = sorted({len(column) for column in columns})
  if len(batches) > 1:
    raise InvalidInputError(f"{op}: columns have batches of {batches!r}; expected one size.")

  def cross(features: Sequence[int]) -> int:
    words = [feature & _WORD for feature in (start, *features)]
    return functools.reduce(_combined, words) % (num_buckets if num_buckets > 0 else _LARGEST)

  rows = list(zip(*columns, strict=True))
  check_known((sum(math.prod(map(len, row)) for row in rows),), budget, op, _CROSS_BYTES)
  return [[cross(features) for features in itertools.product(*row)] for row in rows]


def _sparse_columns(
  op: str, indices: Sequence[Value], values: Sequence[Value], shapes: Sequence[Value], budget: Budget
) -> list[_Column]:
  known = (_known(op, name, x) for name, x in (("indices", indices), ("values", values), ("shapes", shapes)))
  columns = []
  for coordinates, features, shape in zip(*known, strict=True):
    num_rows = int(shape[0])
    check_known((max(num_rows, 0),), budget, op, _CROSS_BYTES)
    if np.any((coordinates[:, 0] < 0) | (coordinates[:, 0] >= num_rows)):
      raise InvalidInputError(f"{op}: a row of indices is out of range for {num_rows} rows.")
    counts = np.bincount(coordinates[:, 0], minlength=num_rows)
    columns.append(_by_splits(features, np.cumsum([0, *counts])))
  return columns


def _dense_columns(op: str, dense_inputs: Sequence[Value]) -> list[_Column]:
  return [column.tolist() for column in _known(op, "dense_inputs", dense_inputs)]


def _by_splits(values: np.ndarray, splits: np.ndarray) -> _Column:
  return [values[start:end].tolist() for start, end in itertools.pairwise(splits)]


def _known(op: str, name: str, values: Sequence[Value]) -> list[np.ndarray]:
  known = [static_value(value, np.ndarray, f"{op}: input {name!r}") for value in values]
  if any(value.dtype == object for value in known):
    raise UnsupportedAttrError(f"{op}: {name} holds strings; only crosses of integers are lowered. {_STRINGS}")
  return known


def _check_hashed(op: str, hashed_output: bool) -> None:
  if not hashed_output:
    raise UnsupportedAttrError(f"{op}: the crosses are strings, because hashed_output is not set. {_STRINGS}")


def _as_sparse(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  coordinates = [[row, column] for row, values in enumerate(rows) for column in range(len(values))]
  shape = [len(rows), max(map(len, rows), default=0)]
  values = np.array([value for row in rows for value in row], np.int64)
  return np.array(coordinates, np.int64).reshape(-1, 2), values, np.array(shape, np.int64)
