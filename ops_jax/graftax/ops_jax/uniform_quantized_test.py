"""Arithmetic on uniformly quantized integers against TensorFlow, within one step."""

import numpy as np
import pytest

from graftax.ops_jax.uniform_quantized import (
  uniform_quantized_add,
  uniform_quantized_clip_by_value,
  uniform_quantized_dot,
  uniform_requantize,
)

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
  np.testing.assert_allclose(got, _integers(want), atol=1)


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


def test_dot():
  import tensorflow as tf

  a, b = (_RNG.integers(-128, 128, s).astype(np.int8) for s in ((4, 6), (6, 3)))
  numbers = [np.float32(0.5), np.int32(1), np.array([0.3, 0.1, 0.2], np.float32), np.zeros(3, np.int32)]
  numbers += [np.array([0.4, 0.2, 0.9], np.float32), np.array([2, 0, -5], np.int32)]
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
  np.testing.assert_allclose(
    uniform_quantized_dot(a, b, *numbers, Tout=np.dtype(np.int32), **attrs), _integers(want), atol=1
  )
