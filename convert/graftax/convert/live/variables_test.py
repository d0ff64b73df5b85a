"""Variables of live functions, however TensorFlow hands them over; with TensorFlow as the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_a_raw_handle_is_the_variable_under_its_name():
  table = tf.Variable(ROWS, name="table")

  @tf.function
  def tf_fn(indices):
    rows = tf.raw_ops.ResourceGather(resource=table.handle, indices=indices, dtype=tf.float32)
    return rows * tf.raw_ops.ReadVariableOp(resource=table.handle, dtype=tf.float32)[1]

  indices = np.array([2, 0], np.int32)
  fn, params = gc.convert(tf_fn, indices)
  assert params["table"].name == "table:0"
  np.testing.assert_allclose(jax.jit(fn)(params, indices)[0], tf_fn(indices))
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf_fn(indices) ** 2)
  # TensorFlow watches no variable that is read by its handle, so the derivative comes from the same function of it.
  assert tape.gradient(loss, table) is None

  def loss_of(value):
    return jnp.sum((value[indices] * value[1]) ** 2)

  got = jax.grad(lambda p: jnp.sum(fn(p, indices)[0] ** 2))({"table": ROWS})
  np.testing.assert_allclose(got["table"], jax.grad(loss_of)(ROWS))


def test_a_raw_handle_and_the_variable_itself_are_one_parameter():
  count = tf.Variable(1.0, name="count")
  copy = tf.identity(count.handle)

  @tf.function
  def tf_fn(x):
    # TensorFlow orders only what goes through the same handle tensor by itself.
    with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=copy, value=x)]):
      return count + 1.0

  fn, params = gc.convert(tf_fn, 0.0)
  output, new_params = fn(params, 5.0)
  assert (list(params), float(output), float(new_params["count"])) == (["count"], 6.0, 5.0)
  assert float(tf_fn(5.0)) == 6.0


def test_raw_handles_of_variables_of_one_name_are_told_apart():
  first, second = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="v")
  handles = [first.handle, second.handle, tf.identity(first.handle)]
  fn, params = gc.convert(lambda: [tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32) for h in handles])
  assert {name: float(value) for name, value in params.items()} == {"v": 1.0, "v_1": 2.0}
  assert [float(value) for value in fn(params)[0]] == [1.0, 2.0, 1.0]


def test_a_handle_that_tensorflow_does_not_name_is_named_after_the_parameter_of_the_graph():
  handle = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[2], shared_name="unnamed")
  tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant([3, 4]))
  fn, params = gc.convert(lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.int32))
  assert list(params) == ["readvariableop_resource"]
  np.testing.assert_array_equal(fn(params)[0], [3, 4])


def test_a_variable_without_a_value_is_not_a_parameter():
  handle = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[2], shared_name="empty")
  with pytest.raises(NotImplementedError, match="'readvariableop_resource', of a kind that only ReadVariableOp reads"):
    gc.convert(lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.int32))


def test_a_variable_that_only_a_derivative_reads_is_a_parameter():
  factor, slope = tf.Variable(3.0, name="factor"), tf.Variable(5.0, name="slope")

  @tf.custom_gradient
  def scaled(x):
    def gradient(dy, variables=()):
      return dy * slope, [dy * x for _ in variables]

    return x * factor, gradient

  tf_fn = tf.function(lambda x: scaled(x))
  fn, params = gc.convert(tf_fn, 0.0)
  assert list(params) == ["factor", "slope"]
  x = tf.constant(2.0)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf_fn(x)
  expected = tape.gradient(y, [factor, x])
  got = jax.grad(lambda p, x: fn(p, x)[0], argnums=(0, 1))(jax.tree.map(np.asarray, params), 2.0)
  np.testing.assert_allclose([got[0]["factor"], got[1]], expected)


def test_variables_as_arguments_are_parameters_that_are_read_and_written():
  total, scale = tf.Variable([1.0, 2.0], name="total"), tf.Variable(3.0, name="scale", trainable=False)

  @tf.function
  def tf_fn(x, variables, power=2, *, again=None):
    variables["total"].assign_add(x * variables["rest"][0])
    return variables["total"] ** power + (0.0 if again is None else again)

  x = np.float32([4, 5])
  call = {"total": total, "rest": [scale]}
  fn, params = gc.convert(tf_fn, x, call, again=total)
  assert (set(params), params["scale"].trainable) == ({"total", "scale"}, False)
  places = {"total": None, "rest": [None]}
  for _ in range(2):
    output, params = jax.jit(lambda p: fn(p, x, places, again=None))(params)
    np.testing.assert_allclose(output, tf_fn(x, call, again=total))
    np.testing.assert_allclose(params["total"], total)
  with pytest.raises(gc.InputError, match="'variables.rest.0': got 3.0, .*the variable 'scale:0'.*Pass None"):
    fn(params, x, {"total": None, "rest": [3.0]}, again=None)


def test_variables_as_arguments_have_derivatives():
  kernel, bias = tf.Variable(ROWS, name="w"), tf.Variable([0.5, -0.5], name="w")

  def tf_fn(x, variables):
    if tf.reduce_sum(x) > 0:  # AutoGraph's
      return tf.tanh(x @ variables[0] + variables[1])
    return x @ variables[0]

  x = np.float32([[0.1, 0.2, 0.3]])
  fn, params = gc.convert(tf_fn, x, [kernel, bias])
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.function(tf_fn)(x, [kernel, bias]) ** 2)
  expected = tape.gradient(loss, [kernel, bias])
  params = jax.tree.map(np.asarray, params)
  got = jax.grad(lambda p: jnp.sum(fn(p, x, [None, None])[0] ** 2))(params)
  for name, value in params.items():
    np.testing.assert_allclose(got[name], expected[0 if value.ndim == 2 else 1], rtol=1e-5)
