"""Forward mode and second derivatives through tf.custom_gradient, as TensorFlow."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(-1.3, 1.2, 4, dtype=np.float32)
T = np.cos(np.arange(4, dtype=np.float32))
WEIGHT = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)


@tf.custom_gradient
def straight_through(x):
  return tf.round(x), lambda dy: dy


@tf.custom_gradient
def other_exp(x):
  e = tf.exp(x)
  return e, lambda dy: dy * tf.sin(x) * e


@tf.custom_gradient
def affine(x):
  return tf.sin(x), lambda dy: dy * 2.0 + x


@tf.custom_gradient
def windowed(x):
  return tf.identity(x), lambda dy: tf.where(tf.abs(x) < 1.0, dy, tf.zeros_like(dy))


@tf.custom_gradient
def mixed(x, y):
  """Not elementwise, so that the transpose is another matrix."""

  def grad(da, db):
    return tf.linalg.matvec(WEIGHT, da) * y + db, 3.0 * da - x * tf.cumsum(db)

  return (x * y, x + y), grad


@tf.custom_gradient
def nested(x):
  def grad(dy):
    return dy * other_exp(x)

  return straight_through(x) * x, grad


@tf.custom_gradient
def clipped(x):
  return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.1, 0.1)


PROGRAMS = {
  "straight through": lambda x: straight_through(x * 2.0) * x,
  "captures": lambda x: other_exp(x * x) + x,
  "affine": lambda x: affine(x * 2.0),
  "windowed": lambda x: windowed(x) ** 3,
  "several": lambda x: mixed(x, tf.sin(x))[0] + 2.0 * mixed(x * x, x)[1],
  "nested": lambda x: nested(x) + straight_through(other_exp(x)),
  "in a branch": lambda x: tf.cond(x[0] < 0.0, lambda: other_exp(x * 2.0), lambda: x),
  "in a loop": lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(other_exp(y))), [0, x])[1],
  "in a loop of unknown length": lambda x: tf.while_loop(
    lambda y: tf.reduce_sum(y) < 9.0, lambda y: (other_exp(y * 0.4) + 0.5,), [x]
  )[0],
}


# TensorFlow's forward mode fails on these, or does not use custom gradients inside of them.
_NO_ORACLE = {"nested", "in a branch", "in a loop", "in a loop of unknown length"}


def _tf_tangent(tf_fn, x, t):
  x = tf.constant(x)
  with tf.autodiff.ForwardAccumulator(x, tf.constant(t)) as accumulator:
    y = tf_fn(x)
  return accumulator.jvp(y)


def _jacobian(function, x):
  rows = []
  for i in range(4):
    t = tf.constant(x)
    with tf.GradientTape() as tape:
      tape.watch(t)
      y = tf.function(function)(t)[i]  # a function with a conditional can be differentiated once
    rows.append(tape.gradient(y, t))
  return np.stack(rows)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_is_the_transpose(name):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)
  tangent = jax.jit(lambda x, t: jax.jvp(fn, (x,), (t,))[1])(X, T)
  if name != "affine":  # whose derivative in reverse mode is no matrix
    want = _jacobian(PROGRAMS[name], X)
    np.testing.assert_allclose(tangent, want @ T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jacfwd(fn)(X), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jacrev(fn)(X), want, rtol=1e-4, atol=1e-5)
    _, pull = jax.linearize(fn, X)
    np.testing.assert_allclose(pull(T), want @ T, rtol=1e-4, atol=1e-5)
  if name not in _NO_ORACLE:
    np.testing.assert_allclose(tangent, _tf_tangent(tf_fn, X, T), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["straight through", "captures", "windowed", "several", "in a loop"])
def test_second_derivatives_are_tensorflows_in_each_mode(name):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)
  x = tf.constant(X)
  with tf.GradientTape(persistent=True) as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      loss = tf.reduce_sum(tf_fn(x) * T)
    first = inner.gradient(loss, x)
  want = outer.jacobian(first, x, experimental_use_pfor=False)

  def loss(x):
    return (fn(x) * T).sum()

  np.testing.assert_allclose(jax.jit(jax.jacrev(jax.grad(loss)))(X), want, rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(jax.jit(jax.hessian(loss))(X), want, rtol=1e-4, atol=1e-4)


def test_forward_mode_maps_over_a_batch():
  tf_fn = tf.function(PROGRAMS["several"])
  fn = gc.convert_functional(tf_fn, X)
  batch, tangents = np.stack([X, X * 2, -X]), np.stack([T, T + 1, T * 3])
  got = jax.vmap(lambda x, t: jax.jvp(fn, (x,), (t,))[1])(batch, tangents)
  for one, x, t in zip(got, batch, tangents, strict=True):
    np.testing.assert_allclose(one, _tf_tangent(tf_fn, x, t), rtol=1e-4, atol=1e-5)
  hessians = jax.vmap(jax.hessian(lambda x: fn(x).sum()))(batch)
  np.testing.assert_allclose(hessians[1], jax.hessian(lambda x: fn(x).sum())(batch[1]), rtol=1e-4, atol=1e-5)


def test_what_is_not_linear_has_reverse_mode_only():
  fn = gc.convert_functional(tf.function(lambda x: clipped(x * 3.0)), X)
  np.testing.assert_allclose(jax.jit(jax.grad(lambda x: fn(x).sum()))(X), np.full(4, 0.3, np.float32), rtol=1e-6)
  with pytest.raises(
    gc.ForwardModeError, match=r"not linear in the\s+cotangents.*override_config\('convert_custom_gradient', False\)"
  ):
    jax.jvp(fn, (X,), (T,))
  with gc.override_config("convert_custom_gradient", False):
    plain = gc.convert_functional(tf.function(lambda x: clipped(x * 3.0)), X)
  np.testing.assert_allclose(jax.jvp(plain, (X,), (T,))[1], 3 * T)


def test_recomputed_functions_have_forward_mode_and_second_derivatives():
  # TensorFlow has neither for tf.recompute_grad.
  variable = tf.Variable(WEIGHT, name="w")

  def block(x):
    return tf.tanh(tf.linalg.matvec(variable, x)), x * x

  fn, params = gc.convert(tf.function(tf.recompute_grad(block)), X)
  plain, _ = gc.convert(tf.function(block), X)

  def loss(function, x):
    return sum((y * T).sum() for y in function(params, x)[0])

  for derivative in (
    lambda f: jax.jvp(lambda p, x: f(p, x)[0], (params, X), (params, T))[1],
    lambda f: jax.hessian(lambda x: loss(f, x))(X),
    lambda f: jax.vmap(jax.jacfwd(lambda x: f(params, x)[0][0]))(np.stack([X, T])),
  ):
    for got, want in zip(jax.tree.leaves(derivative(fn)), jax.tree.leaves(derivative(plain)), strict=True):
      np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_forward_mode_along_variables():
  variable = tf.Variable(np.float32(2.0), name="v")

  @tf.custom_gradient
  def scaled(x):
    def grad(dy, variables=None):
      return dy * 3.0 * variable, [tf.reduce_sum(dy * x) * 7.0]

    return x * variable, grad

  fn, params = gc.convert(tf.function(lambda x: scaled(x)), X)
  values, tangents = jax.jvp(lambda p, x: fn(p, x)[0], (params, X), ({"v": np.float32(0.5)}, T))
  np.testing.assert_allclose(values, X * 2)
  np.testing.assert_allclose(tangents, T * 6 + 0.5 * 7 * X, rtol=1e-5)
  # The derivative along x depends on the variable itself.
  mixed = jax.jacfwd(jax.grad(lambda x, p: fn(p, x)[0].sum()), 1)(X, params)
  np.testing.assert_allclose(mixed["v"], np.full(4, 3.0), rtol=1e-6)
