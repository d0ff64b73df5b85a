"""Tests what TF2JAX 0.3.8 was measured to reject or to compute wrongly: one test per gap, TensorFlow as the oracle.

Gaps with a test file of their own have only a short test here, so that this list is complete.
"""

import pickle
import threading

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.ops_jax import register, supported_ops

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def _check(tf_fn, *args, gradient=True, rtol=1e-4, atol=1e-5):
  """Checks values under jit, and the gradient with respect to the first argument."""
  tf_fn = tf.function(tf_fn)
  fn = gc.convert_functional(tf_fn, *args)
  np.testing.assert_allclose(jax.jit(fn)(*args), tf_fn(*args), rtol=rtol, atol=atol)
  if gradient:
    with tf.GradientTape() as tape:
      x = tf.constant(args[0])
      tape.watch(x)
      loss = tf.reduce_sum(tf_fn(x, *args[1:]) * 0.7)
    got = jax.jit(jax.grad(lambda *a: (fn(*a) * 0.7).sum()))(*args)
    np.testing.assert_allclose(got, tape.gradient(loss, x), rtol=rtol, atol=atol)


@pytest.mark.parametrize(
  "tf_fn",
  [lambda x: tf.nn.silu(tf.nn.silu(x)), lambda x: tf.nn.silu(x) + tf.nn.silu(-x)],
  ids=["in sequence", "in parallel"],
)
def test_swish_twice(tf_fn):
  _check(tf_fn, X)


LAYERS = {
  "LSTM": (lambda: keras.layers.LSTM(4), (2, 5, 3)),
  "GRU": (lambda: keras.layers.GRU(4), (2, 5, 3)),
  "ConvLSTM2D": (lambda: keras.layers.ConvLSTM2D(2, 3, padding="same"), (1, 3, 5, 5, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_with_unknown_batch_have_gradients(name):
  make, shape = LAYERS[name]
  layer = make()
  x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
  layer(x)
  tf_fn = tf.function(lambda x: layer(x))
  fn, params = gc.convert(tf_fn, tf.TensorSpec([None, *shape[1:]]))
  np.testing.assert_allclose(jax.jit(fn)(params, x)[0], tf_fn(x), rtol=1e-4, atol=1e-5)
  got = jax.jit(jax.grad(lambda p: (fn(p, x)[0] ** 2).sum()))(params)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf_fn(x) ** 2)
  variables = [v.value for v in layer.trainable_variables]
  for variable, expected in zip(variables, tape.gradient(loss, variables), strict=True):
    np.testing.assert_allclose(got[variable.name.removesuffix(":0")], expected, rtol=1e-3, atol=1e-4)


LOOPS = {
  "map_fn": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * row, x),
  "foldl": lambda x: tf.foldl(lambda a, row: tf.sin(a + row), x),
  "scan": lambda x: tf.scan(lambda a, row: tf.tanh(a + row), x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_over_rows_have_gradients(name):
  _check(LOOPS[name], X)


def test_a_train_step_with_gradients_in_the_graph():
  kernel = tf.Variable(np.random.default_rng(0).normal(size=(3, 3, 1, 4)).astype(np.float32), name="kernel")
  bias = tf.Variable(tf.zeros([4]), name="bias")
  dense = tf.Variable(np.random.default_rng(1).normal(size=(16, 2)).astype(np.float32), name="dense")
  variables = [kernel, bias, dense]

  @tf.function
  def step(images, labels):
    with tf.GradientTape() as tape:
      x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, kernel, 1, "SAME"), bias))
      x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), [-1, 16])
      loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x @ dense))
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
      variable.assign_sub(0.1 * gradient)
    return loss

  images = np.random.default_rng(2).normal(size=(3, 4, 4, 1)).astype(np.float32)
  labels = np.array([0, 1, 1], np.int32)
  fn, params = gc.convert(step, images, labels)
  for _ in range(2):
    loss, params = jax.jit(fn)(params, images, labels)
    np.testing.assert_allclose(loss, step(images, labels), rtol=1e-5)
  for variable in variables:
    np.testing.assert_allclose(params[variable.name.removesuffix(":0")], variable, rtol=1e-4, atol=1e-6)


def test_signatures_and_concrete_functions_convert(tmp_path):
  module = tf.Module()
  module.v = tf.Variable(2.0, name="v")
  module.f = tf.function(lambda x: {"y": x * module.v})
  concrete = module.f.get_concrete_function(tf.TensorSpec([None, 3]))
  tf.saved_model.save(module, str(tmp_path), signatures=concrete)
  restored = tf.saved_model.load(str(tmp_path))
  for function, call in [(restored.signatures["serving_default"], {"x": X}), (concrete, {"x": X})]:
    fn, params = gc.convert(function)
    np.testing.assert_allclose(fn(params, **call)[0]["y"], X * 2)


def test_a_restored_function_with_several_traces_converts_by_example(tmp_path):
  module = tf.Module()
  module.f = tf.function(lambda x: x * 2)
  module.f(tf.ones([3]))
  module.f(tf.ones([2], tf.int32))
  tf.saved_model.save(module, str(tmp_path))
  restored = tf.saved_model.load(str(tmp_path))
  fn = gc.convert_functional(restored.f, np.ones(3, np.float32))
  np.testing.assert_allclose(fn(np.ones(3, np.float32)), 2 * np.ones(3))


