"""Conditionals, loops, tensor lists and recurrent layers against TensorFlow: values and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def _while_counter(x):
  return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.sin(y) + tf.cast(i, tf.float32)), [0, x])[1]


def _dynamic_array(x):
  array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
  for i in tf.range(6):
    array = array.write(i, x[0] * tf.cast(i, tf.float32))
  return array.stack()


def _array_written_backwards(x):
  array = tf.TensorArray(tf.float32, size=4, element_shape=[3])
  for i in tf.range(3, -1, -1):
    array = array.write(i, x[i] ** 2)
  return array.concat() + tf.reduce_sum(array.gather([1, 0, 3]))


def _nested_loops(x):
  total = tf.zeros([3])
  for i in tf.range(3):
    for j in tf.range(i + 1):
      total += x[j] * tf.cast(i, tf.float32)
  return total


def _early_exit(x):
  total = tf.constant(0.0)
  for i in tf.range(10):
    if tf.cast(i, tf.float32) > 4.0:
      break
    total += tf.reduce_sum(tf.exp(x)) * tf.cast(i, tf.float32)
  return total


def _cond_in_loop(x):
  y = x
  for i in tf.range(4):
    if i % 2 == 0:
      y = tf.sin(y)
    else:
      y = y * 2.0
  return y


DIFFERENTIABLE = {
  "if": lambda x: tf.cond(tf.reduce_sum(x) > 0.5, lambda: tf.sin(x), lambda: x * 2.0),
  "case": lambda x: tf.switch_case(tf.cast(tf.reduce_sum(x), tf.int32) + 1, [lambda: x, lambda: x * 2.0, lambda: x**2]),
  "case, negative index": lambda x: tf.switch_case(
    tf.cast(tf.reduce_sum(x) - 3.0, tf.int32), [lambda: x, lambda: x * 2.0]
  ),
  "while with a counter": _while_counter,
  "map_fn": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * row, x),
  "map_fn of two": lambda x: tf.map_fn(lambda ab: ab[0] * ab[1], (x, x + 1.0), fn_output_signature=tf.float32),
  "vectorized_map": lambda x: tf.vectorized_map(lambda row: tf.reduce_sum(row**2) * row, x),
  "foldl": lambda x: tf.foldl(lambda a, row: tf.sin(a + row), x),
  "foldr": lambda x: tf.foldr(lambda a, row: a * row, x),
  "scan": lambda x: tf.scan(lambda a, row: tf.tanh(a + row), x),
  "scan, reversed": lambda x: tf.scan(lambda a, row: a * row + 1.0, x, reverse=True),
  "dynamic array": _dynamic_array,
  "array written backwards": _array_written_backwards,
  "nested loops": _nested_loops,
  "early exit": _early_exit,
  "cond in loop": _cond_in_loop,
}


def _gradient(fn, x):
  with tf.GradientTape() as tape:
    t = tf.constant(x)
    tape.watch(t)
    loss = tf.reduce_sum(fn(t) * 1.5)
  return tape.gradient(loss, t)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_control_flow_equals_tensorflow_in_value_and_gradient(name):
  tf_fn = tf.function(DIFFERENTIABLE[name])
  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(jax.jit(fn)(X), tf_fn(X), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(fn(X), tf_fn(X), rtol=1e-5, atol=1e-6)
  gradient = jax.jit(jax.grad(lambda x: (fn(x) * 1.5).sum()))(X)
  np.testing.assert_allclose(gradient, _gradient(tf_fn, X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["if", "case", "while with a counter", "scan", "cond in loop"])
def test_control_flow_under_vmap_is_each_example_by_itself(name):
  tf_fn = tf.function(DIFFERENTIABLE[name])
  fn = gc.convert_functional(tf_fn, X)
  batch = np.stack([X, -X, X + 1])
  np.testing.assert_allclose(jax.vmap(fn)(batch), np.stack([tf_fn(x) for x in batch]), rtol=1e-5, atol=1e-6)


def test_a_loop_that_depends_on_data_runs_forward():
  @tf.function
  def tf_fn(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 100.0, lambda y: (y * 2.0,), [x])[0]

  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(jax.jit(fn)(X + 1), tf_fn(X + 1))
  tangent = jax.jvp(fn, (X + 1,), (jnp.ones_like(X),))[1]
  assert (np.asarray(tangent) == np.asarray(tangent)[0, 0]).all()


LAYERS = {
  "LSTM": lambda: tf.keras.layers.LSTM(5),
  "LSTM, sequences": lambda: tf.keras.layers.LSTM(5, return_sequences=True),
  "GRU": lambda: tf.keras.layers.GRU(5, return_sequences=True),
  "SimpleRNN": lambda: tf.keras.layers.SimpleRNN(5),
  "Bidirectional": lambda: tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(5, return_sequences=True)),
  "stacked cells": lambda: tf.keras.layers.RNN([tf.keras.layers.LSTMCell(4), tf.keras.layers.GRUCell(3)]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_equal_tensorflow_in_value_and_gradients(name):
  layer = LAYERS[name]()
  x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
  layer(x)
  tf_fn = tf.function(lambda x: layer(x))
  fn, params = gc.convert(tf_fn, tf.TensorSpec([None, 7, 3]))
  np.testing.assert_allclose(jax.jit(fn)(params, x)[0], tf_fn(x), rtol=1e-4, atol=1e-5)
  gradients = jax.jit(jax.grad(lambda p: (fn(p, x)[0] ** 2).sum()))(params)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf_fn(x) ** 2)
  variables = [v.value for v in layer.trainable_variables]
  for variable, expected in zip(variables, tape.gradient(loss, variables), strict=True):
    np.testing.assert_allclose(gradients[variable.name.removesuffix(":0")], expected, rtol=1e-3, atol=1e-4)


def test_assignments_inside_branches_and_loops_come_back():
  counter, average = tf.Variable(0.0, name="counter"), tf.Variable(1.0, name="average")

  @tf.function
  def tf_fn(x):
    for _ in tf.range(3):
      counter.assign_add(1.0)
      if tf.reduce_sum(x) > 0.0:
        average.assign(0.9 * average + 0.1 * tf.reduce_mean(x) * counter)
    return average + 0.0

  fn, params = gc.convert(tf_fn, X)
  for x in (X + 1, X - 1):
    counter.assign(0.0)
    average.assign(1.0)
    expected = tf_fn(x)
    got, new_params = jax.jit(fn)(params, x)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(new_params["counter"], counter)
    np.testing.assert_allclose(new_params["average"], average, rtol=1e-6)


def test_a_branch_that_only_reads_does_not_make_new_parameters():
  variable = tf.Variable(2.0, name="v")
  tf_fn = tf.function(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * variable, lambda: x))
  fn, params = gc.convert(tf_fn, X)
  assert fn(params, X)[1]["v"] is params["v"]


def test_batch_norm_statistics_come_back_from_training():
  layer = tf.keras.layers.BatchNormalization(momentum=0.9)
  layer(X)
  tf_fn = tf.function(lambda x: layer(x, training=True))
  fn, params = gc.convert(tf_fn, X)
  got, new_params = jax.jit(fn)(params, X * 3)
  np.testing.assert_allclose(got, tf_fn(X * 3), rtol=1e-4, atol=1e-5)
  for variable in layer.variables:
    np.testing.assert_allclose(new_params[variable.path], variable.numpy(), rtol=1e-5, atol=1e-6)


def _newton(x):
  return tf.while_loop(
    lambda y: tf.reduce_any(tf.abs(y * y - x) > 1e-4), lambda y: (0.5 * (y + x / y),), [x], maximum_iterations=20
  )[0]


def test_a_bounded_loop_has_reverse_mode_derivatives():
  tf_fn = tf.function(_newton)
  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(jax.jit(fn)(X + 3), tf_fn(X + 3), rtol=1e-6)
  gradient = jax.jit(jax.grad(lambda x: (fn(x) * 1.5).sum()))(X + 3)
  np.testing.assert_allclose(gradient, _gradient(tf_fn, X + 3), rtol=1e-5)


def test_an_option_bounds_a_loop_and_nan_tells_when_it_was_too_low():
  @tf.function
  def tf_fn(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 100.0, lambda y: (y * 2.0,), [x])[0]

  with gc.override_config("max_while_iterations", 8):
    fn = gc.convert_functional(tf_fn, X)
  gradient = jax.grad(lambda x: fn(x).sum())(X + 1)
  np.testing.assert_allclose(gradient, np.full_like(X, float(fn(X + 1)[0, 1] / (X + 1)[0, 1])))
  assert np.isnan(jax.jit(fn)(X * 1e-6 + 1e-6)).all()


def test_integers_and_variables_of_a_loop_that_is_not_done_are_not_half_finished():
  variable = tf.Variable(1.0)

  @tf.function
  def tf_fn(x):
    def body(y, n, b):
      variable.assign_add(1.0)
      return y * 2.0, n + 1, tf.logical_not(b)

    return tf.while_loop(lambda y, n, b: y < 100.0, body, [x, tf.constant(0), tf.constant(False)])

  with gc.override_config("max_while_iterations", 4):
    fn, params = gc.convert(tf_fn, np.float32(1))
  done, new_params = jax.jit(fn)(params, np.float32(20))
  np.testing.assert_allclose(done, [160, 3, True])
  assert list(new_params.values()) == [4]
  (_, count, truth), new_params = jax.jit(fn)(params, np.float32(1))
  assert (count, truth) == (np.iinfo(np.int32).min, True)
  assert np.isnan(list(new_params.values())).all()


def _growing(x):
  rows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
  last = 0
  for t in tf.range(5):
    x = x * 2.0
    rows = rows.write(t, x)
    last = t
    if tf.reduce_sum(x) > 10:
      break
  return rows.read(last), rows.size()


def _growing_in_steps(x):
  rows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
  t = 0
  while tf.reduce_sum(x) < 10:
    x = x * 2.0
    rows = rows.write(3 * t, x)
    t += 1
  return rows.read(3), rows.size()


def test_a_list_that_grows_until_a_break_has_room_for_the_whole_loop():
  tf_fn = tf.function(_growing)
  fn = gc.convert_functional(tf_fn, np.ones(3, np.float32))
  for start in (0.1, 1.0, 20.0):
    x = np.full(3, start, np.float32)
    for got, want in zip(jax.jit(fn)(x), tf_fn(x), strict=True):
      np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_list_written_beyond_the_room_of_a_bounded_loop_makes_its_results_invalid():
  tf_fn = tf.function(_growing_in_steps)
  with gc.override_config("max_while_iterations", 5):
    fn = gc.convert_functional(tf_fn, np.ones(3, np.float32))
  x = np.array([1.0, 1.0, 0.5], np.float32)
  np.testing.assert_allclose(jax.jit(fn)(x)[0], tf_fn(x)[0], rtol=1e-6)
  assert np.isnan(jax.jit(fn)(x / 2)[0]).all()


def _lengths_of_a_growing_list(x):
  no_axes = tf.constant([], tf.int32)
  rows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
  lengths = tf.raw_ops.EmptyTensorList(element_shape=no_axes, max_num_elements=-1, element_dtype=tf.int32)
  for t in tf.range(4):
    lengths = tf.raw_ops.TensorListPushBack(input_handle=lengths, tensor=rows.size())
    rows = rows.write(t, x)
  return tf.raw_ops.TensorListStack(input_handle=lengths, element_shape=no_axes, element_dtype=tf.int32)


def test_a_list_holds_the_lengths_of_a_list_that_grows():
  fn = gc.convert_functional(tf.function(_lengths_of_a_growing_list), X)
  np.testing.assert_array_equal(jax.jit(fn)(X), tf.function(_lengths_of_a_growing_list)(X))


def test_a_growing_list_of_unknown_length_says_what_helps():
  fn = gc.convert_functional(tf.function(_growing_in_steps), np.ones(3, np.float32))
  with pytest.raises(NotImplementedError, match="max_while_iterations"):
    jax.jit(fn)(np.ones(3, np.float32))


def test_lists_of_64_bit_numbers_without_64_bit_types():
  for tf_fn in (lambda v: tf.scan(lambda a, b: a + b**2, v), lambda v: tf.map_fn(lambda b: b * 2, v)):
    tf_fn = tf.function(tf_fn)
    fn = gc.convert_functional(tf_fn, tf.TensorSpec([None], tf.float64))
    np.testing.assert_allclose(fn(np.arange(5.0)), tf_fn(np.arange(5.0)), rtol=1e-6)


def _growing_until(x):
  while tf.reduce_sum(x) < 9.0:
    tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None, 2]))])
    x = tf.concat([x, tf.sin(x[-1:])], 0)
  return x


def test_arrays_grow_in_loops_of_known_length_and_others_say_what_helps():
  x = np.ones([1, 2], np.float32)
  loop = tf.function(
    lambda x: tf.while_loop(
      lambda i, y: i < 3,
      lambda i, y: (i + 1, tf.concat([y, tf.sin(y[-1:])], 0)),
      [0, x],
      shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
    )[1]
  )
  fn = gc.convert_functional(loop, x)
  np.testing.assert_allclose(jax.jit(jax.vmap(fn))(x[None])[0], loop(x), rtol=1e-6)
  fn = gc.convert_functional(tf.function(_growing_until), x)
  np.testing.assert_allclose(fn(x), tf.function(_growing_until)(x), rtol=1e-6)
  with pytest.raises(NotImplementedError, match=r"enters an iteration with shape \[1, 2\] and leaves it with \[2, 2\]"):
    jax.jit(fn)(x)


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "SimpleRNN"])
def test_products_of_the_inputs_of_a_recurrent_layer_are_computed_before_its_loop(cell):
  layer = getattr(tf.keras.layers, cell)(4)
  x = np.linspace(-1, 1, 2 * 6 * 3, dtype=np.float32).reshape(2, 6, 3)
  tf_fn = tf.function(lambda x: layer(x), autograph=False)
  fn, params = gc.convert(tf_fn, x)
  params = {name: jnp.asarray(value) for name, value in params.items()}
  np.testing.assert_allclose(jax.jit(fn)(params, x)[0], tf_fn(x), rtol=1e-5, atol=1e-6)
  (loop,) = [e for e in jax.make_jaxpr(fn)(params, x).eqns if e.primitive.name == "scan"]
  assert str(loop.params["jaxpr"]).count("dot_general") == 1
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf_fn(x) ** 2)
  found = jax.grad(lambda params: (fn(params, x)[0] ** 2).sum())(params)
  variables = layer.trainable_variables
  for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
    np.testing.assert_allclose(found[variable.path], slope, rtol=1e-4, atol=1e-5)
