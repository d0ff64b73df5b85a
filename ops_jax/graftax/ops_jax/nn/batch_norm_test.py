"""Batch normalization against TensorFlow: statistics, gradients of both kinds, gradients of gradients."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.nn.batch_norm import (
  batch_norm_with_global_normalization,
  batch_norm_with_global_normalization_grad,
  fused_batch_norm_v3,
)
from graftax.testing.raw_ops import check_raw_op, raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_VECTORS = [np.array(v, np.float32) for v in ([1.0, 0.5, 2.0], [0.0, 1.0, -1.0], [0.1, -0.2, 0.3], [1.0, 2.0, 0.5])]
_SHAPES = {"NHWC": (2, 4, 5, 3), "NCHW": (2, 3, 4, 5), "NDHWC": (2, 2, 3, 4, 3), "NCDHW": (2, 3, 2, 3, 4)}
_CLOSE = (1e-4, 1e-5)


def _x(data_format="NHWC", dtype=np.float32):
  return _RNG.normal(0.5, 2, _SHAPES[data_format]).astype(dtype)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_value_and_gradient(data_format, is_training):
  attrs = {"data_format": data_format, "is_training": is_training, "epsilon": 1e-3}
  check_raw_op("FusedBatchNormV3", [_x(data_format), *_VECTORS], attrs, grad=["x", "scale", "offset"], tolerance=_CLOSE)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_second_derivative(op, is_training):
  attrs = {"is_training": is_training}
  check_raw_op(
    op,
    [_x(), *_VECTORS],
    attrs,
    grad=["x", "scale", "offset"],
    grad_order=2,
    tolerance=_CLOSE,
    grad_tolerance=(1e-3, 1e-3),
  )


@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0])
def test_running_statistics(factor):
  check_raw_op("FusedBatchNormV3", [_x(), *_VECTORS], {"exponential_avg_factor": factor}, tolerance=_CLOSE)


def test_empty_statistics_in_training():
  empty = np.zeros(0, np.float32)
  check_raw_op("FusedBatchNormV3", [_x(), *_VECTORS[:2], empty, empty], tolerance=_CLOSE)


def test_a_single_element_per_channel_has_no_correction():
  check_raw_op("FusedBatchNormV3", [np.array([1, 2, 3], np.float32).reshape(1, 1, 1, 3), *_VECTORS])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("is_training", [True, False])
def test_16_bit_inputs(dtype, is_training):
  _check_first_outputs(3, "FusedBatchNormV3", [_x(dtype=dtype), *_VECTORS], {"is_training": is_training}, 2e-2)


@pytest.mark.parametrize("data_format", ["NDHWC", "NCDHW"])
def test_volumes(data_format):
  x, dy = _x(data_format), _x(data_format)
  for is_training in (True, False):
    attrs = {"data_format": data_format, "is_training": is_training}
    _check_first_outputs(3, "FusedBatchNormV3", [x, *_VECTORS], attrs, 1e-4)
    if data_format == "NCDHW" and not is_training:
      continue  # TensorFlow's CPU kernel has no such gradient
    gradient_inputs = [dy, x, _VECTORS[0], _VECTORS[2], _VECTORS[3], np.zeros(0, np.float32)]
    _check_first_outputs(3, "FusedBatchNormGradV3", gradient_inputs, attrs, 1e-4)


def test_derivatives_of_volumes_are_those_of_images():
  x = _x("NDHWC")

  def gradient(x, data_format):
    loss = lambda x: jnp.sum(fused_batch_norm_v3(x, *_VECTORS, data_format=data_format)[0] ** 3)  # noqa: E731
    return jax.grad(lambda x: jnp.sum(jax.grad(loss)(x) ** 2))(x)

  image = gradient(x.reshape(2, 6, 4, 3), "NHWC")
  np.testing.assert_allclose(gradient(x, "NDHWC").reshape(image.shape), image, rtol=1e-4, atol=1e-3)


def _check_first_outputs(num_outputs, op, inputs, attrs, tolerance):
  case = raw_op(op, inputs, attrs)
  expected = case.oracle(case.inputs)
  for got, want in list(zip(case.run(*map(jnp.asarray, case.inputs)), expected, strict=True))[:num_outputs]:
    assert got.dtype == want.numpy().dtype
    np.testing.assert_allclose(
      np.asarray(got, np.float32), want.numpy().astype(np.float32), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("op", ["FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"])
def test_gradient_op(op, is_training):
  x, dy = _x(), _x()
  saved = [x.mean((0, 1, 2)), x.var((0, 1, 2))]
  inputs = [dy, x, _VECTORS[0], *saved] + ([saved[0]] if op.endswith("V3") else [])
  check_raw_op(op, inputs, {"is_training": is_training}, tolerance=(1e-4, 1e-4))


def test_gradient_op_with_channels_first():
  x, dy = _x("NCHW"), _x("NCHW")
  inputs = [dy, x, _VECTORS[0], x.mean((0, 2, 3)), x.var((0, 2, 3)), np.zeros(0, np.float32)]
  check_raw_op("FusedBatchNormGradV3", inputs, {"data_format": "NCHW"}, tolerance=(1e-4, 1e-4))


def _in_an_old_graph(op, inputs, num_outputs, **attrs):
  """What TensorFlow computes; it takes this op only in graphs of old versions."""
  import tensorflow as tf

  graph = tf.compat.v1.GraphDef()
  graph.versions.producer = 8
  node = graph.node.add(name="op", op=op)
  node.attr["T"].type = tf.float32.as_datatype_enum
  node.attr["variance_epsilon"].f = attrs["variance_epsilon"]
  node.attr["scale_after_normalization"].b = attrs["scale_after_normalization"]
  for i in range(len(inputs)):
    placeholder = graph.node.add(name=f"x{i}", op="Placeholder")
    placeholder.attr["dtype"].type = tf.float32.as_datatype_enum
    node.input.append(placeholder.name)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.import_graph_def(graph, name="")
    return session.run([f"op:{i}" for i in range(num_outputs)], {f"x{i}:0": x for i, x in enumerate(inputs)})


@pytest.mark.parametrize("scaled", [False, True])
def test_batch_norm_with_global_normalization(scaled):
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(2, 2, 3, 4, 5)).astype(np.float32)
  mean, offset, scale = rng.normal(size=(3, 5)).astype(np.float32)
  variance = rng.uniform(0.5, 2, 5).astype(np.float32)
  attrs = {"variance_epsilon": 0.01, "scale_after_normalization": scaled}
  (want,) = _in_an_old_graph("BatchNormWithGlobalNormalization", [x, mean, variance, offset, scale], 1, **attrs)
  got = batch_norm_with_global_normalization(x, mean, variance, offset, scale, **attrs)
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
  inputs = [x, mean, variance, scale, y]
  want = _in_an_old_graph("BatchNormWithGlobalNormalizationGrad", inputs, 5, **attrs)
  for got, expected in zip(batch_norm_with_global_normalization_grad(*inputs, **attrs), want, strict=True):
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
