"""Fused ops: as TensorFlow runs them where it can, else as the ops they are made of."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax.nn.activations import relu
from graftax.ops_jax.nn.bias import bias_add
from graftax.ops_jax.nn.conv import conv2d
from graftax.ops_jax.nn.fused import (
  fused_conv2d,
  fused_conv3d,
  fused_depthwise_conv2d_native,
  fused_mat_mul,
  fused_pad_conv2d,
  mish,
  swish,
)
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CONV = {"strides": (1, 1, 1, 1), "padding": "SAME"}


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


_X, _W, _BIAS = _normal(2, 5, 6, 4), _normal(3, 3, 4, 3), _normal(3)


@pytest.mark.parametrize(
  ("name", "function"),
  [
    ("Relu", relu),
    ("Relu6", lambda x: np.clip(x, 0, 6)),
    ("Elu", jax.nn.elu),
    ("LeakyRelu", lambda x: np.where(x > 0, x, np.float32(0.3) * x)),
    ("Tanh", np.tanh),
    ("Sigmoid", jax.nn.sigmoid),
    ("_MklSwish", jax.nn.silu),
    ("GeluApproximate", lambda x: jax.nn.gelu(x, approximate=True)),
    ("GeluExact", lambda x: jax.nn.gelu(x, approximate=False)),
  ],
)
def test_convolution_with_bias_and_activation(name, function):
  want = function(np.asarray(bias_add(conv2d(_X, _W, **_CONV), _BIAS)))
  got = fused_conv2d(_X, _W, [_BIAS], [], fused_ops=("BiasAdd", name), leakyrelu_alpha=0.3, **_CONV)
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_convolution_with_batch_normalization(data_format):
  scale, offset, mean, variance = _normal(3), _normal(3), _normal(3), np.abs(_normal(3))
  y = np.asarray(conv2d(_X, _W, **_CONV))
  want = (y - mean) / np.sqrt(variance + 1e-3) * scale + offset
  x = _X if data_format == "NHWC" else np.moveaxis(_X, -1, 1)
  args = [scale, offset, mean, variance]
  got = fused_conv2d(x, _W, args, [], fused_ops=("FusedBatchNorm",), epsilon=1e-3, data_format=data_format, **_CONV)
  np.testing.assert_allclose(got if data_format == "NHWC" else np.moveaxis(got, 1, -1), want, rtol=1e-4, atol=1e-4)


def test_convolution_with_a_summand_and_another_filter_layout():
  summand = _normal(2, 5, 6, 3)
  got = fused_conv2d(
    _X,
    _W.transpose(3, 2, 0, 1),
    [_BIAS, summand],
    [],
    fused_ops=("BiasAdd", "Add", "Relu"),
    filter_format="OIHW",
    **_CONV,
  )
  np.testing.assert_allclose(got, relu(bias_add(conv2d(_X, _W, **_CONV), _BIAS) + summand), rtol=1e-5, atol=1e-5)


def test_depthwise_and_volume_convolutions():
  y = fused_depthwise_conv2d_native(_X, _normal(3, 3, 4, 1), [_normal(4)], fused_ops=("BiasAdd", "Relu6"), **_CONV)
  assert y.shape == _X.shape and 0 <= y.min() <= y.max() <= 6
  x, attrs = _normal(1, 3, 4, 5, 2), {"strides": (1,) * 5, "padding": "VALID"}
  assert fused_conv3d(x, _normal(2, 2, 2, 2, 3), [_BIAS], fused_ops=("BiasAdd", "Relu"), **attrs).min() == 0


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_matrix_product(transpose_a, transpose_b):
  a, b = _normal(*((4, 2) if transpose_a else (2, 4))), _normal(*((3, 4) if transpose_b else (4, 3)))
  want = np.maximum((a.T if transpose_a else a) @ (b.T if transpose_b else b) + _BIAS, 0)
  attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b, "fused_ops": ("BiasAdd", "Relu")}
  np.testing.assert_allclose(fused_mat_mul(a, b, [_BIAS], **attrs), want, rtol=1e-5)


def test_matrices_that_do_not_multiply_raise():
  with pytest.raises(InvalidInputError, match="do not multiply"):
    fused_mat_mul(_normal(2, 3), _normal(2, 3), [])


def test_an_unknown_fused_op_is_named():
  with pytest.raises(UnsupportedAttrError, match="'Frobnicate'"):
    fused_mat_mul(_normal(2, 2), _normal(2, 2), [], fused_ops=("Frobnicate",))


def test_grappler_output_converts():
  import tensorflow as tf

  @tf.function
  def function(x):
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, _W, 1, "SAME"), _BIAS))

  np.testing.assert_allclose(
    fused_conv2d(_X, _W, [_BIAS], [], fused_ops=("BiasAdd", "Relu"), **_CONV), function(_X), rtol=1e-4, atol=1e-4
  )


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_padding_and_convolution(mode):
  paddings = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32)
  attrs = {"mode": mode, "strides": [1, 1, 1, 1], "padding": "VALID"}
  # One image: TensorFlow 2.21 on CPU repeats the first image's result for all others.
  check_raw_op("FusedPadConv2D", [_X[:1], paddings, _W], attrs, vmap=False, tolerance=(1e-4, 1e-4))
  padded = fused_pad_conv2d(_X, paddings, _W, mode=mode, strides=(1, 1, 1, 1), padding="VALID")
  assert padded.shape == (2, 6, 7, 3)
  check_raw_op_rejects("FusedPadConv2D", [_X[:1], paddings * 9, _W], attrs, match="too large for dimension 1")


def test_resized_padded_convolution():
  paddings = np.array([[0, 0], [1, 1], [2, 0], [0, 0]], np.int32)
  attrs = {"mode": "REFLECT", "strides": [1, 2, 1, 1], "padding": "VALID", "resize_align_corners": True}
  size = np.array([8, 7], np.int32)
  inputs = [_X[:1], size, paddings, _W]
  check_raw_op("FusedResizeAndPadConv2D", inputs, attrs, vmap=False, tolerance=(1e-4, 1e-4))


def test_swish_and_mish_keep_their_dtype():
  x = np.array([-2.0, 0.0, 3.0], ml_dtypes.bfloat16)
  np.testing.assert_allclose(np.asarray(swish(x), np.float32), jax.nn.silu(x.astype(np.float32)), rtol=2e-2)
  assert swish(x).dtype == mish(x).dtype == x.dtype
