"""Loops whose length depends on data: TensorFlow's gradients, without a bound for the length."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(0.4, 2.6, 6, dtype=np.float32).reshape(2, 3)


def _newton(x):
  return tf.while_loop(
    lambda y: tf.reduce_any(tf.abs(y * y - x) > 1e-3 * x), lambda y: (0.5 * (y + x / y),), [tf.ones_like(x)]
  )[0]


def _collatz(x):
  def step(m, y):
    is_even = m % 2 == 0
    return tf.where(is_even, m // 2, 3 * m + 1), tf.where(is_even, y / 2.0, 3.0 * y + x)

  number = tf.cast(tf.reduce_sum(x) * 3.0 + 2.3, tf.int32)
  return tf.while_loop(lambda m, y: m > 1, step, [number, x])[1]


def _nested(x):
  def outer(i, y):
    _, z = tf.while_loop(
      lambda j, z: tf.reduce_sum(z) < 20.0 + tf.cast(i, tf.float32), lambda j, z: (j + 1, z * 1.3 + 0.1 * x), [0, y]
    )
    return i + 1, 0.2 * z + tf.sin(x)

  return tf.while_loop(lambda i, y: tf.reduce_sum(x) * 0.3 + 1.0 > tf.cast(i, tf.float32), outer, [0, x])[1]


def _in_a_branch(x):
  return tf.cond(tf.reduce_sum(x) > 3.0, lambda: _newton(x) * x, lambda: tf.sin(x))


def _branch_inside(x):
  def step(y):
    return (tf.cond(tf.reduce_sum(y) < 20.0, lambda: y * 1.5 + x, lambda: y * y * 0.3 + 2.0),)

  return tf.while_loop(lambda y: tf.reduce_sum(y) < 200.0, step, [x])[0]


def _break(x):
  y, n = x, 0
  while tf.constant(True):
    y = y + 0.3 * tf.sin(y) + 0.4 * x
    n += 1
    if tf.reduce_max(y) > 3.5:
      break
  return y * tf.cast(n, tf.float32)


def _array(x):
  trace = tf.TensorArray(tf.float32, size=40, element_shape=[2, 3])
  y, n = x, 0
  while tf.reduce_sum(y) < 100.0:
    trace = trace.write(n, y * y)
    y = y * 1.3
    n += 1
  return tf.reduce_sum(trace.stack(), 0) + y


def _many_iterations(x):
  y = x
  while tf.reduce_sum(y) < 12.0:
    y = y + 0.004 * tf.sin(y * x) + 0.004
  return y


PROGRAMS = {
  "newton": _newton,
  "collatz": _collatz,
  "nested": _nested,
  "in a branch": _in_a_branch,
  "branch inside": _branch_inside,
  "break": _break,
  "array": _array,
  "many iterations": _many_iterations,
  "expm": lambda x: tf.linalg.expm(tf.matmul(x, x, transpose_a=True)),
}


def _gradient(fn, x):
  with tf.GradientTape() as tape:
    t = tf.constant(x)
    tape.watch(t)
    loss = tf.reduce_sum(fn(t) * 1.5)
  return tape.gradient(loss, t).numpy()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_tensorflows(name):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(jax.jit(fn)(X), tf_fn(X), rtol=1e-4, atol=1e-5)
  want = _gradient(tf_fn, X)
  gradient = jax.grad(lambda x: (fn(x) * 1.5).sum())
  np.testing.assert_allclose(jax.jit(gradient)(X), want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
  direction = np.cos(np.arange(6, dtype=np.float32)).reshape(2, 3)
  tangent = jax.jit(lambda x, t: jax.jvp(lambda x: (fn(x) * 1.5).sum(), (x,), (t,))[1])(X, direction)
  np.testing.assert_allclose(tangent, (want * direction).sum(), rtol=1e-3, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("name", ["newton", "collatz", "nested", "in a branch", "break"])
def test_each_example_of_a_batch_has_its_own_length(name):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)
  batch = np.stack([X, X * 0.3, X + 1])
  got = jax.jit(jax.vmap(jax.grad(lambda x: (fn(x) * 1.5).sum())))(batch)
  for one, x in zip(got, batch, strict=True):
    want = _gradient(tf_fn, x)
    np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("name", ["newton", "break", "branch inside"])
def test_second_derivatives_are_tensorflows(name):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)

  def loss(x):
    return (fn(x) * 1.5).sum()

  with tf.GradientTape() as tape:
    t = tf.constant(X)
    tape.watch(t)
    with tf.GradientTape() as inner:
      inner.watch(t)
      value = tf.reduce_sum(tf_fn(t) * 1.5)
    total = tf.reduce_sum(inner.gradient(value, t) * tf.sin(t))
  want = tape.gradient(total, t).numpy()
  reverse = jax.jit(jax.grad(lambda x: (jax.grad(loss)(x) * jax.numpy.sin(x)).sum()))(X)
  np.testing.assert_allclose(reverse, want, rtol=2e-3, atol=1e-3 * np.abs(want).max())
  hessian = jax.jit(jax.hessian(loss))(X)
  np.testing.assert_allclose(
    np.einsum("ijkl,ij->kl", hessian, np.sin(X)) + np.asarray(jax.grad(loss)(X)) * np.cos(X),
    want,
    rtol=2e-3,
    atol=1e-3 * np.abs(want).max(),
  )


def test_variables_are_differentiated_and_assigned_in_the_loop():
  rate, total = tf.Variable(0.3, name="rate"), tf.Variable(1.0, name="total")

  @tf.function
  def tf_fn(x):
    y = x
    while tf.reduce_sum(y) < 30.0:
      y = y * (1.0 + rate) + 0.1
      total.assign_add(tf.reduce_sum(y) * rate)
    return y

  fn, params = gc.convert(tf_fn, X)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf_fn(tf.constant(X)) ** 2)
  _, new_params = jax.jit(fn)(params, X)
  np.testing.assert_allclose(new_params["total"], total.numpy(), rtol=1e-5)
  gradients = jax.jit(jax.grad(lambda p: (fn(p, X)[0] ** 2).sum()))(params)
  np.testing.assert_allclose(gradients["rate"], tape.gradient(loss, rate), rtol=1e-4)
  # What TensorFlow's tape does not follow: the variable's new value is a function of the old ones.
  with gc.override_config("differentiate_assignments", True):
    fn, params = gc.convert(tf_fn, X)
  step = np.float32(1e-3)
  after = [float(fn(params | {"rate": params["rate"] + sign * step}, X)[1]["total"]) for sign in (-1, 1)]
  slope = jax.grad(lambda p: fn(p, X)[1]["total"])(params)
  np.testing.assert_allclose(slope["rate"], (after[1] - after[0]) / (2 * step), rtol=1e-2)
  np.testing.assert_allclose(slope["total"], 1.0)


def test_random_numbers_of_an_iteration_are_the_same_on_the_way_back():
  @tf.function
  def tf_fn(x):
    return tf.while_loop(
      lambda y: tf.reduce_sum(y) < 30.0, lambda y: (y * (1.0 + tf.random.uniform([2, 3])) + 0.1,), [x]
    )[0]

  fn = gc.convert_functional(tf_fn, X)

  def loss(x):
    return fn(x, rng=jax.random.key(0)).sum()

  step = np.zeros_like(X)
  step[0, 1] = 1e-2
  gradient = jax.jit(jax.grad(loss))(X)
  np.testing.assert_allclose(gradient[0, 1], (loss(X + step) - loss(X - step)) / 2e-2, rtol=1e-3)


def test_loops_of_tensorflow_1_too():
  tf1 = tf.compat.v1

  def build(x):
    return tf1.while_loop(lambda y: tf.reduce_sum(y) < 100.0, lambda y: y * 1.7 + x, [x])

  with tf.Graph().as_default() as graph:
    tf1.disable_control_flow_v2()
    try:
      x = tf1.placeholder(tf.float32, [2, 3], name="x")
      y = build(x)
      (gradient,) = tf1.gradients(y, x)
    finally:
      tf1.enable_control_flow_v2()
    with tf1.Session(graph=graph) as session:
      want, slope = session.run([y, gradient], {x: X})
    fn, params = gc.convert(graph.as_graph_def(), inputs=["x:0"], outputs=[y.name])
  np.testing.assert_allclose(fn(params, X)[0][0], want, rtol=1e-5)
  np.testing.assert_allclose(jax.grad(lambda x: fn(params, x)[0][0].sum())(X), slope, rtol=1e-4)
