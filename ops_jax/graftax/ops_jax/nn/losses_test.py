"""Losses against TensorFlow, derivatives through both outputs included."""

import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.nn.losses import sparse_softmax_cross_entropy_with_logits
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_LOGITS = _RNG.normal(0, 2, (3, 5))
_LABELS = np.exp(_LOGITS[::-1]) / np.exp(_LOGITS[::-1]).sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_l2_loss(dtype):
  check_raw_op("L2Loss", [np.array([[1.0, -2.0], [3.0, 0.5]], dtype)], grad=dtype in (np.float32, np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_cross_entropy(dtype):
  check_raw_op("SoftmaxCrossEntropyWithLogits", [_LOGITS.astype(dtype), _LABELS.astype(dtype)], grad=True, grad_order=2)


def test_dense_cross_entropy_uses_the_kernel_derivative_for_labels_that_do_not_sum_to_1():
  check_raw_op("SoftmaxCrossEntropyWithLogits", [_LOGITS, 2 * _LABELS], grad=True, grad_order=2)


def test_dense_cross_entropy_with_an_impossible_class_is_nan():
  logits = np.array([[0.0, -np.inf, 1.0]], np.float32)
  check_raw_op("SoftmaxCrossEntropyWithLogits", [logits, np.array([[1.0, 0.0, 0.0]], np.float32)])


@pytest.mark.parametrize("shapes", [((1, 5), (3, 5)), ((3, 5), (1, 5)), ((3, 5), (3, 1))])
def test_dense_cross_entropy_broadcasts(shapes):
  logits, labels = (np.asarray(x[: s[0], : s[1]], np.float32) for x, s in zip((_LOGITS, _LABELS), shapes, strict=True))
  check_raw_op("SoftmaxCrossEntropyWithLogits", [logits, labels])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_dense_cross_entropy_in_16_bits(dtype):
  # Measured: 6e-3 between float16 sums and ours in float32.
  check_raw_op("SoftmaxCrossEntropyWithLogits", [_LOGITS.astype(dtype), _LABELS.astype(dtype)], tolerance=(3e-2, 2e-2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
def test_sparse_cross_entropy(dtype, label_dtype):
  labels = np.array([0, 4, 2], label_dtype)
  check_raw_op("SparseSoftmaxCrossEntropyWithLogits", [_LOGITS.astype(dtype), labels], grad=True, grad_order=2)


def test_sparse_cross_entropy_of_no_rows():
  check_raw_op("SparseSoftmaxCrossEntropyWithLogits", [np.zeros((0, 5), np.float32), np.zeros(0, np.int32)])


def test_sparse_cross_entropy_of_an_invalid_label_is_nan_in_its_row_alone():
  loss, backprop = sparse_softmax_cross_entropy_with_logits(_LOGITS.astype(np.float32), np.array([1, 5, -1]))
  np.testing.assert_array_equal(np.isnan(loss), [False, True, True])
  np.testing.assert_array_equal(np.isnan(backprop).all(-1), [False, True, True])
