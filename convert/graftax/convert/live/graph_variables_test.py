"""Restored TF1 models with reference variables and tables; with TensorFlow as the oracle."""

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


def _with_table(path, table, fill=None):
  """Returns a TF1 model that looks up a table, loaded by TensorFlow 2, and its signature."""
  with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.int64, [None], name="x")
    scale = v1.get_variable("scale", initializer=np.float32(2))
    made = table()
    filled = v1.tables_initializer() if fill is None else fill(made)
    session.run([scale.initializer, filled])
    found = made.lookup(x)
    numbers = tf.strings.to_number(found) if found.dtype == tf.string else found
    v1.saved_model.simple_save(
      session, str(path), {"x": x}, {"y": numbers * scale, "size": made.size()}, legacy_init_op=filled
    )
  model = tf.saved_model.load(str(path))
  return model, model.signatures["serving_default"]


def _static_table(values, default):
  keys = tf.constant([5, 3], tf.int64)
  return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values)), default)


def _mutable_table():
  return tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)


@pytest.mark.parametrize(
  ("table", "fill"),
  [
    (lambda: _static_table([50.0, 30.0], -1.0), None),
    (_mutable_table, lambda table: table.insert(tf.constant([5, 3], tf.int64), tf.constant([50.0, 30.0]))),
  ],
)
def test_tables_of_numbers_have_their_current_contents(tmp_path, table, fill):
  model, signature = _with_table(tmp_path / "m", table, fill)
  fn, params = gc.convert(signature)
  assert set(params) == {"scale"}
  x = np.array([3, 4, 5])
  outputs, want = jax.jit(fn)(params, x=x)[0], signature(x=tf.constant(x))
  np.testing.assert_array_equal(outputs["y"], [60, -2, 100])
  np.testing.assert_array_equal(outputs["y"], want["y"])
  np.testing.assert_array_equal(outputs["size"], want["size"])
  del model


def test_tables_of_text_raise_with_their_name(tmp_path):
  model, signature = _with_table(tmp_path / "m", lambda: _static_table(["1", "2"], "0"))
  with pytest.raises(NotImplementedError, match="'hash_table' has string values"):
    gc.convert(signature)
  del model


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
