"""The number of edits between rows of sparse tensors: EditDistance. All inputs must be known."""

import itertools
import math

import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET
from graftax.ops_jax._core.values import Static

__all__ = ["edit_distance"]

# An element of the shorter row takes a step of NumPy for the whole longer row: as long as one node of a graph up to
# about so many elements.
_ELEMENTS_PER_STEP = 2000


@register("EditDistance", ignores=("T",), compared_inputs=("hypothesis_values", "truth_values"))
def edit_distance(
  hypothesis_indices: Static[np.ndarray],
  hypothesis_values: Static[np.ndarray],
  hypothesis_shape: Static[tuple[int, ...]],
  truth_indices: Static[np.ndarray],
  truth_values: Static[np.ndarray],
  truth_shape: Static[tuple[int, ...]],
  *,
  normalize: bool = True,
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns for each pair of rows how many elements one must insert, delete or replace to make them equal.

  Source op: `tf.raw_ops.EditDistance`.

  Args:
    hypothesis_indices: `[n, r]` int64, coordinates of the first sparse tensor, in their order. Must be concrete.
    hypothesis_values: `[n]` of any dtype. Must be concrete.
    hypothesis_shape: `r` sizes; the last one is that of the rows, and does not matter.
    truth_indices: likewise, of the second sparse tensor.
    truth_values: likewise.
    truth_shape: likewise.
    normalize: whether to divide by the length of the second row.
    budget: limits the size of the result, and as steps the time that pairs of long rows take.

  Returns:
    float32 of `r - 1` dimensions, each the larger one of both shapes. The distance of an empty row to an empty row
    is 0, and normalized that of another one is infinite.

  Raises:
    InvalidInputError: the tensors have different ranks, or a coordinate lies outside of both shapes.
    LimitExceededError: the result is too large, or the rows are so long that the result takes too many steps.
  """
  if len(hypothesis_shape) != len(truth_shape) or len(truth_shape) < 2:
    raise InvalidInputError(
      f"EditDistance: shapes {tuple(hypothesis_shape)} and {tuple(truth_shape)}; expected two of one rank, at least 2."
    )
  shape = tuple(map(max, hypothesis_shape[:-1], truth_shape[:-1]))
  budget.check_array(shape, 4, "EditDistance")
  first = _rows(hypothesis_indices, hypothesis_values, shape)
  second = _rows(truth_indices, truth_values, shape)
  pairs = {
    row: (first.get(row, hypothesis_values[:0]), second.get(row, truth_values[:0]))
    for row in first.keys() | second.keys()
  }
  budget.spend_steps(sum(_num_steps(*pair) for pair in pairs.values()), "EditDistance, with rows this long,")
  result = np.zeros(math.prod(shape), np.float32)
  for row, (before, after) in pairs.items():
    distance = _distance(before, after)
    if normalize:
      distance = distance / len(after) if len(after) else math.inf
    result[row] = distance
  return result.reshape(shape)


def _rows(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> dict[int, np.ndarray]:
  """Returns the values of each row, by its position in an array of `shape`."""
  if indices.shape != (len(values), len(shape) + 1):
    raise InvalidInputError(f"EditDistance: coordinates of shape {indices.shape} for values of shape {values.shape}.")
  places = indices[:, :-1]
  if (places < 0).any() or (places >= np.array(shape)).any():
    raise InvalidInputError(f"EditDistance: a coordinate lies outside of a result of shape {shape}.")
  positions = np.ravel_multi_index(tuple(places.T), shape).tolist() if len(values) else []
  ends = itertools.accumulate(len(list(group)) for _, group in itertools.groupby(positions))
  parts = np.split(values, list(ends)[:-1])
  return {row: part for (row, _), part in zip(itertools.groupby(positions), parts, strict=False)}


def _num_steps(first: np.ndarray, second: np.ndarray) -> int:
  shorter, longer = sorted((len(first), len(second)))
  return shorter * (1 + longer // _ELEMENTS_PER_STEP)


def _distance(first: np.ndarray, second: np.ndarray) -> float:
  """Returns the Levenshtein distance of two arrays."""
  if len(first) > len(second):
    # The distance is the same in both directions, and the loop is over the first.
    first, second = second, first
  positions = np.arange(len(second) + 1)
  costs = positions
  for item in first:
    others = np.concatenate([costs[:1] + 1, np.minimum(costs[1:] + 1, costs[:-1] + (second != item))])
    # Insertions: each element may follow the best one before it, at a cost of 1 for each step.
    costs = np.minimum.accumulate(others - positions) + positions
  return float(costs[-1])
