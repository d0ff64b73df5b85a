"""Functions called with arrays of another type than they were converted for, against TensorFlow in float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(0.25, 2, 6, dtype=np.float32).reshape(2, 3)
W = np.float32([1.5, 0.5, -2])

# Values that bfloat16 holds, and steps that stay exact in float32, so that only the promotion is put to the test.
_FUNCTIONS = {
  "operators": lambda x: x / W + W / x + x**W + tf.maximum(x, W) + x @ tf.linalg.diag(W),
  "convolution": lambda x: tf.nn.conv1d(x[None], W[:, None, None] * tf.ones([3, 3, 2]), 1, "SAME"),
  "stack": lambda x: tf.stack([x[0], W]),
  "loop": lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * W), [0, x])[1],
  "loop of unknown length": lambda x: tf.while_loop(lambda y: tf.reduce_max(y) < 9.0, lambda y: (y * tf.abs(W),), [x])[
    0
  ],
  "branches": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: x * W),
  "scan": lambda x: tf.scan(lambda total, row: total + row * W, x),
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_half_precision_meets_the_constants_of_a_float32_function(name):
  tf_fn = tf.function(_FUNCTIONS[name])
  fn = gc.convert_functional(tf_fn, X)
  x = jnp.asarray(X, jnp.bfloat16)
  exact = np.asarray(x, np.float32)
  np.testing.assert_allclose(np.asarray(fn(x), np.float32), tf_fn(tf.constant(exact)), rtol=1e-5)
  gradient = jax.grad(lambda x: jnp.sum(fn(x).astype(np.float32)))(x)
  with tf.GradientTape() as tape:
    point = tf.constant(exact)
    tape.watch(point)
    total = tf.reduce_sum(tf_fn(point))
  np.testing.assert_allclose(np.asarray(gradient, np.float32), tape.gradient(total, point), rtol=0.02)


def test_a_recurrent_layer_runs_in_bfloat16():
  layer = tf.keras.layers.LSTM(3)
  tf_fn = tf.function(lambda x: layer(x))
  expected = tf_fn(X[None])
  with gc.override_config("force_const_float32_to_bfloat16", True):
    fn, params = gc.convert(tf_fn, X[None])
  outputs, _ = fn(jax.tree.map(lambda p: jnp.asarray(p, jnp.bfloat16), params), jnp.asarray(X[None], jnp.bfloat16))
  np.testing.assert_allclose(np.asarray(outputs, np.float32), expected, atol=0.01)


def test_integers_are_floats_where_the_function_takes_floats():
  image = np.arange(16, dtype=np.int32).reshape(1, 4, 4, 1)
  kernel = np.full([2, 2, 1, 1], 0.25, np.float32)
  tf_fn = tf.function(lambda x: tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID"))
  fn = gc.convert_functional(tf_fn, tf.TensorSpec([1, 4, 4, 1]))
  np.testing.assert_allclose(fn(image), tf_fn(image.astype(np.float32)), rtol=1e-6)
  np.testing.assert_allclose(jax.jit(fn)(image), fn(image), rtol=1e-6)


def test_constants_of_float64_stay_whole_where_64_bit_types_were_off_before():
  exponents = np.array([[0.1, 1.5], [2.25, 3]])

  def powers(x):
    constant = tf.constant(exponents)
    return tf.pow(x, constant), tf.pow(tf.constant([[2.0], [3.0]], tf.float64), constant)

  x = np.array([[1.5, 2], [3, 4]])
  fn = gc.convert_functional(tf.function(powers), x)
  expected = powers(x)
  # JAX keeps the buffers of 32 bits as long as these two live.
  narrow = [jax.jit(lambda x: fn(x)), jax.jit(lambda x: fn(x))]
  for function in narrow:
    for result, right in zip(function(x), expected, strict=True):
      np.testing.assert_allclose(result, right, rtol=1e-6)
  with jax.enable_x64(True):
    for results in (fn(x), jax.jit(lambda x: fn(x))(x)):
      for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-15)


def test_calls_of_one_function_share_its_constants_of_float64():
  weights = np.random.default_rng(0).normal(size=(9, 9))
  layer = tf.function(lambda x: tf.tanh(tf.matmul(x, tf.constant(weights))))
  x = np.ones((2, 9))
  fn = gc.convert_functional(tf.function(lambda x: layer(layer(layer(x)))), x)
  for is_wide in (False, True):
    with jax.enable_x64(is_wide):
      assert len(jax.make_jaxpr(fn)(x).consts) == 1
