"""Loops whose bodies need values or shapes: they run step by step outside of transforms; inside, sizes need bounds."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.graphdef_ir.errors import UnsupportedError

X = np.asarray([0.3, 2.5, 1.7, 0.1, 3.2, 0.9], np.float32)


def _masked_until_few_are_left(x):
  """The size of the array depends on its values."""

  def halve(kept):
    return (tf.boolean_mask(kept, kept > tf.reduce_mean(kept)),)

  return tf.while_loop(lambda kept: tf.size(kept) > 1, halve, [x], shape_invariants=[tf.TensorShape([None])])[0]


def _greedy_suppression(x):
  """As detection models write it for each class: the highest score removes those near it."""

  def select(scores, kept):
    best = tf.argmax(scores)
    kept = kept.write(kept.size(), scores[best])
    return tf.boolean_mask(scores, tf.abs(scores - scores[best]) > 0.5), kept

  kept = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[])
  shapes = [tf.TensorShape([None]), tf.TensorShape(None)]
  return tf.while_loop(lambda scores, _: tf.size(scores) > 0, select, [x, kept], shape_invariants=shapes)[1].stack()


def _slice_of_traced_size(x):
  def step(i, total):
    size = 1 + tf.cast(tf.reduce_sum(x[: i + 1]), tf.int32) % 3
    return i + 1, total + tf.reduce_sum(tf.slice(x, [i], tf.stack([size])))

  return tf.while_loop(lambda i, total: total < 12.0, step, [0, 0.0])[1]


def _nested(x):
  def outer(i, y):
    inner = tf.while_loop(lambda z: tf.size(z) > i, lambda z: (z[1:] + 0.1,), [y], [tf.TensorShape([None])])[0]
    return i - 1, tf.concat([inner, inner * 2.0], 0)

  return tf.while_loop(
    lambda i, y: i > 0,
    outer,
    [tf.cast(x[1], tf.int32), x],
    shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
  )[1]


_FUNCTIONS = {f.__name__.strip("_"): f for f in (_masked_until_few_are_left, _greedy_suppression, _nested)}


@pytest.mark.parametrize("name", [*_FUNCTIONS, "slice_of_traced_size"])
def test_sizes_that_depend_on_data_are_tensorflows(name):
  function = tf.function(_FUNCTIONS.get(name, _slice_of_traced_size))
  fn, params = gc.convert(function, X)
  np.testing.assert_allclose(fn(params, X)[0], function(X), rtol=1e-6)


# Under jit, an array that only shrinks has a bound.
@pytest.mark.parametrize("name", ["greedy_suppression", "nested"])
def test_they_are_refused_under_jit(name):
  fn, params = gc.convert(tf.function(_FUNCTIONS[name]), X)
  with pytest.raises(UnsupportedError):
    jax.jit(fn)(params, X)


def test_an_array_that_grows_under_jit_needs_the_option_that_the_error_names():
  def grown(x):
    shapes = [tf.TensorShape([None, 3]), tf.TensorShape([3])]

    def add(rows, row):
      return tf.concat([rows, row[tf.newaxis]], 0), tf.reduce_sum(rows * rows, 0) + row * 1.5

    return tf.while_loop(lambda rows, row: tf.reduce_sum(row) < 100.0, add, [tf.zeros([0, 3]), x], shapes)

  x = np.ones(3, np.float32)
  with pytest.raises(UnsupportedError, match=r"option max_sizes=\{'while': n\}"):
    jax.jit(gc.convert_functional(tf.function(grown), x))(x)
  with gc.override_config("max_sizes", {"while": 9}):
    rows, row = jax.jit(gc.convert_functional(tf.function(grown), x))(x)
  expected_rows, expected_row = grown(x)
  np.testing.assert_allclose(rows.cut(), expected_rows, rtol=1e-6)
  np.testing.assert_allclose(row, expected_row, rtol=1e-6)


@pytest.mark.parametrize("transform", [lambda fn: fn, jax.jit], ids=["eager", "jit"])
def test_a_counter_can_be_a_size(transform):
  def triangle(x):
    return tf.while_loop(
      lambda i, total: i < 5, lambda i, total: (i + 1, total + tf.reduce_prod(x[: i + 1])), [0, tf.constant(0.0)]
    )[1]

  function = tf.function(triangle)
  fn, params = gc.convert(function, X)
  np.testing.assert_allclose(transform(fn)(params, X)[0], function(X), rtol=1e-6)


def _until_the_counter_is_the_size(x):
  return tf.while_loop(
    lambda i, y: i < tf.size(y), lambda i, y: (i + 1, y[1:] * 2.0), [0, x], [tf.TensorShape([]), tf.TensorShape([None])]
  )


def _shrinking_inside(x):
  """The inner loop's length counts for the outer loop, and depends on a size that changes."""

  def outer(i, y):
    j, y = tf.while_loop(
      lambda j, y: j < tf.size(y), lambda j, y: (j + 1, y[1:]), [0, y], [tf.TensorShape([]), tf.TensorShape([None])]
    )
    return i + j, tf.concat([y, y], 0)

  return tf.while_loop(lambda i, y: i < 8, outer, [0, x], [tf.TensorShape([]), tf.TensorShape([None])])


@pytest.mark.parametrize("transform", [lambda fn: fn, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("loop", [_until_the_counter_is_the_size, _shrinking_inside], ids=["one", "nested"])
def test_a_size_that_shrinks_ends_the_loop(loop, transform):
  function = tf.function(loop)
  fn, params = gc.convert(function, X)
  (count, rest), _ = transform(fn)(params, X)
  expected_count, expected = function(X)
  assert count == expected_count.numpy()
  np.testing.assert_array_equal(rest, expected)


@pytest.mark.parametrize("transform", [lambda fn: fn, jax.jit], ids=["eager", "jit"])
def test_a_condition_sees_what_the_body_assigns(transform):
  total = tf.Variable(0.0)

  @tf.function
  def add_until(x):
    total.assign(x)
    count = tf.while_loop(lambda i: total < 10.0, lambda i: (total.assign_add(1.5) * 0.0 + i + 1.0,), [0.0])
    return count[0], total.read_value()

  fn, params = gc.convert(add_until, np.float32(2.5))
  results, new_params = transform(fn)(params, np.float32(2.5))
  np.testing.assert_array_equal(results, [t.numpy() for t in add_until(2.5)])
  assert list(new_params.values()) == [10.0]


def test_a_condition_that_assigns_is_refused():
  total = tf.Variable(0.0)

  @tf.function
  def count(x):
    return tf.while_loop(lambda i: total.assign_add(i) < 10.0, lambda i: (i + 1.0,), [x])

  fn, params = gc.convert(count, np.float32(1.0))
  with pytest.raises(UnsupportedError, match=r"the condition '\S+' assigns variables; assign them in the body"):
    fn(params, np.float32(1.0))
