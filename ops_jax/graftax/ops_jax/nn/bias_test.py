"""Bias ops against TensorFlow."""

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.complex64])
@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3), (2, 4, 5, 3), (2, 2, 4, 5, 3)])
def test_bias_add(shape, dtype):
  value = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
  check_raw_op("BiasAdd", [value, np.array([1, 2, 3]).astype(dtype)], grad=dtype in (np.float32, np.float64))


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 4, 5)])
def test_bias_add_channels_first(shape):
  value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
  check_raw_op("BiasAdd", [value, np.array([1, 2, 3], np.float32)], {"data_format": "NCHW"}, grad=True, grad_order=2)
  check_raw_op("BiasAddGrad", [value], {"data_format": "NCHW"}, grad=True)


def test_bias_add_v1():
  check_raw_op("BiasAddV1", [np.ones((2, 3), np.float32), np.array([1, 2, 3], np.float32)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32])
@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3), (2, 4, 5, 3)])
def test_bias_add_grad(shape, dtype):
  check_raw_op("BiasAddGrad", [np.arange(np.prod(shape)).reshape(shape).astype(dtype)])


def test_bias_of_another_length_raises():
  check_raw_op_rejects("BiasAdd", [np.ones((2, 3), np.float32), np.ones(2, np.float32)], match="(2,)")
