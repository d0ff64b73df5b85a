"""Arithmetic on uniformly quantized integers against TensorFlow."""

import functools

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.quantization.uniform_quantized import (
  uniform_quantized_add,
  uniform_quantized_clip_by_value,
  uniform_quantized_dot,
  uniform_requantize,
)
from graftax.ops_jax.quantization.uniform_quantized_conv import uniform_quantized_convolution

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_INT8 = {"quantization_min_val": -128, "quantization_max_val": 127}
_INT32 = {"quantization_min_val": -(2**31), "quantization_max_val": 2**31 - 1}


def _quantized(x, name):
  import tensorflow as tf

  return tf.bitcast(tf.constant(x), tf.as_dtype(name))


def _integers(tensor):
  import tensorflow as tf

  return tf.bitcast(tensor, tf.as_dtype(tensor.dtype.name.removeprefix("q"))).numpy()


def _prefixed(prefix, limits):
  return {f"{prefix}_{name}": value for name, value in limits.items()}


@pytest.mark.parametrize("axis", [-1, 1])
def test_requantize(axis):
  import tensorflow as tf

  x = _RNG.integers(-128, 128, (4, 3)).astype(np.int8)
  scales = np.array([0.5, 0.1, 0.3], np.float32) if axis == 1 else np.float32(0.5)
  zeros = np.array([1, -2, 0], np.int32) if axis == 1 else np.int32(1)
  numbers = [scales, zeros, np.float32(0.7), np.int32(-3)]
  names = ("input_scales", "input_zero_points", "output_scales", "output_zero_points")
  attrs = {"input_quantization_axis": axis, **_prefixed("output", _INT8)}
  want = tf.raw_ops.UniformRequantize(
    input=_quantized(x, "qint8"),
    **dict(zip(names, numbers, strict=True)),
    Tout=tf.qint8,
    **attrs,
    **_prefixed("input", _INT8),
  )
  got = uniform_requantize(x, *numbers, Tout=np.dtype(np.int8), **attrs)
  assert got.dtype == np.int8
  np.testing.assert_array_equal(got, _integers(want))


def test_add():
  import tensorflow as tf

  a = _RNG.integers(-1000, 1000, (4, 3)).astype(np.int32)
  b = _RNG.integers(-1000, 1000, (3,)).astype(np.int32)
  numbers = [np.float32(0.5), np.int32(1), np.float32(0.3), np.int32(-7), np.float32(0.4), np.int32(2)]
  names = [f"{p}_{s}" for p in ("lhs", "rhs", "output") for s in ("scales", "zero_points")]
  limits = {**_prefixed("lhs", _INT32), **_prefixed("rhs", _INT32)}
  want = tf.raw_ops.UniformQuantizedAdd(
    lhs=_quantized(a, "qint32"),
    rhs=_quantized(b, "qint32"),
    **dict(zip(names, numbers, strict=True)),
    **limits,
    **_prefixed("output", _INT32),
  )
  np.testing.assert_allclose(
    uniform_quantized_add(a, b, *numbers, **_prefixed("output", _INT32)), _integers(want), atol=2
  )


def test_clip():
  import tensorflow as tf

  x = _RNG.integers(-1000, 1000, (4, 3)).astype(np.int32)
  low, high = np.array([-5, -100, 0], np.int32), np.array([5, 100, 300], np.int32)
  scales, zeros = np.ones(3, np.float32), np.zeros(3, np.int32)
  inputs = {"operand": x, "min": low, "max": high}
  want = tf.raw_ops.UniformQuantizedClipByValue(
    **{k: _quantized(v, "qint32") for k, v in inputs.items()},
    scales=scales,
    zero_points=zeros,
    quantization_axis=1,
    **_INT32,
  )
  got = uniform_quantized_clip_by_value(x, low, high, scales, zeros, quantization_axis=1)
  np.testing.assert_array_equal(got, _integers(want))


