"""Ranking and searching against TensorFlow."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.array.sort_search import approx_top_k, in_top_k, nth_element, top_k, top_k_v2
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_REALS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64]
_REALS += [np.uint8, np.uint16, np.uint32, np.uint64]


def _values(shape, dtype, seed=0):
  return np.random.default_rng(seed).integers(0, 20, shape).astype(dtype)


@pytest.mark.parametrize("dtype", _REALS)
def test_top_k_takes_the_earlier_of_equal_elements(dtype):
  check_raw_op("TopKV2", [_values((3, 9), dtype), np.int32(4)])


@pytest.mark.parametrize("index_type", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("k", [np.int16(2), np.int32(2), np.int64(2)])
def test_top_k_index_types(index_type, k):
  check_raw_op("TopKV2", [_values((2, 3, 5), np.float32), k], {"index_type": index_type})


@pytest.mark.parametrize("k", [0, 1, 5])
def test_top_k_sizes(k):
  check_raw_op("TopKV2", [np.random.default_rng(0).normal(size=(2, 5)), np.int32(k)], grad=k > 0)


def test_the_first_version_of_top_k_is_the_second():
  x = np.array([3, 9, 5], np.int32)
  values, indices = top_k(x, k=2)
  np.testing.assert_array_equal(values, [9, 5])
  np.testing.assert_array_equal(indices, [1, 2])


def test_top_k_takes_both_zeros_for_equal():
  check_raw_op("TopKV2", [np.array([-0.0, 0.0, -1.0, 0.0, -0.0], np.float32), np.int32(4)])


def test_top_k_of_infinities_and_extremes():
  check_raw_op("TopKV2", [np.array([1.0, np.inf, -np.inf, 3e38], np.float32), np.int32(4)])
  check_raw_op("TopKV2", [np.array([2**63 - 1, -(2**63), 0]), np.int32(3)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_a_symbolic_size_does_not_change_the_order_of_nan(dtype):
  x = np.array([1, np.nan, -np.nan, -np.inf, -np.nan, np.inf, 0], dtype)
  (n,) = jax.export.symbolic_shape("n")
  with jax.enable_x64(True):
    exported = jax.export.export(jax.jit(lambda x: top_k_v2(x, x.shape[0])))(jax.ShapeDtypeStruct((n,), dtype))
    for got, want in zip(exported.call(x), top_k_v2(x, 7), strict=True):
      np.testing.assert_array_equal(np.float64(got), np.float64(want))


def test_unsorted_top_k_has_the_same_elements():
  case = raw_op("TopKV2", [_values((1, 50), np.int32), np.int32(7)], {"sorted": False})
  expected = case.oracle(case.inputs)[0].numpy()
  np.testing.assert_array_equal(np.sort(case.run(*case.dynamic_inputs)[0]), np.sort(expected))


def test_top_k_rejects_more_than_there_are():
  check_raw_op_rejects("TopKV2", [np.ones((2, 3), np.float32), np.int32(4)], match="k=4")


@pytest.mark.parametrize("is_max_k", [True, False])
def test_approximate_top_k_is_exact_on_cpu(is_max_k):
  x = np.random.default_rng(0).permutation(40).astype(np.float32).reshape(2, 20)
  values, indices = approx_top_k(x, k=3, is_max_k=is_max_k)
  ordered = np.sort(x, axis=-1)
  np.testing.assert_array_equal(values, ordered[:, :-4:-1] if is_max_k else ordered[:, :3])
  np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(indices), -1), values)


def test_approximate_top_k_of_no_elements():
  check_raw_op("ApproxTopK", [np.ones((2, 3), np.float32)], {"k": 0})


@pytest.mark.parametrize("dtype", _REALS)
@pytest.mark.parametrize("reverse", [False, True])
def test_nth_element(dtype, reverse):
  check_raw_op("NthElement", [_values((3, 9), dtype), np.int32(2)], {"reverse": reverse}, vmap=["input"])


def test_nth_element_gradient():
  x = np.random.default_rng(0).permutation(12).astype(np.float64).reshape(3, 4)
  check_raw_op("NthElement", [x, np.int32(1)], grad=["input"], vmap=["input"])


@pytest.mark.parametrize("reverse", [False, True])
def test_equal_elements_share_the_derivative_of_the_nth(reverse):
  x = np.array([[1.0, 2.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
  check_raw_op("NthElement", [x, np.int32(1)], {"reverse": reverse}, grad=["input"], grad_order=2, vmap=["input"])


def test_nth_element_of_a_scalar_raises():
  check_raw_op_rejects("NthElement", [np.float32(1), np.int32(0)], match="scalar")
  assert nth_element(np.array([3, 1, 2]), 0) == 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_in_top_k_counts_ties_in_favour(dtype):
  predictions = np.array(
    [[0.1, 0.3, 0.3, 0.2], [1, 2, 3, 4], [1, np.nan, 3, 4], [1, np.inf, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]], np.float32
  )
  targets = np.array([2, 1, 3, 3, 4, -1], dtype)
  for k in (0, 1, 2, 3, 5):
    check_raw_op("InTopKV2", [predictions, targets, dtype(k)], vmap=["predictions"])
    check_raw_op("InTopK", [predictions, targets], {"k": k}, vmap=["predictions"])


def test_in_top_k_of_no_class_is_false():
  assert not in_top_k(np.zeros((2, 0), np.float32), np.array([0, 1]), k=1).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("op", ["LowerBound", "UpperBound"])
@pytest.mark.parametrize("out_type", [np.int32, np.int64])
def test_bounds_in_sorted_rows(op, dtype, out_type):
  rows = np.sort(_values((2, 8), dtype), axis=-1)
  check_raw_op(op, [rows, _values((2, 5), dtype, 1)], {"out_type": out_type})


@pytest.mark.parametrize("op", ["LowerBound", "UpperBound"])
def test_bounds_of_infinities(op):
  rows = np.array([[-np.inf, 0.0, 0.0, np.inf]])
  check_raw_op(op, [rows, np.array([[-np.inf, -1.0, 0.0, np.inf]])])
  check_raw_op_rejects(op, [rows, np.zeros((2, 1))], match="(2, 1)")


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_bucketize(dtype):
  x = np.array([[-5, 0, 1], [9, 10, 100]], dtype)
  check_raw_op("Bucketize", [x], {"boundaries": [0.0, 10.0, 100.0]})


def test_bucketize_compares_with_float32_boundaries():
  x = np.array([0.1, np.float32(0.1), np.nan, np.inf, -np.inf])
  check_raw_op("Bucketize", [x], {"boundaries": [0.1]})
  check_raw_op("Bucketize", [x], {"boundaries": []})
