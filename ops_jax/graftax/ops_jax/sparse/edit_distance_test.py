"""Edit distances against TensorFlow."""

import numpy as np
import pytest

from graftax.graphdef_ir import Budget, LimitExceededError, Limits
from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.sparse.edit_distance import edit_distance
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_STATIC = [f"{name}_{part}" for name in ("hypothesis", "truth") for part in ("indices", "values", "shape")]


def _sparse(rows, dtype=np.int64):
  indices = np.array([(*place, i) for place, row in rows.items() for i in range(len(row))], np.int64)
  values = np.array([item for row in rows.values() for item in row], dtype)
  shape = [max((place[axis] for place in rows), default=0) + 1 for axis in range(len(next(iter(rows))))]
  return indices.reshape(-1, len(shape) + 1), values, np.array([*shape, max(map(len, rows.values()))])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32])
def test_edit_distances(normalize, dtype):
  first = _sparse({(0, 0): [1, 2, 3], (0, 1): [5], (1, 0): [], (1, 1): [1, 1, 1, 1], (3, 0): [7, 8]}, dtype)
  second = _sparse({(0, 0): [2, 3, 4, 5], (0, 1): [5], (1, 0): [6, 7], (1, 1): [1, 1], (2, 0): [1]}, dtype)
  check_raw_op("EditDistance", [*first, *second], {"normalize": normalize}, static=_STATIC)
  check_raw_op("EditDistance", [*second, *first], {"normalize": normalize}, static=_STATIC)


def test_random_rows():
  random = np.random.default_rng(0)
  first, second = (
    _sparse({(row,): random.integers(0, 4, random.integers(0, 12)).tolist() for row in range(20)}) for _ in range(2)
  )
  check_raw_op("EditDistance", [*first, *second], {"normalize": False}, static=_STATIC)


def test_tensors_without_elements():
  empty = np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.array([1, 0])
  check_raw_op("EditDistance", [*empty, *empty], static=_STATIC)


def test_what_does_not_fit_raises():
  rows = _sparse({(0,): [1, 2], (1,): [3]})
  with pytest.raises(InvalidInputError, match="outside"):
    edit_distance(rows[0], rows[1], (1, 2), rows[0], rows[1], (1, 2))
  with pytest.raises(InvalidInputError, match="of one rank"):
    edit_distance(rows[0], rows[1], (2, 2), rows[0], rows[1], (2, 2, 2))
  with pytest.raises(InvalidInputError, match="coordinates of shape"):
    edit_distance(rows[0], rows[1][:1], (2, 2), rows[0], rows[1], (2, 2))
  with pytest.raises(LimitExceededError):
    budget = Budget(Limits(array_bytes=1000))
    edit_distance(rows[0], rows[1], (10**9, 2), rows[0], rows[1], (2, 2), budget=budget)


def test_long_rows_take_steps_of_the_budget():
  long, short = (_sparse({(0,): [1] * size, (1,): [2] * 3}) for size in (100_000, 1000))
  with pytest.raises(LimitExceededError, match=r"EditDistance.*steps"):
    edit_distance(*long, *long, budget=Budget())
  with pytest.raises(LimitExceededError, match=r"EditDistance.*steps"):
    edit_distance(*long, *long)
  for first, second in ((short, short), (long, _sparse({(0,): [], (1,): [2]}))):
    for _ in range(2):
      edit_distance(*first, *second, budget=Budget())


def test_calls_as_a_function_do_not_add_up():
  rows = _sparse({(row,): [1] * 300 for row in range(40)})
  for _ in range(20):
    edit_distance(*rows, *rows)
