"""Sequences of element types that are stored as runs."""

import pytest

from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.type_runs import TypeRuns

_RUNS = TypeRuns(((DType.INT32, 1), (DType.FLOAT, 0), (DType.BOOL, 2)))


def test_behaves_like_the_tuple_it_stands_for():
  expected = (DType.INT32, DType.BOOL, DType.BOOL)
  assert tuple(_RUNS) == expected and list(_RUNS) == list(expected)
  assert expected == _RUNS and hash(_RUNS) == hash(expected)
  assert [_RUNS[i] for i in range(-3, 3)] == [expected[i] for i in range(-3, 3)]
  assert _RUNS[1:] == expected[1:]
  assert _RUNS != (DType.INT32,)


@pytest.mark.parametrize("index", [3, -4])
def test_indices_outside_raise(index: int):
  with pytest.raises(IndexError, match=f"index {index} is out of range for 3"):
    _ = _RUNS[index]


def test_a_long_run_costs_nothing():
  assert len(TypeRuns(((DType.FLOAT, 2**40),))) == 2**40
  assert str(TypeRuns(((DType.FLOAT, 2**40),))) == "1099511627776 * float32"
