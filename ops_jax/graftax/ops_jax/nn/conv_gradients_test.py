"""Gradient ops of convolutions against TensorFlow, odd sizes and groups included."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.nn.conv_gradients import (
  conv2d_backprop_filter_v2,
  conv2d_backprop_input,
  conv2d_backprop_input_v2,
  conv3d_backprop_filter,
  conv3d_backprop_filter_v2,
  conv3d_backprop_input,
  conv3d_backprop_input_v2,
  depthwise_conv2d_native_backprop_filter,
  depthwise_conv2d_native_backprop_input,
)
from graftax.ops_jax.nn.depthwise import depthwise_conv2d_native
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CLOSE = (1e-4, 1e-4)


def _normal(shape, dtype=np.float32):
  return _RNG.normal(size=shape).astype(dtype)


# input shape, filter shape, shape of the result, attributes
_CASES = {
  "same": ((2, 7, 6, 4), (3, 3, 4, 5), (2, 7, 6, 5), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
  "odd_size_stride_2": ((2, 7, 5, 4), (3, 3, 4, 5), (2, 4, 3, 5), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
  "even_size_stride_2": ((2, 8, 6, 4), (4, 3, 4, 5), (2, 4, 3, 5), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
  "valid_with_rest": ((2, 8, 6, 4), (3, 3, 4, 5), (2, 3, 2, 5), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
  "kernel_below_stride": ((2, 7, 7, 4), (1, 1, 4, 5), (2, 4, 4, 5), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
  "explicit": (
    (1, 5, 6, 4),
    (3, 3, 4, 5),
    (1, 3, 5, 5),
    {"strides": [1, 2, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]},
  ),
  "dilated": (
    (1, 9, 8, 4),
    (3, 2, 4, 5),
    (1, 9, 8, 5),
    {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 3, 1]},
  ),
  "grouped": ((2, 5, 5, 6), (3, 3, 2, 9), (2, 3, 3, 9), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
}


@pytest.mark.parametrize("name", _CASES)
def test_conv2d_backprop_input(name):
  x, w, y, attrs = _CASES[name]
  inputs = [np.array(x, np.int32), _normal(w), _normal(y)]
  check_raw_op(
    "Conv2DBackpropInput", inputs, attrs, grad=name != "grouped", tolerance=_CLOSE, grad_tolerance=(1e-3, 1e-3)
  )


@pytest.mark.parametrize("name", _CASES)
def test_conv2d_backprop_filter(name):
  x, w, y, attrs = _CASES[name]
  inputs = [_normal(x), np.array(w, np.int32), _normal(y)]
  check_raw_op(
    "Conv2DBackpropFilter", inputs, attrs, grad=name != "grouped", tolerance=(1e-3, 1e-3), grad_tolerance=(1e-3, 1e-3)
  )


def test_input_sizes_may_be_height_and_width_alone():
  _, w, y, attrs = _CASES["odd_size_stride_2"]
  check_raw_op("Conv2DBackpropInput", [np.array([7, 5], np.int32), _normal(w), _normal(y)], attrs, tolerance=_CLOSE)


def test_channels_first():
  attrs = {"strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW"}
  sizes, w, y = np.array([2, 4, 7, 6], np.int32), (3, 3, 4, 5), (2, 5, 4, 3)
  check_raw_op("Conv2DBackpropInput", [sizes, _normal(w), _normal(y)], attrs, tolerance=_CLOSE)
  check_raw_op("Conv2DBackpropFilter", [_normal(sizes), np.array(w, np.int32), _normal(y)], attrs, tolerance=_CLOSE)


@pytest.mark.parametrize(
  ("dtype", "tolerance"), [(np.float64, None), (np.float16, 2e-2), (ml_dtypes.bfloat16, 6e-2), (np.int32, None)]
)
def test_types(dtype, tolerance):
  x, w, y, attrs = _CASES["odd_size_stride_2"]
  w_value, y_value = (_RNG.integers(-3, 3, s).astype(dtype) for s in (w, y))
  tolerance = tolerance and (tolerance, tolerance)
  check_raw_op("Conv2DBackpropInput", [np.array(x, np.int32), w_value, y_value], attrs, tolerance=tolerance)
  if dtype != np.int32:
    x_value = _RNG.integers(-3, 3, x).astype(dtype)
    check_raw_op("Conv2DBackpropFilter", [x_value, np.array(w, np.int32), y_value], attrs, tolerance=tolerance)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_grouped_integers_match_floats(data_format, channels):
  w, y = _RNG.integers(-3, 3, (3, 2, channels, 9)), _RNG.integers(-3, 3, (2, 3, 3, 9))
  attrs = {"strides": (1, 2, 2, 1), "padding": "SAME", "data_format": data_format}
  sizes = (2, 5, 6, 3 * channels)
  if data_format == "NCHW":
    y, sizes, attrs = np.moveaxis(y, -1, 1), (2, 3 * channels, 5, 6), {**attrs, "strides": (1, 1, 2, 2)}
  got = conv2d_backprop_input(sizes, w.astype(np.int32), y.astype(np.int32), **attrs)
  want = conv2d_backprop_input(sizes, w.astype(np.float32), y.astype(np.float32), **attrs)
  np.testing.assert_allclose(got, want, atol=1e-3)


def test_shapes_that_do_not_fit_raise():
  _, w, y, attrs = _CASES["odd_size_stride_2"]
  inputs = [np.array([2, 9, 5, 4], np.int32), _normal(w), _normal(y)]
  check_raw_op_rejects("Conv2DBackpropInput", inputs, attrs, match="(2, 4, 3, 5)")


def test_v2_takes_the_shape_from_the_tensor():
  x, w, y, attrs = _CASES["odd_size_stride_2"]
  x, w, y = _normal(x), _normal(w), _normal(y)
  attrs = {"strides": tuple(attrs["strides"]), "padding": attrs["padding"]}
  np.testing.assert_array_equal(
    conv2d_backprop_input_v2(x, w, y, **attrs), conv2d_backprop_input(x.shape, w, y, **attrs)
  )
  assert conv2d_backprop_filter_v2(x, w, y, **attrs).shape == w.shape


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv3d_gradients(padding):
  attrs = {"strides": [1, 2, 1, 2, 1], "padding": padding}
  x, w = (1, 4, 5, 6, 2), (2, 3, 2, 2, 3)
  y = (1, 2, 5, 3, 3) if padding == "SAME" else (1, 2, 3, 3, 3)
  close = {"tolerance": _CLOSE, "grad_tolerance": (1e-3, 1e-3)}
  check_raw_op("Conv3DBackpropInputV2", [np.array(x, np.int32), _normal(w), _normal(y)], attrs, grad=True, **close)
  check_raw_op("Conv3DBackpropFilterV2", [_normal(x), np.array(w, np.int32), _normal(y)], attrs, grad=True, **close)


def test_conv3d_gradients_of_old_graphs():
  attrs = {"strides": (1, 1, 1, 1, 1), "padding": "SAME"}
  x, w, y = _normal((1, 3, 3, 3, 2)), _normal((2, 2, 2, 2, 3)), _normal((1, 3, 3, 3, 3))
  np.testing.assert_array_equal(
    conv3d_backprop_input(x, w, y, **attrs), conv3d_backprop_input_v2(x.shape, w, y, **attrs)
  )
  np.testing.assert_array_equal(
    conv3d_backprop_filter(x, w, y, **attrs), conv3d_backprop_filter_v2(x, w.shape, y, **attrs)
  )


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "SAME"), (2, "VALID")])
def test_depthwise_gradients(stride, padding, multiplier):
  attrs = {"strides": [1, stride, stride, 1], "padding": padding}
  x, w = (2, 7, 6, 4), (3, 2, 4, multiplier)
  y = depthwise_conv2d_native(_normal(x), _normal(w), strides=tuple(attrs["strides"]), padding=padding).shape
  close = {"tolerance": (1e-3, 1e-3), "grad_tolerance": (1e-3, 1e-3)}
  inputs = [np.array(x, np.int32), _normal(w), _normal(y)]
  check_raw_op("DepthwiseConv2dNativeBackpropInput", inputs, attrs, grad=True, **close)
  inputs = [_normal(x), np.array(w, np.int32), _normal(y)]
  check_raw_op("DepthwiseConv2dNativeBackpropFilter", inputs, attrs, grad=True, **close)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_dilated_depthwise_gradients_are_those_of_the_convolution(data_format):
  channels_last = data_format == "NHWC"
  x = _normal((1, 7, 6, 3) if channels_last else (1, 3, 7, 6))
  w = _normal((3, 3, 3, 2))
  attrs = {
    "strides": (1, 1, 1, 1),
    "padding": "SAME",
    "dilations": (1, 2, 2, 1) if channels_last else (1, 1, 2, 2),
    "data_format": data_format,
  }
  y, vjp = jax.vjp(lambda x, w: depthwise_conv2d_native(x, w, **attrs), x, w)
  dy = jnp.asarray(_normal(y.shape))
  dx, dw = vjp(dy)
  np.testing.assert_allclose(depthwise_conv2d_native_backprop_input(x.shape, w, dy, **attrs), dx, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(depthwise_conv2d_native_backprop_filter(x, w.shape, dy, **attrs), dw, rtol=1e-5, atol=1e-5)


def test_a_filter_of_another_rank_is_an_error():
  x, kernel, dy = np.ones((2, 7, 6, 4), np.float32), np.ones((3, 4, 5), np.float32), np.ones((2, 7, 6, 5), np.float32)
  for gradient in (conv2d_backprop_input_v2, conv2d_backprop_filter_v2):
    with pytest.raises(InvalidInputError, match=r"a filter of shape \(3, 4, 5\) does not fit"):
      gradient(x, kernel, dy, strides=(1, 1, 1, 1), padding="SAME")
