"""Sets along the last axis: DenseToDenseSetOperation, SparseToSparseSetOperation, SetSize. All inputs must be known."""

import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET
from graftax.ops_jax._core.values import Static

__all__ = [
  "dense_to_dense_set_operation",
  "dense_to_sparse_set_operation",
  "set_size",
  "sparse_to_sparse_set_operation",
]

# How often each operand is counted, and which sums belong to the result.
_OPERATIONS = {
  "a-b": ((1, 2), (1,)),
  "b-a": ((2, 1), (1,)),
  "intersection": ((1, 1), (2,)),
  "union": ((1, 1), (1, 2)),
}

_Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]


@register("DenseToDenseSetOperation", ignores=("T", "validate_indices"), compared_inputs=("set1", "set2"))
def dense_to_dense_set_operation(set1: Static[np.ndarray], set2: Static[np.ndarray], *, set_operation: str) -> _Sparse:
  """Returns the union, intersection or difference of the rows of two arrays, as a sparse tensor.

  Source op: `tf.raw_ops.DenseToDenseSetOperation`.

  Args:
    set1: `[..., m]`, integers or strings. Must be concrete.
    set2: `[..., n]`, with the other sizes and the dtype of `set1`. Must be concrete.
    set_operation: `a-b`, `b-a`, `intersection` or `union`.

  Returns:
    Coordinates `[k, rank]` int64, values `[k]` in increasing order in each row, and the shape `[rank]` int64, whose
    last size is that of the largest set.

  Raises:
    InvalidInputError: the sizes differ, the rank is below 2, or the operation does not exist.
  """
  return _operation(set_operation, (_of_dense(set1), set1.shape), (_of_dense(set2), set2.shape), set1.dtype)


@register("DenseToSparseSetOperation", ignores=("T",), compared_inputs=("set1", "set2_values"))
def dense_to_sparse_set_operation(
  set1: Static[np.ndarray],
  set2_indices: Static[np.ndarray],
  set2_values: Static[np.ndarray],
  set2_shape: Static[tuple[int, ...]],
  *,
  set_operation: str,
  validate_indices: bool = True,
) -> _Sparse:
  """Returns the union, intersection or difference of the rows of an array and of a sparse tensor.

  Source op: `tf.raw_ops.DenseToSparseSetOperation`.

  See `dense_to_dense_set_operation`.
  """
  second = _of_sparse(set2_indices, set2_values, set2_shape, validate_indices)
  return _operation(set_operation, (_of_dense(set1), set1.shape), (second, set2_shape), set1.dtype)


@register("SparseToSparseSetOperation", ignores=("T",), compared_inputs=("set1_values", "set2_values"))
def sparse_to_sparse_set_operation(
  set1_indices: Static[np.ndarray],
  set1_values: Static[np.ndarray],
  set1_shape: Static[tuple[int, ...]],
  set2_indices: Static[np.ndarray],
  set2_values: Static[np.ndarray],
  set2_shape: Static[tuple[int, ...]],
  *,
  set_operation: str,
  validate_indices: bool = True,
) -> _Sparse:
  """Returns the union, intersection or difference of the rows of two sparse tensors.

  Source op: `tf.raw_ops.SparseToSparseSetOperation`.

  See `dense_to_dense_set_operation`.
  """
  first = _of_sparse(set1_indices, set1_values, set1_shape, validate_indices)
  second = _of_sparse(set2_indices, set2_values, set2_shape, validate_indices)
  return _operation(set_operation, (first, set1_shape), (second, set2_shape), set1_values.dtype)


@register("SetSize", ignores=("T",), compared_inputs=("set_values",))
def set_size(
  set_indices: Static[np.ndarray],
  set_values: Static[np.ndarray],
  set_shape: Static[tuple[int, ...]],
  *,
  validate_indices: bool = True,
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns how many different values each row of a sparse tensor has.

  Source op: `tf.raw_ops.SetSize`.

  Args:
    set_indices: `[n, rank]` int64. Must be concrete, as the next two.
    set_values: `[n]`, integers or strings.
    set_shape: `rank` sizes, at least two.
    validate_indices: whether the coordinates must increase.
    budget: is asked for memory.

  Returns:
    int32 of all sizes but the last.

  Raises:
    InvalidInputError: the coordinates do not belong to the shape, or the rank is below 2.
    LimitExceededError: the result needs too much memory.
  """
  groups = _group_shape(set_shape)
  budget.check_array(groups, 4, "SetSize")
  elements = np.unique(_of_sparse(set_indices, set_values, set_shape, validate_indices), axis=0)
  sizes = np.zeros(groups, np.int32)
  np.add.at(sizes, tuple(elements[:, :-1].T), 1)
  return sizes


def _group_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
  if len(shape) < 2:
    raise InvalidInputError(f"sets of shape {list(shape)}; expected a rank of at least 2.")
  return tuple(shape[:-1])


def _of_dense(array: np.ndarray) -> np.ndarray:
  """Returns `[n, rank]`: the coordinates of each element without the last one, and its value."""
  groups = _group_shape(array.shape)
  # Not the coordinates of all groups: there may be very many of them without elements.
  places = np.arange(array.size) // max(array.shape[-1], 1)
  coordinates = np.unravel_index(places, groups) if array.size else np.zeros((len(groups), 0), np.int64)
  return np.column_stack([*coordinates, array.reshape(-1).astype(np.int64)])


def _of_sparse(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...], must_increase: bool) -> np.ndarray:
  groups = _group_shape(shape)
  if values.ndim != 1:
    raise InvalidInputError(f"sets with values of shape {values.shape}; expected a vector.")
  if indices.shape != (len(values), len(shape)):
    raise InvalidInputError(f"sets with coordinates of shape {indices.shape}; expected {(len(values), len(shape))}.")
  if (indices < 0).any() or (indices >= np.array(shape)).any():
    raise InvalidInputError(f"sets with a coordinate outside of shape {list(shape)}.")
  is_sorted = (np.lexsort(indices.T[::-1]) == np.arange(len(indices))).all()
  if must_increase and not (is_sorted and (indices[1:] != indices[:-1]).any(axis=1).all()):
    raise InvalidInputError("sets with coordinates that do not increase; order them with tf.sparse.reorder.")
  return np.column_stack([indices[:, : len(groups)], values.astype(np.int64)])


def _operation(
  name: str,
  first: tuple[np.ndarray, tuple[int, ...]],
  second: tuple[np.ndarray, tuple[int, ...]],
  dtype: np.dtype,
) -> _Sparse:
  (a, a_shape), (b, b_shape) = first, second
  groups = _group_shape(a_shape)
  if groups != _group_shape(b_shape):
    raise InvalidInputError(f"sets of shapes {list(a_shape)} and {list(b_shape)}, which differ before the last size.")
  if name not in _OPERATIONS:
    raise InvalidInputError(f"the set operation {name!r}; expected one of {sorted(_OPERATIONS)}.")
  (of_a, of_b), wanted = _OPERATIONS[name]
  counted = [*[np.unique(a, axis=0)] * of_a, *[np.unique(b, axis=0)] * of_b]
  elements, counts = np.unique(np.concatenate(counted), axis=0, return_counts=True)
  found = elements[np.isin(counts, wanted)]
  coordinates, values = found[:, :-1], found[:, -1]
  _, sizes = np.unique(coordinates, axis=0, return_counts=True)
  places = np.arange(len(found)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
  shape = np.array([*groups, np.max(sizes, initial=0)], np.int64)
  return np.column_stack([coordinates, places]), values.astype(dtype), shape
