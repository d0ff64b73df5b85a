"""Loops that count up to a symbolic size, against TensorFlow at several sizes."""

import logging

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

pytestmark = pytest.mark.tensorflow


def _while(cond, body, *start, **options):
  return tf.while_loop(cond, body, start, **options)


def _fibonacci(x):
  n = tf.shape(x)[0]
  zero = tf.zeros([3])
  return _while(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b + x[i]), 0, zero, zero + 1)


def _up_to_and_with(x):
  n = tf.shape(x)[0]
  return _while(lambda i, j, s: n - 1 >= i, lambda i, j, s: (i + 1, j - 3, s * 0.5 + x[i]), 0, 7, tf.zeros([3]))


def _in_steps(x):
  n = tf.shape(x)[0]
  return _while(lambda i, s: tf.greater(n, i), lambda i, s: (i + 2, s * 0.5 + x[i]), 1, tf.zeros([3]))


def _at_most(x):
  n = tf.shape(x)[0]
  return _while(lambda i, s: i < n, lambda i, s: (i + 1, s * 0.5 + x[i]), 0, tf.zeros([3]), maximum_iterations=4)


def _over_range(x):
  s = tf.zeros([3])
  for i in tf.range(tf.shape(x)[0]):
    s = s * 0.5 + x[i] * tf.cast(i, tf.float32)
  return s


def _over_rows(x, size=None, **options):
  rows = tf.TensorArray(tf.float32, tf.shape(x)[0] if size is None else size, element_shape=[3], **options)
  i = 0
  for row in x:
    rows = rows.write(i, tf.sin(row))
    i += 1
  return rows.stack()


def _mapped(x):
  return tf.map_fn(lambda row: tf.cumsum(row), x), tf.scan(lambda a, b: a * 0.5 + b, x, tf.zeros([3]))


def _scanned(x):
  return tf.scan(lambda a, b: a * 0.5 + b, x)


def _recurrent(x):
  kernel = tf.reshape(tf.range(9.0) / 9, [3, 3])
  return tf.keras.backend.rnn(
    lambda a, s: 2 * [tf.tanh(a + s[0] @ kernel)], x[None], [tf.zeros([1, 3])], go_backwards=True
  )


def _in_loops(x):
  n = tf.shape(x)[0]

  def row(i, s):
    return i + 1, _while(lambda j, s: j < n, lambda j, s: (j + 1, s * 0.9 + x[j] * x[i]), 0, s)[1]

  return _while(lambda i, s: i < n, row, 0, tf.zeros([3]))


def _until_data(x):
  n = tf.shape(x)[0]
  return _while(lambda i, s: i < n and tf.reduce_sum(s) < 2.0, lambda i, s: (i + 1, s + x[i]), 0, tf.zeros([3]))


def _in_powers(x):
  n = tf.shape(x)[0]
  return _while(lambda i, s: i < n, lambda i, s: (2 * i + 1, s * 0.5 + x[i]), 0, tf.zeros([3]))


def _by_data(x):
  n = tf.shape(x)[0]
  step = lambda i: i + tf.cast(x[i, 0] > 0.5, tf.int32) + 1  # noqa: E731
  return _while(lambda i, s: i < n, lambda i, s: (step(i), s * 0.5 + x[i]), 0, tf.zeros([3]))


def _slower_later(x):
  n = tf.shape(x)[0]
  return _while(lambda i, s: i < n, lambda i, s: (i + 2 - tf.minimum(i, 1), s * 0.5 + x[i]), 0, tf.zeros([3]))


_TABLE = tf.constant([1.0, 2.0, 3.0, 4.0])


def _five_times(x):
  n = tf.cast(tf.shape(x)[0], tf.float32)
  rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[3])
  i = tf.constant(0)
  while i < 5:
    rows = rows.write(i, x[0] * n)
    j = tf.constant(0)
    while j < i:
      x = x * 0.9 + 0.1 * n
      j += 1
    i += 1
  return rows.stack()


