"""Running reductions against TensorFlow, in every combination of exclusive, reverse and a negative axis."""

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.math.cumulative import cumsum
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_MODES = list(itertools.product((False, True), (False, True)))


def test_exclusive_cumsum_starts_at_zero():
  x = np.array([3, 1, 4], np.int32)
  np.testing.assert_array_equal(cumsum(x, 0, exclusive=True), [0, 3, 4])


@pytest.mark.parametrize("op", ["Cumsum", "Cumprod", "CumulativeLogsumexp"])
@pytest.mark.parametrize(("exclusive", "reverse"), _MODES)
def test_every_mode_matches_tensorflow(op, exclusive, reverse):
  x = np.array([[[1.0, 2.0], [0.5, -1.5], [3.0, 0.25]]] * 2)
  attrs = {"exclusive": exclusive, "reverse": reverse}
  for axis in (-2, 0, 2):
    # TensorFlow's gradient of the exclusive log-sum-exp passes through log(exp(-inf)).
    grad = axis == -2 and not (op == "CumulativeLogsumexp" and exclusive)
    check_raw_op(op, [x, np.int32(axis)], attrs, grad=grad, vmap=axis == -2)
  check_raw_op(op, [x.astype(np.float32), np.int64(1)], attrs, vmap=False)
  check_raw_op(op, [np.zeros((2, 0), np.float32), np.int32(1)], attrs, vmap=False)
  check_raw_op(op, [np.zeros((0, 2), np.float32), np.int32(1)], attrs, vmap=False)


@pytest.mark.parametrize("op", ["Cumsum", "Cumprod"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.complex64, np.float16, ml_dtypes.bfloat16])
def test_dtypes_match_tensorflow(op, dtype):
  x = np.array([5, 7, 3, 2, 9, 4]).astype(dtype)
  check_raw_op(op, [x, np.int32(0)], {"exclusive": True}, vmap=False)


def test_log_sums_of_infinities_match_tensorflow():
  x = np.array([-np.inf, -np.inf, 1.0, np.inf, 3.0], np.float32)
  for exclusive, reverse in _MODES:
    check_raw_op("CumulativeLogsumexp", [x, np.int32(0)], {"exclusive": exclusive, "reverse": reverse}, vmap=False)


def test_an_axis_out_of_range_raises():
  check_raw_op_rejects("Cumsum", [np.ones(3, np.float32), np.int32(1)], match="out of range")


def test_symbolic_dimensions_accumulate():
  (n,) = jax.export.symbolic_shape("n")
  assert list(cumsum(np.array([n, 2, n], object), 0, exclusive=True)) == [0, n, n + 2]
