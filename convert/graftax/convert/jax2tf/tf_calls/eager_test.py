"""Eager calls share memory with TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf

from graftax.convert import jax2tf

_MEGABYTES = 100


def _large() -> jax.Array:
  return jnp.arange(_MEGABYTES * 1024 * 256, dtype=jnp.float32)


def _tensor_address(tensor) -> int:
  return np.asarray(memoryview(tensor)).ctypes.data  # numpy() would copy


def _address(array: jax.Array) -> int:
  return array.unsafe_buffer_pointer()


def test_an_argument_of_100_mb_is_not_copied():
  x = _large()
  seen = []

  def f(tensor):
    seen.append(_tensor_address(tensor))
    return tf.constant(0.0)

  jax2tf.call_tf(f)(x)
  assert seen == [_address(x)]


def test_a_numpy_argument_is_copied_so_that_writing_into_it_changes_nothing():
  v = tf.Variable(tf.zeros([256, 256]))
  x = np.asarray(jnp.ones([256, 256])).copy()
  jax2tf.call_tf(lambda tensor: v.assign(tensor))(x)
  x[:] = 5.0
  np.testing.assert_array_equal(v, np.ones([256, 256]))


def test_a_result_of_100_mb_is_not_copied():
  seen = []

  def f(x):
    result = x + 1.0
    seen.append(_tensor_address(result))
    return result

  result = jax2tf.call_tf(f)(_large())
  assert [_address(result)] == seen
  assert float(result[-1]) == float(_large()[-1] + 1.0)


def test_an_argument_that_is_returned_is_the_same_memory():
  x = _large()
  assert _address(jax2tf.call_tf(lambda tensor: tensor)(x)) == _address(x)


def test_writing_a_variable_that_was_returned_does_not_change_the_result():
  v = tf.Variable(tf.ones([256, 256]))
  before = jax2tf.call_tf(lambda: v.read_value())()
  v.assign_add(tf.ones([256, 256]))
  v[0, 0].assign(7.0)
  np.testing.assert_array_equal(before, np.ones([256, 256]))


def test_writing_a_variable_that_was_assigned_does_not_change_the_argument():
  v = tf.Variable(tf.zeros([256, 256]))
  x = jnp.ones([256, 256])

  def assign(tensor):
    v.assign(tensor)

  assert jax2tf.call_tf(assign)(x) is None
  v.assign_add(tf.ones([256, 256]))
  v.scatter_nd_update([[0, 0]], [9.0])
  np.testing.assert_array_equal(x, np.ones([256, 256]))
  np.testing.assert_array_equal(v[1], np.full(256, 2.0))


def test_results_outlive_their_tensors():
  x = jnp.ones([1024, 1024])
  y = jax2tf.call_tf(lambda t: t * 3.0)(x)
  del x
  for _ in range(5):
    tf.random.uniform([1024, 1024]).numpy()
  np.testing.assert_array_equal(y, np.full([1024, 1024], 3.0))