@pytest.mark.parametrize("op", [tf.cumsum, tf.math.cumprod])
@pytest.mark.parametrize("axis", [-1, -2, 0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_exclusive_cumulative_ops_with_negative_axis(op, axis, reverse):
  _check(lambda x: op(x, axis=axis, exclusive=True, reverse=reverse), X + 2)


@pytest.mark.parametrize("size", [5, 7])
def test_transposed_convolution_to_odd_same_sizes(size):
  kernel = np.random.default_rng(0).normal(size=(3, 3, 2, 3)).astype(np.float32)
  x = np.random.default_rng(1).normal(size=(1, (size + 1) // 2, (size + 1) // 2, 3)).astype(np.float32)
  _check(lambda x: tf.nn.conv2d_transpose(x, kernel, [1, size, size, 2], 2, "SAME"), x)


@pytest.mark.parametrize("seed", [[1, 2], [2, 1]])
def test_stateless_random_numbers_are_tensorflows(seed):
  fn = gc.convert_functional(tf.function(lambda s: tf.random.stateless_uniform([7], s)), np.array(seed, np.int32))
  expected = tf.random.stateless_uniform([7], seed)
  np.testing.assert_array_equal(jax.jit(fn)(np.array(seed, np.int32)), expected)


def test_eager_int_input_times_captured_float_stays_float32():
  fn = gc.convert_functional(tf.function(lambda x: x * tf.constant(2.5)), np.float32(1))
  assert fn(np.int32(3)).dtype == jnp.float32


def test_eigh_gradient_is_tensorflows():
  def tf_fn(x):
    values, vectors = tf.linalg.eigh(x @ tf.transpose(x) + tf.linalg.diag([1.0, 2.0, 3.0, 4.0]))
    return tf.reduce_sum(values**2) + tf.reduce_sum(tf.abs(vectors) @ tf.constant(X))

  _check(tf_fn, X, rtol=1e-3, atol=1e-3)


def test_assignment_inside_cond_and_while():
  variable = tf.Variable(1.0, name="v")

  @tf.function
  def tf_fn(x):
    if tf.reduce_sum(x) > 0:
      variable.assign_add(1.0)
    for _ in tf.range(3):
      variable.assign(variable * 2.0)
    return x * variable

  fn, params = gc.convert(tf_fn, X)
  got, new_params = jax.jit(fn)(params, X + 1)
  np.testing.assert_allclose(got, tf_fn(X + 1))
  np.testing.assert_allclose(new_params["v"], variable)


def _growing_array(x):
  array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[3])
  for i in tf.range(4):
    array = array.write(i, x[i] * 2.0)
  return tf.reduce_sum(array.gather([0, 2])) + array.concat()


def test_tensor_arrays_grow_gather_and_concatenate():
  _check(_growing_array, X)


def test_tensor_list_concat():
  handle_fn = lambda x: tf.raw_ops.TensorListConcatV2(  # noqa: E731
    input_handle=tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[3]),
    element_shape=[3], leading_dims=np.zeros([0], np.int64), element_dtype=tf.float32,
  )[0]  # fmt: skip
  _check(handle_fn, X)


def test_placeholder_with_default_and_print():
  def tf_fn(x):
    tf.print("x is", x)
    return tf.raw_ops.PlaceholderWithDefault(input=x * 2.0, shape=[4, 3]) + 1.0

  _check(tf_fn, X)


def test_py_function_raises_with_its_name_before_anything_runs():
  ran = []
  tf_fn = tf.function(lambda x: tf.py_function(lambda v: ran.append(1) or v, [x], tf.float32))
  with pytest.raises(NotImplementedError, match="EagerPyFunc x1") as refused:
    gc.convert_functional(tf_fn, X)
  assert "Run them yourself" in str(refused.value) and "SavedModel.split" not in str(refused.value)
  assert not ran


def test_results_and_variables_pickle():
  variable = tf.Variable(2.0, name="v", trainable=False)
  fn, params = gc.convert(tf.function(lambda x: x * variable), X)
  again, params_again = pickle.loads(pickle.dumps((fn, params)))
  np.testing.assert_allclose(again(params_again, X)[0], X * 2)
  assert (params_again["v"].name, params_again["v"].trainable) == ("v:0", False)


def test_options_of_one_thread_are_not_those_of_another():
  seen = []
  with gc.override_config("convert_custom_gradient", False):
    thread = threading.Thread(target=lambda: seen.append(gc.get_config("convert_custom_gradient")))
    thread.start()
    thread.join()
  assert seen == [True]


def test_unsupported_ops_inside_a_branch_are_reported_at_conversion():
  tf_fn = tf.function(lambda x: tf.cond(x[0, 0] > 0, lambda: tf.strings.to_number(tf.strings.as_string(x)), lambda: x))
  with pytest.raises(NotImplementedError, match="AsString x1"):
    gc.convert_functional(tf_fn, X)


def test_registering_an_op_is_public():
  @register("KnownGapsTestOp")
  def lowering(x):
    return x * 2

  assert "KnownGapsTestOp" in supported_ops()


def test_stablehlo_in_a_graph_batches_and_differentiates_twice():
  from jax.experimental import jax2tf

  def jax_fn(x):
    return jnp.tanh(x @ x.T).sum(axis=1)

  fn = gc.convert_functional(tf.function(jax2tf.convert(jax_fn), autograph=False), X)
  np.testing.assert_allclose(fn(X), jax.jit(jax_fn)(X), rtol=1e-6)  # compiled, as in a graph
  np.testing.assert_allclose(jax.vmap(fn)(np.stack([X, X + 1])), jax.vmap(jax_fn)(np.stack([X, X + 1])), rtol=1e-5)
  second = [jax.grad(lambda x, f=f: jax.grad(lambda y: f(y).sum())(x)[0, 0])(X) for f in (fn, jax_fn)]
  np.testing.assert_allclose(*second, rtol=1e-4, atol=1e-5)
