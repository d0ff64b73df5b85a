"""The examples in docs/examples run beside TensorFlow, which loads and trains the models that they save."""

import runpy

import numpy as np
import pytest
import tensorflow as tf
from cleanroom import ROOT

pytestmark = pytest.mark.slow

_EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the libraries
@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_tensorflow_loads_and_differentiates_the_saved_model(path, tmp_path):
  inputs, expected = runpy.run_path(str(path))["main"](str(tmp_path / "model"))
  loaded = tf.saved_model.load(str(tmp_path / "model"))
  serve, x = loaded.signatures["serving_default"], tf.constant(np.asarray(inputs))
  inputs_of = {name: tf.constant(1.0) for name in serve.structured_input_signature[1] if name != "inputs_0"}
  with tf.GradientTape() as tape:
    (found,) = serve(inputs_0=x, **inputs_of).values()
    loss = tf.reduce_sum(found**2)
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  trained = [variable for variable in loaded.tf_var_leaves if variable.trainable]
  assert trained
  assert all(np.any(gradient) for gradient in tape.gradient(loss, trained))
