"""Restored TF1 models with reference variables; with TensorFlow as the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

v1 = tf.compat.v1
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(scope="module")
def restored(tmp_path_factory):
  """A TF1 model with two reference variables and a resource variable, loaded by TensorFlow 2."""
  path = str(tmp_path_factory.mktemp("tf1") / "model")
  with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.float32, [None, 2], name="x")
    with v1.variable_scope("dense"):
      kernel = v1.get_variable("kernel", initializer=np.float32([[0.1, 0.2], [0.3, 0.4]]), use_resource=False)
      bias = v1.get_variable("bias", initializer=np.float32([0.5, 0.6]), use_resource=False)
    count = v1.get_variable("count", initializer=np.float32(0), use_resource=False)
    scale = v1.get_variable("scale", initializer=np.float32(2), use_resource=True)
    unread = v1.get_variable("unread", initializer=np.float32(2), use_resource=False)
    y = tf.tanh(tf.matmul(x, kernel) + bias) * scale
    with tf.control_dependencies([v1.assign_add(count, 1.0)]):
      counted = count.read_value() + tf.reduce_sum(y)
    session.run([variable.initializer for variable in (kernel, bias, count, scale, unread)])
    v1.saved_model.simple_save(session, path, {"x": x}, {"y": y, "counted": counted})
  return tf.saved_model.load(path)


def _around(restored):
  return tf.function(lambda x: restored.signatures["serving_default"](x=x * 2.0))


def test_reference_variables_are_parameters_by_the_names_of_the_model(restored):
  fn, params = gc.convert(restored.signatures["serving_default"])
  assert set(params) == {"dense/kernel", "dense/bias", "count", "scale"}
  assert params["dense/kernel"].name == "dense/kernel:0"
  outputs, new_params = jax.jit(fn)(params, x=X)
  expected = restored.signatures["serving_default"](x=tf.constant(X))
  np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-6)
  np.testing.assert_allclose(outputs["counted"], expected["counted"], rtol=1e-6)
  assert float(new_params["count"]) == float(params["count"]) + 1


def test_a_function_around_the_model_has_all_of_its_variables_and_their_derivatives(restored):
  tf_fn = _around(restored)
  fn, params = gc.convert(tf_fn, X)
  assert set(params) == {"dense/kernel", "dense/bias", "count", "scale"}
  np.testing.assert_allclose(fn(params, X)[0]["y"], tf_fn(X)["y"], rtol=1e-6)
  x = tf.constant(X)
  with tf.GradientTape() as tape:
    tape.watch(x)
    loss = tf.reduce_sum(tf_fn(x)["y"] ** 2)
  params = jax.tree.map(np.asarray, params)
  ours = jax.grad(lambda p, x: jnp.sum(fn(p, x)[0]["y"] ** 2), argnums=(0, 1))(params, X)
  np.testing.assert_allclose(ours[1], tape.gradient(loss, x), rtol=1e-5)
  # TensorFlow has no objects for the reference variables, so their derivatives come from the model written in JAX.
  expected = jax.grad(lambda p: jnp.sum((jnp.tanh(X * 2 @ p["dense/kernel"] + p["dense/bias"]) * p["scale"]) ** 2))(
    params
  )
  for name in ("dense/kernel", "dense/bias", "scale"):
    np.testing.assert_allclose(ours[0][name], expected[name], rtol=1e-5)
