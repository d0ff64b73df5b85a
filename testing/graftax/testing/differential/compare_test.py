"""Tests which results compare as equal."""

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.differential.compare import compare
from graftax.testing.harness.compare import Difference

_X = np.array([1.0, 2.0], np.float32)


def test_equal_results_pass():
  nested = {"a": (_X, None), "b": [np.int32(3), np.array([np.nan, np.inf], np.float32)]}
  compare(nested, nested, (0.0, 0.0))


@pytest.mark.parametrize(
  ("actual", "message"),
  [
    ({"a": _X, "b": _X}, "structure"),
    ([_X], "structure"),
    ({"a": _X.astype(np.float16)}, "a: dtype float16 instead of float32"),
    ({"a": _X[:1]}, r"a: shape \(1,\) instead of \(2,\)"),
    ({"a": _X + 0.1}, "a: off by up to 0.1 where values go up to 2"),
    ({"a": np.array([np.nan, 2.0], np.float32)}, "a: off by"),
  ],
)
def test_differences_are_described(actual: object, message: str):
  with pytest.raises(Difference, match=message):
    compare(actual, {"a": _X}, (1e-5, 1e-6))


def test_integers_and_booleans_are_compared_exactly():
  with pytest.raises(Difference, match="result: 1 of 2 elements differ"):
    compare(np.array([1, 2]).astype(np.int32), np.array([1, 3], np.int32), (1.0, 1.0))


def test_narrow_floats_are_compared_as_numbers():
  x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
  compare(x, x, (0.0, 0.0))
  with pytest.raises(Difference, match="off by"):
    compare(x, x + np.array(1, ml_dtypes.bfloat16), (1e-2, 1e-2))


def test_64_bit_results_may_be_32_bit_while_x64_is_off():
  compare(np.int32([1]), np.int64([1]), (0.0, 0.0))
