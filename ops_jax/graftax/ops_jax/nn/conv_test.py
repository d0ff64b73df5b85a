"""Convolutions against TensorFlow: padding, strides, dilations, groups, layouts, types, export with symbolic sizes."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.nn.conv import conv2d
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CLOSE = (1e-4, 1e-4)


def _normal(shape, dtype=np.float32):
  return _RNG.normal(size=shape).astype(dtype)


_CASES = {
  "same": ((2, 7, 6, 4), (3, 3, 4, 5), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
  "same_odd_stride_2": ((2, 7, 6, 4), (3, 2, 4, 5), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
  "same_even_stride_3": ((1, 8, 8, 4), (4, 4, 4, 5), {"strides": [1, 3, 3, 1], "padding": "SAME"}),
  "valid": ((2, 7, 6, 4), (3, 3, 4, 5), {"strides": [1, 2, 1, 1], "padding": "VALID"}),
  "dilated": ((1, 9, 8, 4), (3, 2, 4, 5), {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 3, 1]}),
  "explicit": (
    (1, 5, 6, 4),
    (3, 3, 4, 5),
    {"strides": [1, 2, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]},
  ),
  "grouped": ((2, 5, 5, 6), (3, 3, 2, 9), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
  "one_channel_per_group": ((2, 5, 5, 6), (3, 3, 1, 12), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
  "pointwise": ((2, 3, 3, 4), (1, 1, 4, 2), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
}


@pytest.mark.parametrize("name", _CASES)
def test_conv2d(name):
  x_shape, w_shape, attrs = _CASES[name]
  check_raw_op(
    "Conv2D", [_normal(x_shape), _normal(w_shape)], attrs, grad=True, tolerance=_CLOSE, grad_tolerance=(1e-3, 1e-3)
  )


def test_conv2d_second_derivative():
  x_shape, w_shape, attrs = _CASES["same_odd_stride_2"]
  check_raw_op("Conv2D", [_normal(x_shape, np.float64), _normal(w_shape, np.float64)], attrs, grad=True, grad_order=2)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv2d_channels_first(padding):
  attrs = {"strides": [1, 1, 2, 1], "padding": padding, "data_format": "NCHW", "dilations": [1, 1, 1, 1]}
  check_raw_op("Conv2D", [_normal((2, 4, 6, 7)), _normal((3, 3, 4, 5))], attrs, tolerance=_CLOSE)


@pytest.mark.parametrize(
  ("dtype", "tolerance"),
  [(np.float64, None), (np.float16, (2e-2, 2e-2)), (ml_dtypes.bfloat16, (6e-2, 6e-2)), (np.int32, None)],
)
def test_conv2d_types(dtype, tolerance):
  x, w = (_RNG.integers(-4, 4, s).astype(dtype) for s in ((1, 5, 5, 4), (3, 3, 4, 3)))
  check_raw_op("Conv2D", [x, w], {"strides": [1, 1, 1, 1], "padding": "SAME"}, tolerance=tolerance)


def test_conv2d_of_an_empty_batch():
  # TensorFlow 2.21 on CPU returns the input's channels for an empty batch, so it is no oracle here.
  y = conv2d(_normal((0, 5, 5, 2)), _normal((3, 3, 2, 4)), strides=(1, 1, 1, 1), padding="SAME")
  assert y.shape == (0, 5, 5, 4)


def test_conv2d_rejects_channels_that_do_not_divide():
  attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
  check_raw_op_rejects("Conv2D", [_normal((1, 5, 5, 5)), _normal((3, 3, 2, 4))], attrs, match="5 channels")
  check_raw_op_rejects("Conv2D", [_normal((1, 5, 5, 4)), _normal((3, 3, 2, 5))], attrs, match="5 output channels")
  check_raw_op_rejects("Conv2D", [_normal((1, 5, 5, 4)), _normal((3, 3, 1, 6))], attrs, match="6 output channels")


def test_conv2d_of_integers_with_one_group_per_channel():
  x, w = (_RNG.integers(-4, 4, s).astype(np.int32) for s in ((1, 5, 5, 4), (3, 3, 1, 8)))
  check_raw_op("Conv2D", [x, w], {"strides": [1, 1, 1, 1], "padding": "SAME"})


@pytest.mark.parametrize("kernel_shape", [(3, 3, 4, 5), (3, 3, 1, 8)])
def test_conv2d_exports_with_symbolic_sizes(kernel_shape):
  kernel = _normal(kernel_shape)
  shape = jax.export.symbolic_shape("b, h, w, 4", constraints=["h >= 4", "w >= 4"])

  def function(x):
    return conv2d(x, kernel, strides=(1, 2, 2, 1), padding="SAME")

  exported = jax.export.export(jax.jit(function), platforms=("cpu", "cuda"))(jax.ShapeDtypeStruct(shape, np.float32))
  x = jnp.asarray(_normal((2, 9, 6, 4)))
  np.testing.assert_allclose(exported.call(x), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [[1, 1, 1, 1, 1], [1, 2, 1, 2, 1]])
def test_conv3d(strides, padding):
  attrs = {"strides": strides, "padding": padding}
  check_raw_op(
    "Conv3D",
    [_normal((1, 4, 5, 6, 2)), _normal((2, 3, 2, 2, 3))],
    attrs,
    grad=True,
    tolerance=_CLOSE,
    grad_tolerance=(1e-3, 1e-3),
  )


def test_conv3d_channels_first_and_dilated():
  attrs = {"strides": [1] * 5, "padding": "SAME", "data_format": "NCDHW"}
  check_raw_op("Conv3D", [_normal((1, 2, 4, 5, 6)), _normal((2, 3, 2, 2, 3))], attrs, tolerance=_CLOSE)
  attrs = {"strides": [1] * 5, "padding": "SAME", "dilations": [1, 1, 2, 2, 1]}
  check_raw_op("Conv3D", [_normal((1, 4, 5, 6, 2)), _normal((2, 3, 2, 2, 3))], attrs, tolerance=_CLOSE)


def test_conv_with_two_batch_dimensions():
  attrs = {"strides": [1, 2, 1, 1], "padding": "SAME", "batch_dims": 2}
  check_raw_op("Conv", [_normal((2, 3, 5, 5, 2)), _normal((3, 3, 2, 4))], attrs, tolerance=_CLOSE)


def test_conv_in_three_dimensions():
  attrs = {"strides": [1] * 5, "padding": "VALID"}
  check_raw_op("Conv", [_normal((2, 4, 5, 5, 2)), _normal((3, 3, 2, 2, 4))], attrs, tolerance=_CLOSE)


def test_conv_in_one_dimension_matches_numpy():
  from graftax.ops_jax.nn.conv import conv

  x, w = _normal((1, 6, 1)), _normal((3, 1, 1))
  y = conv(x, w, strides=(1, 1, 1), padding="VALID")
  np.testing.assert_allclose(y[0, :, 0], np.correlate(x[0, :, 0], w[:, 0, 0], "valid"), rtol=1e-5)
