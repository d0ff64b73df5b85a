"""Glimpses against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import lowering
from graftax.testing.raw_ops import NodeContext, check_raw_op

pytestmark = pytest.mark.tensorflow

_IMAGES = np.random.default_rng(0).normal(size=(4, 5, 6, 2)).astype(np.float32)
_OFFSETS = np.array([[0, 0], [0.4, -0.7], [1, 2], [-1.3, 0.2]], np.float32)


@pytest.mark.parametrize("op", ["ExtractGlimpse", "ExtractGlimpseV2"])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("size", [(3, 2), (2, 9)])
def test_places(op, centered, normalized, size):
  attrs = {"centered": centered, "normalized": normalized, "uniform_noise": False, "noise": "zero"}
  check_raw_op(op, [_IMAGES, np.array(size, np.int32), _OFFSETS], attrs, vmap=size == (3, 2))


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
def test_noise_has_the_distribution_of_tensorflow(noise):
  import tensorflow as tf

  images = np.stack([np.arange(60.0), 7 + 3 * np.arange(60.0)]).reshape(2, 5, 6, 2).astype(np.float32)
  size, offsets = (60, 60), np.full((2, 2), 9, np.float32)
  attrs = {"uniform_noise": False, "noise": noise}
  expected = tf.raw_ops.ExtractGlimpse(input=images, size=size, offsets=offsets, **attrs).numpy()
  context = NodeContext(key=jax.random.key(0))
  got = np.asarray(lowering("ExtractGlimpse").function(context, images, size, offsets, **attrs))
  for statistic in (np.mean, np.std, np.min, np.max):
    want = statistic(expected, axis=(1, 2))
    np.testing.assert_allclose(statistic(got, axis=(1, 2)), want, atol=0.03 * np.max(images))


def test_two_kinds_of_noise_are_refused():
  with pytest.raises(GraftaxError, match="uniform_noise is set with noise='gaussian'"):
    lowering("ExtractGlimpse").function(NodeContext(), _IMAGES, (2, 2), _OFFSETS, noise="gaussian")