def _dot_operands(scale):
  a, b = (_RNG.integers(-128, 128, s).astype(np.int8) for s in ((40, 60), (60, 3)))
  numbers = [np.float32(0.37), np.int32(1), np.array([0.3, 0.1, 0.2], np.float32), np.zeros(3, np.int32)]
  numbers += [np.array([0.4, 0.2, 0.9], np.float32) * np.float32(scale), np.array([2, 0, -5], np.int32)]
  return a, b, numbers


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.0007, 0.1, 1e3])
def test_dot(scale, x64):
  import tensorflow as tf

  a, b, numbers = _dot_operands(scale)
  names = [f"{p}_{s}" for p in ("lhs", "rhs", "output") for s in ("scales", "zero_points")]
  attrs = {"rhs_quantization_axis": 1, "output_quantization_axis": 1, **_prefixed("output", _INT32)}
  want = tf.raw_ops.UniformQuantizedDot(
    lhs=_quantized(a, "qint8"),
    rhs=_quantized(b, "qint8"),
    **dict(zip(names, numbers, strict=True)),
    Tout=tf.qint32,
    **attrs,
    **_prefixed("lhs", _INT8),
    **_prefixed("rhs", _INT8),
  )
  with jax.enable_x64(x64):
    run = functools.partial(uniform_quantized_dot, Tout=np.dtype(np.int32), **attrs)
    np.testing.assert_array_equal(run(a, b, *numbers), _integers(want))
    traced = jax.jit(run)(a, b, *numbers)
  if x64:
    np.testing.assert_array_equal(traced, _integers(want))
  else:
    # Float32 makes the multiplier wrong by at most a few parts in 2 ** 24.
    np.testing.assert_allclose(traced, _integers(want), rtol=2**-22, atol=1)


# Batch, features and space of the input, output features, input features and space of the kernel, and the output.
_NHWC = bytes([0x10, 3, 0x1A, 2, 1, 2, 0x20, 2, 0x28, 3, 0x32, 2, 0, 1, 0x40, 3, 0x4A, 2, 1, 2])


@pytest.mark.parametrize(
  ("lhs", "rhs", "attrs"),
  [
    ((2, 4, 6, 7), (5, 4, 3, 2), {"padding": "VALID"}),
    ((2, 4, 6, 7), (6, 2, 3, 3), {"padding": "SAME", "window_strides": [2, 1], "feature_group_count": 2}),
    ((2, 6, 7, 4), (3, 3, 4, 5), {"padding": "SAME", "dimension_numbers": _NHWC, "rhs_dilation": [1, 2]}),
    (
      (2, 4, 6, 7), (5, 4, 3, 2),
      {"padding": "EXPLICIT", "explicit_padding": [1, 0, 2, 1], "lhs_dilation": [2, 1]},
    ),
    ((4, 2, 6, 7), (6, 2, 3, 3), {"padding": "SAME", "batch_group_count": 2}),
  ],
)  # fmt: skip
@pytest.mark.parametrize("per_channel", [False, True])
def test_convolution(lhs, rhs, attrs, per_channel):
  import tensorflow as tf

  x, kernel = (_RNG.integers(-128, 128, shape).astype(np.int8) for shape in (lhs, rhs))
  is_nhwc = "dimension_numbers" in attrs
  features = rhs[3] if is_nhwc else rhs[0]
  scales = _RNG.uniform(0.01, 1, (2, features)).astype(np.float32)
  zeros = np.zeros(features, np.int32), np.arange(features, dtype=np.int32)
  numbers = [np.float32(0.37), np.int32(-3), scales[0], zeros[0], scales[1], zeros[1]]
  attrs = {**attrs, **_prefixed("output", _INT32)}
  if per_channel:
    axes = (3, 3) if is_nhwc else (0, 1)
    attrs.update(rhs_quantization_axis=axes[0], output_quantization_axis=axes[1])
  else:
    numbers[2:] = [n[1] for n in numbers[2:]]
  names = [f"{p}_{s}" for p in ("lhs", "rhs", "output") for s in ("scales", "zero_points")]
  want = tf.raw_ops.UniformQuantizedConvolution(
    lhs=_quantized(x, "qint8"),
    rhs=_quantized(kernel, "qint8"),
    **dict(zip(names, numbers, strict=True)),
    Tout=tf.qint32,
    **attrs,
    **_prefixed("lhs", _INT8),
    **_prefixed("rhs", _INT8),
  )
  got = uniform_quantized_convolution(x, kernel, *numbers, Tout=np.dtype(np.int32), **attrs)
  np.testing.assert_array_equal(got, _integers(want))


def test_convolutions_that_do_not_fit_raise():
  x = np.zeros((1, 2, 3, 3), np.int8)
  numbers = [np.float32(1), np.int32(0)] * 3
  limits = _prefixed("output", _INT32)
  for attrs, match in (
    ({"padding": "EXPLICIT", "explicit_padding": (1,)}, "expected 4"),
    ({"padding": "SAME", "dimension_numbers": bytes([0x08, 3])}, "permutation of the 4"),
  ):
    with pytest.raises(InvalidInputError, match=match):
      uniform_quantized_convolution(x, x, *numbers, Tout=np.dtype(np.int32), **attrs, **limits)
