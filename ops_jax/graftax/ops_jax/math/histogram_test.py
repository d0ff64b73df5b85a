"""Counts against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.testing.raw_ops import NodeContext, check_raw_op, check_raw_op_rejects, raw_op

_VALUES = np.array([1, 2, 2, 7, 0], np.int32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_counts_match_tensorflow(dtype):
  for weights in (np.zeros(0, dtype), np.array([1, 2, 3, 4, 5], dtype)):
    check_raw_op("Bincount", [_VALUES, np.int32(4), weights], vmap=("arr",))
    check_raw_op("DenseBincount", [_VALUES, np.int32(4), weights], vmap=("input",))
    matrix = np.stack([_VALUES, _VALUES[::-1]]).astype(np.int64)
    matrix_weights = np.stack([weights, weights]) if weights.size else weights
    for binary in (False, True):
      check_raw_op("DenseBincount", [matrix, np.int64(4), matrix_weights], {"binary_output": binary}, vmap=("input",))


def test_counts_of_nothing_match_tensorflow():
  check_raw_op("Bincount", [_VALUES[:0], np.int32(4), np.zeros(0, np.float32)], vmap=False)


def test_known_negative_values_raise():
  for op, name in (("Bincount", "arr"), ("DenseBincount", "input")):
    case = raw_op(op, [_VALUES - 1, np.int32(4), np.zeros(0, np.float32)], static=(name,))
    with pytest.raises(ValueError, match="must not be negative"):
      case.run(np.zeros(0, np.float32))
  check_raw_op_rejects("Bincount", [_VALUES, np.int32(4), np.ones(2, np.float32)], match="do not fit")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("output", [np.int32, np.int64])
def test_bins_of_equal_width_match_tensorflow(dtype, output):
  values = np.array([-5, 0, 1, 2, 5, 10, 4], dtype)
  check_raw_op(
    "HistogramFixedWidth", [values, np.array([0, 5], dtype), np.int32(5)], {"dtype": output}, vmap=("values",)
  )
  check_raw_op_rejects("HistogramFixedWidth", [values, np.array([0, 5], dtype), np.int32(0)], match="must be positive")


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("nbins", [1, 3, 10, 49])
def test_values_next_to_the_start_of_a_bin_match_tensorflow(dtype, nbins):
  for low, high in ((0, 1), (-0.3, 0.7), (1e-3, 1e6)) if dtype == np.float32 else ((0, 7), (-5, 2**25)):
    edges = np.linspace(low, high, nbins + 1).astype(dtype)
    below = np.nextafter(edges, dtype(low)) if dtype == np.float32 else edges - 1
    values = np.concatenate([edges, below, edges[::-1], edges[:1] - 1])
    inputs = [values.astype(dtype), np.array([low, high], dtype), np.int32(nbins)]
    check_raw_op("HistogramFixedWidth", inputs, vmap=False, static=("value_range",))
    # A traced range has no exact starts of bins without 64-bit types.
    check_raw_op("HistogramFixedWidth", inputs, vmap=False, without_x64=False)
    if dtype != np.int64:
      with jax.enable_x64(False):
        case = raw_op("HistogramFixedWidth", inputs, static=("value_range",))
        (got,) = case.run(jnp.asarray(inputs[0]))
        np.testing.assert_array_equal(got, case.oracle(inputs)[0])


def test_known_nan_has_no_bin():
  case = raw_op("HistogramFixedWidth", [np.float32([0, 1]), np.float32([0, 1]), np.int32(2)], static=("value_range",))
  with pytest.raises(InvalidInputError, match="NaN"):
    case.kernel.run(NodeContext(), [np.float32([np.nan]), np.float32([0, 1]), np.int32(2)])


@pytest.mark.parametrize("binary_output", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_sparse_and_ragged_rows(binary_output, weighted):
  values = np.array([3, 1, 3, 0, 7, 2], np.int32)
  weights = np.linspace(0.5, 1, 6, dtype=np.float32) if weighted and not binary_output else np.zeros(0, np.float32)
  attrs = {"binary_output": binary_output}
  indices = np.array([[0, 1], [0, 3], [0, 4], [2, 0], [2, 1], [3, 2]])
  size = np.array(5, np.int32)
  check_raw_op("SparseBincount", [indices, values, np.array([5, 6]), size, weights], attrs, vmap=["values"])
  check_raw_op("SparseBincount", [indices[:, :1], values, np.array([5]), size, weights], attrs, vmap=["values"])
  check_raw_op("RaggedBincount", [np.array([0, 3, 3, 5, 6]), values, size, weights], attrs, vmap=["values"])
