"""Sizes that depend on data in name only."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.array([1, 4, 2, 2, 9], np.int32)

PROGRAMS = {
  "bincount": lambda x: tf.math.bincount(x, minlength=5, maxlength=5),
  "weights": lambda x: tf.math.bincount(x, tf.cast(x, tf.float32), minlength=6, maxlength=6),
  "of another dtype": lambda x: tf.zeros([tf.cast(tf.clip_by_value(tf.reduce_max(x), 3, 3), tf.int64)]),
  "bounds from shapes": lambda x: tf.zeros([tf.minimum(tf.maximum(x[0], tf.shape(x)[0]), tf.size(x))]),
  "of clipped elements": lambda x: tf.math.bincount(tf.reshape(tf.clip_by_value(x[None], 0, 4), [-1]), minlength=5),
  "of elements below others": lambda x: tf.zeros([tf.maximum(tf.reduce_max(tf.minimum(x, [2, 3, 1, 3, 2])), 3)]),
  "on the way": lambda x: tf.range(tf.maximum(tf.minimum(tf.minimum(x[0], 3), x[1]), 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_size_with_one_possible_value_is_known(name):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)
  for x in (X, X * 0, X + 3):
    np.testing.assert_array_equal(jax.jit(fn)(x), tf_fn(x))
  batch = np.stack([X, X + 1])
  np.testing.assert_array_equal(jax.vmap(fn)(batch), np.stack([tf_fn(x) for x in batch]))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.bool, tf.complex64, tf.uint8])
def test_clipped_integers_may_become_any_number(dtype):
  def function(x):
    return tf.cast(tf.clip_by_value(x, 0, 4), dtype), tf.cast(tf.minimum(x[0], 4), dtype)

  tf_fn = tf.function(function)
  for got, want in zip(jax.jit(gc.convert_functional(tf_fn, X))(X), tf_fn(X), strict=True):
    np.testing.assert_array_equal(got, want.numpy(), strict=True)


@pytest.mark.parametrize(
  "function",
  [
    lambda x: tf.zeros([tf.maximum(x[0], 3)]),
    lambda x: tf.zeros([tf.cast(tf.cast(tf.minimum(x[0], 300), tf.uint8), tf.int32)]),
    lambda x: tf.math.bincount(tf.maximum(x, 3), minlength=10),
  ],
  ids=["no upper bound", "may wrap", "no upper bound of elements"],
)
def test_a_size_without_a_bound_is_an_error(function):
  fn = gc.convert_functional(tf.function(function), X)
  with pytest.raises(NotImplementedError, match="no bound follows from shapes.*max_sizes"):
    jax.jit(fn)(X)


def _widths_of_a_loop(x):
  widths = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
  for i in tf.range(3):
    widths = widths.write(i, i + 1)
    x = tf.sin(x)
  return tf.reshape(x, widths.stack())


def _length_after_a_loop(x):
  length = tf.size(x) + tf.cast(x[0], tf.int32)
  for i in tf.range(3):
    length = i + 1
    x = tf.sin(x)
  return tf.fill([length], x[0])


@pytest.mark.parametrize("function", [_widths_of_a_loop, _length_after_a_loop])
def test_sizes_that_a_loop_over_data_leaves_are_known(function):
  x = np.float32([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
  tf_fn = tf.function(function)
  fn = gc.convert_functional(tf_fn, x)
  np.testing.assert_allclose(jax.jit(fn)(x), tf_fn(x), rtol=1e-6)
  np.testing.assert_allclose(jax.vmap(fn)(x[None]), tf_fn(x)[None], rtol=1e-6)
