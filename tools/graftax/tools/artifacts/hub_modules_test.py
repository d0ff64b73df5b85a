"""Live modules, which tensorflow_hub has loaded, as JAX functions."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import convert

with warnings.catch_warnings():
  # https://github.com/tensorflow/hub/issues/934: it imports pkg_resources.
  warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
  warnings.filterwarnings("ignore", "Deprecated call to `pkg_resources", DeprecationWarning)
  import tensorflow_hub as hub

_DATA = Path(__file__).parents[4] / "hub_io/graftax/hub_io/testdata/2026_11_22"
_X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_a_module_that_tensorflow_hub_loaded_converts():
  module = hub.load(str(_DATA / "tf2_module"))
  fn, params = convert(tf.function(module), _X)
  np.testing.assert_allclose(fn(params, _X)[0], module(_X), rtol=1e-6)


@pytest.mark.parametrize("tags", [None, {"train", "batch_norm_fused"}])
def test_a_signature_of_tf1_that_tensorflow_hub_loaded_converts(tags):
  signature = hub.load(str(_DATA / "tf1_module"), tags=tags).signatures["default"]
  fn, params = convert(tf.function(signature), tf.TensorSpec([None, 4], tf.float32))
  expected = signature(tf.constant(_X))["default"]
  np.testing.assert_allclose(fn(params, _X)[0]["default"], expected, rtol=1e-5, atol=1e-5)
