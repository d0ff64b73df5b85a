"""Depthwise convolution against TensorFlow, and its two forms against each other."""

import contextlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax.nn.depthwise import depthwise_conv2d_native, depthwise_convolve, grouped_form, shifted_form
from graftax.ops_jax.spatial.layouts import layout
from graftax.ops_jax.spatial.windows import spatial_window
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects
from graftax.xla_call_module.lax_extras import xla_convolutions

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CLOSE = (1e-4, 1e-4)


def _normal(shape, dtype=np.float32):
  return _RNG.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize(
  "attrs",
  [
    {"strides": [1, 1, 1, 1], "padding": "SAME"},
    {"strides": [1, 2, 2, 1], "padding": "SAME"},
    {"strides": [1, 2, 2, 1], "padding": "VALID"},
    {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]},
    {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]},
  ],
)
def test_depthwise(attrs, multiplier):
  inputs = [_normal((2, 7, 6, 4)), _normal((3, 2, 4, multiplier))]
  # TensorFlow's gradient kernels ignore dilations; conv_gradients_test.py compares those in another way.
  grad = "dilations" not in attrs
  check_raw_op("DepthwiseConv2dNative", inputs, attrs, grad=grad, tolerance=_CLOSE, grad_tolerance=(1e-3, 1e-3))


def test_depthwise_second_derivative():
  inputs = [_normal((1, 5, 4, 3), np.float64), _normal((3, 3, 3, 2), np.float64)]
  check_raw_op("DepthwiseConv2dNative", inputs, {"strides": [1, 2, 2, 1], "padding": "SAME"}, grad=True, grad_order=2)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_channels_first(multiplier):
  attrs = {"strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW"}
  check_raw_op(
    "DepthwiseConv2dNative", [_normal((2, 4, 7, 6)), _normal((3, 3, 4, multiplier))], attrs, tolerance=_CLOSE
  )


@pytest.mark.parametrize(
  ("dtype", "tolerance"), [(np.float64, None), (np.float16, (1e-2, 1e-2)), (ml_dtypes.bfloat16, (5e-2, 5e-2))]
)
def test_depthwise_types(dtype, tolerance):
  inputs = [_normal((1, 5, 5, 3), dtype), _normal((3, 3, 3, 1), dtype)]
  check_raw_op("DepthwiseConv2dNative", inputs, {"strides": [1, 1, 1, 1], "padding": "SAME"}, tolerance=tolerance)


def test_a_filter_for_other_channels_raises():
  attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
  check_raw_op_rejects(
    "DepthwiseConv2dNative", [_normal((1, 5, 5, 3)), _normal((3, 3, 2, 1))], attrs, match="(3, 3, 2, 1)"
  )


@pytest.mark.parametrize(
  ("size", "stride", "error"), [((300, 300), 1, UnsupportedAttrError), ((3, 3), 0, InvalidInputError)]
)
def test_windows_that_no_program_has_room_for_raise(size, stride, error):
  for forms in (contextlib.nullcontext(), xla_convolutions()):
    with forms, pytest.raises(error, match="expected at"):
      depthwise_conv2d_native(
        jnp.ones((1, 400, 400, 2)), jnp.ones((*size, 2, 1)), strides=(1, stride, stride, 1), padding="VALID"
      )


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_both_forms_agree(data_format, multiplier):
  place = layout("test", data_format, 4)
  x = jnp.asarray(_normal((2, 7, 6, 4) if data_format == "NHWC" else (2, 4, 7, 6)))
  kernel = jnp.asarray(_normal((3, 2, 4, multiplier)))
  strides = (1, 2, 1, 1) if data_format == "NHWC" else (1, 1, 2, 1)
  window = spatial_window("test", place, x.shape, (3, 2), strides=strides, padding="SAME")
  np.testing.assert_allclose(
    shifted_form(x, kernel, window, place), grouped_form(x, kernel, window, place), rtol=1e-5, atol=1e-5
  )
  for form in (shifted_form, grouped_form):
    gradients = jax.grad(lambda x, k: jnp.sum(form(x, k, window, place) ** 3), (0, 1))(x, kernel)  # noqa: B023
    chosen = jax.jit(jax.grad(lambda x, k: jnp.sum(depthwise_convolve(x, k, window, place) ** 3), (0, 1)))(x, kernel)
    for got, want in zip(chosen, gradients, strict=True):
      np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_cpu_never_runs_the_slow_form_and_other_platforms_never_the_shifted_one():
  x, kernel = jnp.ones((1, 8, 8, 4)), jnp.ones((3, 3, 4, 1))

  def function(x, kernel):
    return depthwise_conv2d_native(x, kernel, strides=(1, 1, 1, 1), padding="SAME")

  traced = jax.jit(function).trace(x, kernel)
  assert "convolution" not in traced.lower(lowering_platforms=("cpu",)).as_text()
  gpu = traced.lower(lowering_platforms=("cuda",)).as_text()
  assert "feature_group_count = 4" in gpu
  assert "stablehlo.slice" not in gpu
