"""Fake quantization and quantization grids against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.quantization.quantize import dequantize, quantize_v2, uniform_dequantize, uniform_quantize
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_X = np.concatenate([_RNG.uniform(-8, 8, 21), [-6, 6, 0]]).astype(np.float32).reshape(2, 4, 3)
_LOW, _HIGH = np.array([-1.0, -5.3, 0.0], np.float32), np.array([2.0, 0.0, 7.1], np.float32)


@pytest.mark.parametrize("attrs", [{}, {"num_bits": 4, "narrow_range": True}])
def test_fake_quant(attrs):
  check_raw_op("FakeQuantWithMinMaxArgs", [_X], {**attrs, "min": -3.0, "max": 5.5}, grad=True)
  check_raw_op("FakeQuantWithMinMaxArgsGradient", [_X[::-1].copy(), _X], attrs, vmap=False)
  for low, high in ((-3.0, 5.5), (0.0, 6.0), (0.0, 0.0)):
    inputs = [_X, np.float32(low), np.float32(high)]
    check_raw_op("FakeQuantWithMinMaxVars", inputs, attrs, grad=True, vmap=low < 0)
    check_raw_op("FakeQuantWithMinMaxVarsGradient", [_X[::-1].copy(), *inputs], attrs, vmap=False)
  check_raw_op("FakeQuantWithMinMaxVarsPerChannel", [_X, _LOW, _HIGH], attrs, grad=True, vmap=["inputs"])
  check_raw_op("FakeQuantWithMinMaxVarsPerChannelGradient", [_X[::-1].copy(), _X, _LOW, _HIGH], attrs, vmap=False)


@pytest.mark.parametrize("range_given", [False, True])
@pytest.mark.parametrize(
  "attrs", [{}, {"signed_input": False, "round_mode": "HALF_UP"}, {"num_bits": 4, "narrow_range": True}]
)
def test_quantize_and_dequantize(attrs, range_given):
  attrs = {**attrs, "range_given": range_given}
  scalars = [np.float32(-3.0), np.float32(5.5)]
  check_raw_op("QuantizeAndDequantizeV2", [_X, *scalars], attrs, grad=["input"])
  check_raw_op("QuantizeAndDequantizeV4", [_X, *scalars], attrs, grad=True, vmap=False)
  # TensorFlow's shape check asks for scalars with an axis too where the range is given; its kernel for vectors.
  if not range_given:
    check_raw_op("QuantizeAndDequantizeV2", [_X, _LOW - 1, _HIGH + 1], {**attrs, "axis": 2}, vmap=False)
  v3 = {k: v for k, v in attrs.items() if k not in ("num_bits", "round_mode")}
  check_raw_op("QuantizeAndDequantizeV3", [_X, *scalars, np.int32(5)], v3, grad=["input"], vmap=False)


def test_quantize_and_dequantize_of_nothing():
  scalars = [np.float32(-1.5), np.float32(1.5)]
  check_raw_op(
    "QuantizeAndDequantizeV2", [np.zeros((4, 2, 0), np.float32), *scalars], {"range_given": False}, vmap=False
  )


def test_quantize_and_dequantize_gradient_op():
  g = _RNG.normal(size=_X.shape).astype(np.float32)
  check_raw_op("QuantizeAndDequantizeV4Grad", [g, _X, np.float32(-3), np.float32(5)], vmap=["gradients"])
  check_raw_op("QuantizeAndDequantizeV4Grad", [g, _X, _LOW, _HIGH], {"axis": 2}, vmap=["gradients"])


_QUANTIZED = {"qint8": np.int8, "quint8": np.uint8, "qint16": np.int16, "quint16": np.uint16}


def _integers(tensor, name):
  import tensorflow as tf

  return tf.bitcast(tensor, tf.as_dtype(name.removeprefix("q"))).numpy()


@pytest.mark.parametrize("name", ["qint8", "quint8"])
@pytest.mark.parametrize(
  "attrs",
  [
    {"mode": "MIN_COMBINED"},
    {"mode": "MIN_FIRST"},
    {"mode": "SCALED"},
    {"mode": "SCALED", "narrow_range": True, "round_mode": "HALF_TO_EVEN"},
  ],
)
def test_quantize_and_back(attrs, name):
  import tensorflow as tf

  for low, high in ((-3.0, 5.5), (0.5, 6.0), (-2.0, -1.0), (0.0, 0.0)):
    if high <= 0 and name == "quint8" and "narrow_range" in attrs:
      continue  # no integer left for negative numbers: TensorFlow's range is a denormal number
    numbers = [np.float32(low), np.float32(high)]
    expected = tf.raw_ops.QuantizeV2(input=_X, min_range=low, max_range=high, T=tf.as_dtype(name), **attrs)
    got = jax.jit(lambda x, a, b: quantize_v2(x, a, b, T=np.dtype(_QUANTIZED[name]), **attrs))(_X, *numbers)
    assert got[0].dtype == _QUANTIZED[name]
    np.testing.assert_array_equal(got[0], _integers(expected[0], name))
    np.testing.assert_allclose(got[1:], [t.numpy() for t in expected[1:]], rtol=1e-6)
    floats = {k: v for k, v in attrs.items() if k != "round_mode"}
    back = tf.raw_ops.Dequantize(input=expected[0], min_range=expected[1], max_range=expected[2], **floats)
    np.testing.assert_allclose(dequantize(*got, **floats), back.numpy(), rtol=1e-5, atol=1e-6)


def test_quantize_along_an_axis():
  import tensorflow as tf

  attrs = {"mode": "SCALED", "axis": 2}
  expected = tf.raw_ops.QuantizeV2(input=_X, min_range=_LOW - 1, max_range=_HIGH + 1, T=tf.qint8, **attrs)
  got = quantize_v2(_X, _LOW - 1, _HIGH + 1, T=np.dtype(np.int8), **attrs)
  np.testing.assert_array_equal(got[0], _integers(expected[0], "qint8"))
  back = tf.raw_ops.Dequantize(input=expected[0], min_range=expected[1], max_range=expected[2], **attrs)
  np.testing.assert_allclose(dequantize(*got, **attrs), back.numpy(), rtol=1e-5)


@pytest.mark.parametrize("axis", [-1, 2])
def test_uniform_quantize_and_back(axis):
  import tensorflow as tf

  scales = np.array([0.5, 0.1, 0.25], np.float32) if axis == 2 else np.float32(0.1)
  zeros = np.array([-3, 0, 7], np.int32) if axis == 2 else np.int32(-3)
  attrs = {"quantization_axis": axis, "quantization_min_val": -127, "quantization_max_val": 127}
  expected = tf.raw_ops.UniformQuantize(input=_X, scales=scales, zero_points=zeros, Tout=tf.qint8, **attrs)
  got = uniform_quantize(_X, scales, zeros, Tout=np.dtype(np.int8), **attrs)
  np.testing.assert_array_equal(got, _integers(expected, "qint8"))
  back = tf.raw_ops.UniformDequantize(input=expected, scales=scales, zero_points=zeros, Tout=tf.float32, **attrs)
  floats = uniform_dequantize(jnp.asarray(got), scales, zeros, Tout=np.dtype(np.float32), quantization_axis=axis)
  np.testing.assert_allclose(floats, back.numpy(), rtol=1e-6)


def test_halves_round_as_in_tensorflow():
  import tensorflow as tf

  x = np.linspace(-8, 8, 33).astype(np.float32)
  for low, high in ((0.5, 6.0), (-2.0, -1.0)):
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
      expected = tf.raw_ops.QuantizeV2(input=x, min_range=low, max_range=high, T=tf.qint8, mode=mode)
      got = quantize_v2(x, np.float32(low), np.float32(high), T=np.dtype(np.int8), mode=mode)
      np.testing.assert_array_equal(got[0], _integers(expected[0], "qint8"), err_msg=mode)


def test_less_than_a_half_rounds_to_0_as_in_tensorflow():
  import tensorflow as tf

  # In float32, 0.49999997 + 0.5 is 1.
  x = np.array([0.49999997, -0.49999997, 0.5], np.float32)
  expected = tf.raw_ops.QuantizeV2(input=x, min_range=-127, max_range=127, T=tf.qint8, mode="SCALED", narrow_range=True)
  attrs = {"mode": "SCALED", "narrow_range": True}
  got = quantize_v2(x, np.float32(-127), np.float32(127), T=np.dtype(np.int8), **attrs)
  np.testing.assert_array_equal(got[0], _integers(expected[0], "qint8"))