def _with_constants(x):
  n = tf.shape(x)[0]

  def step(i, k, s):
    table = _TABLE[i % 4] + tf.cast(tf.range(n)[i], tf.float32) + tf.zeros([n, 3])[i]
    return i + 1, 7, s * 0.5 + x[i] * table

  _, k, s = _while(lambda i, k, s: i < n, step, 0, 3, tf.zeros([3]))
  return s * tf.cast(k, tf.float32)


def _check(function, caplog):
  """Compares values and a derivative at several sizes; returns what the loops became."""
  tf_fn = tf.function(function, input_signature=[tf.TensorSpec([None, 3])])
  x = np.random.default_rng(0).uniform(size=(9, 3)).astype(np.float32)
  tf_fn(x)  # makes variables
  fn = gc.convert_functional(tf_fn)
  spec = jax.ShapeDtypeStruct((jax.export.symbolic_shape("n")[0], 3), np.float32)
  caplog.set_level(logging.INFO, "graftax.loops")
  exported = jax.export.export(jax.jit(fn))(spec)
  forms = {record.args[1].split(" of ")[0] for record in caplog.records}
  derivative = jax.export.export(jax.jit(jax.grad(lambda x: _sum(fn(x)))))(spec)
  for size in (1, 2, 3, 9):
    jax.tree.map(
      lambda got, want: np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6),
      tuple(exported.call(x[:size])) if isinstance(exported.call(x[:size]), tuple) else exported.call(x[:size]),
      jax.tree.map(lambda t: t.numpy(), tf_fn(x[:size])),
    )
    variable = tf.constant(x[:size])
    with tf.GradientTape() as tape:
      tape.watch(variable)
      total = _sum(tf_fn(variable), tf)
    want = tf.convert_to_tensor(tape.gradient(total, variable))
    np.testing.assert_allclose(derivative.call(x[:size]), want, rtol=1e-5, atol=1e-6)
  return forms


def _slow(function):
  """Marks a function that finds little that the first ones do not."""
  return pytest.param(function, marks=pytest.mark.slow)


def _sum(results, module=None):
  reduce = module.reduce_sum if module else jax.numpy.sum
  return sum(reduce(leaf * leaf) for leaf in jax.tree.leaves(results) if leaf.dtype == np.float32)


_SLOW = [_with_constants, _up_to_and_with, _over_range, _over_rows, _mapped, _in_loops]


@pytest.mark.parametrize("function", [_fibonacci, _at_most, _recurrent, *map(_slow, _SLOW)])
def test_loops_up_to_a_symbolic_size_are_scans(function, caplog):
  assert _check(function, caplog) == {"a scan"}


@pytest.mark.parametrize(
  "function", [_until_data, _slower_later, *map(_slow, [_in_powers, _by_data, _in_steps, _scanned])]
)
def test_other_loops_and_those_that_may_have_no_iteration_are_no_scans(function, caplog):
  assert "a scan" not in _check(function, caplog)


def test_a_list_that_grows_by_index_has_room_for_a_symbolic_number_of_elements():
  tf_fn = tf.function(lambda x: _over_rows(x, 0, dynamic_size=True), input_signature=[tf.TensorSpec([None, 3])])
  fn = gc.convert_functional(tf_fn)
  spec = jax.ShapeDtypeStruct((jax.export.symbolic_shape("n")[0], 3), np.float32)
  rows = jax.export.export(jax.jit(fn))(spec).call(np.ones((4, 3), np.float32))
  assert rows.lengths[0] == 4
  np.testing.assert_allclose(rows.padded, np.sin(np.ones((4, 3), np.float32)), rtol=1e-6)


def test_a_number_of_iterations_stays_one_beside_a_symbolic_size(caplog):
  reason = "unrolled iterations: an inner loop is counted only with known counters"
  assert _check(_five_times, caplog) == {reason, "a scan"}
