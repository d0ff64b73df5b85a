"""tf.custom_gradient against TensorFlow: values and derivatives, live functions."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc

X = np.linspace(-1, 1, 3, dtype=np.float32)


@tf.custom_gradient
def wrong_exp(x):
  e = tf.exp(x)

  def grad(dy):
    return dy * tf.sin(x) + e

  return e, grad


@tf.custom_gradient
def clipped(x):
  def grad(dy):
    return tf.clip_by_value(dy, -0.1, 0.1)

  return tf.identity(x), grad


@tf.custom_gradient
def two_in_two_out(x, y):
  def grad(da, db):
    return da * y + 1.0, db * x - 2.0

  return (x * y, x + y), grad


@tf.custom_gradient
def root_with_finite_gradient(x):
  return tf.sqrt(tf.abs(x)), lambda dy: dy * 2.0


def _tf_gradient(fn, *args):
  args = [tf.constant(a) for a in args]
  with tf.GradientTape() as tape:
    tape.watch(args)
    loss = tf.reduce_sum(fn(*args))
  return tape.gradient(loss, args)


PROGRAMS = {
  "documented": lambda x: tf.reduce_sum(wrong_exp(x)),
  "two in sequence": lambda x: clipped(wrong_exp(clipped(x) * 3.0)),
  "two silu in sequence": lambda x: tf.nn.silu(tf.nn.silu(x)),
  "two silu side by side": lambda x: tf.nn.silu(x) * tf.nn.silu(2.0 * x),
  "of an infinite derivative": root_with_finite_gradient,
  "in a branch": lambda x: tf.cond(tf.reduce_sum(x) > 5.0, lambda: x, lambda: wrong_exp(x * 2.0)),
  "in a called function": tf.function(lambda x: tf.function(lambda y: clipped(y) * y)(x) + wrong_exp(x)),
  "several inputs and outputs": lambda x: tf.add_n(two_in_two_out(x, x * x)),
}


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_custom_gradients_are_used(name, transform):
  tf_fn = tf.function(PROGRAMS[name])
  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(transform(fn)(X), tf_fn(X), rtol=1e-6)
  gradient = transform(jax.grad(lambda x: fn(x).sum()))(X)
  np.testing.assert_allclose(gradient, _tf_gradient(tf_fn, X)[0], rtol=1e-5, atol=1e-6)


def test_the_option_switches_them_off():
  with gc.override_config("convert_custom_gradient", False):
    fn = gc.convert_functional(tf.function(lambda x: wrong_exp(x)), X)
  np.testing.assert_allclose(jax.grad(lambda x: fn(x).sum())(X), np.exp(X), rtol=1e-6)


def test_they_vmap_and_differentiate_again():
  tf_fn = tf.function(lambda x: tf.nn.silu(x))
  fn = gc.convert_functional(tf_fn, np.float32(1))
  second = jax.vmap(jax.grad(jax.grad(fn)))(X)
  with tf.GradientTape() as outer:
    x = tf.constant(X)
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      y = tf_fn(x)
    first = inner.gradient(y, x)
  np.testing.assert_allclose(second, outer.gradient(first, x), rtol=1e-5)


def test_gradients_of_variables_flow_through_custom_gradients():
  variable = tf.Variable(2.0, name="v")

  @tf.custom_gradient
  def scaled(x):
    def grad(dy, variables=None):
      return dy * 3.0, [tf.reduce_sum(dy * x) * 7.0]

    return x * variable, grad

  tf_fn = tf.function(lambda x: scaled(x))
  fn, params = gc.convert(tf_fn, X)
  gradient = jax.grad(lambda p: fn(p, X)[0].sum())(params)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf_fn(tf.constant(X)))
  np.testing.assert_allclose(gradient["v"], tape.gradient(loss, variable), rtol=1e-6)


def test_complex_gradients_are_conjugated_as_jax_has_them():
  factor = np.complex64(1 + 2j)

  @tf.custom_gradient
  def scaled(z):
    return z * factor, lambda dy: dy * np.conj(factor)

  z, cotangent = np.complex64(0.3 - 0.7j), np.complex64(1 + 1j)
  fn, params = gc.convert(tf.function(lambda z: scaled(z)), z)
  _, pull = jax.vjp(lambda z: fn(params, z)[0], z)
  _, pull_plain = jax.vjp(lambda z: z * factor, z)
  np.testing.assert_allclose(pull(cotangent), pull_plain(cotangent), rtol=1e-6)
  with tf.GradientTape() as tape:
    traced = tf.constant(z)
    tape.watch(traced)
    y = scaled(traced)
  # TensorFlow's derivatives of complex numbers are the conjugates of JAX's, on both sides.
  expected = tape.gradient(y, traced, output_gradients=tf.constant(np.conj(cotangent)))
  np.testing.assert_allclose(np.conj(pull(cotangent)[0]), expected, rtol=1e-6)
