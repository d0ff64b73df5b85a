"""Custom gradients of saved models: forward mode, second order, and what happens where they were not saved."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax import savedmodel_io

X = np.linspace(-1.3, 1.2, 4, dtype=np.float32)
T = np.cos(np.arange(4, dtype=np.float32))


@tf.custom_gradient
def other_exp(x):
  e = tf.exp(x)
  return e, lambda dy: dy * tf.sin(x) * e


@tf.custom_gradient
def nested(x):
  """Its gradient function has a custom gradient, too, and TensorFlow saves derivatives of the first order only."""
  return x * x, lambda dy: dy * other_exp(x)


def _saved(path, function, keep=True):
  module = tf.Module()
  module.f = tf.function(function, input_signature=[tf.TensorSpec([4])])
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=keep)
  tf.saved_model.save(module, path, module.f.get_concrete_function(), options=options)
  fn, params = savedmodel_io.load(str(path)).convert("f")
  return lambda x: fn(params, x)[0]


def test_forward_mode_and_second_order(tmp_path):
  fn = _saved(tmp_path, lambda x: other_exp(x * x))
  slope = np.sin(X * X) * np.exp(X * X) * 2 * X
  np.testing.assert_allclose(jax.jit(lambda x, t: jax.jvp(fn, (x,), (t,))[1])(X, T), slope * T, rtol=1e-4)
  np.testing.assert_allclose(jax.grad(lambda x: fn(x).sum())(X), slope, rtol=1e-4)
  y = X * X
  # The gradient function is differentiated as it stands: dy * sin(x) * e, where e captures the plain exp.
  second = (np.cos(y) + np.sin(y)) * np.exp(y) * 4 * X * X + np.sin(y) * np.exp(y) * 2
  np.testing.assert_allclose(np.diag(jax.hessian(lambda x: fn(x).sum())(X)), second, rtol=1e-4)
  np.testing.assert_allclose(np.diag(jax.jacrev(jax.grad(lambda x: fn(x).sum()))(X)), second, rtol=1e-4)


def test_a_gradient_function_whose_own_gradient_was_not_saved_is_differentiated_as_it_stands(tmp_path):
  fn = _saved(tmp_path, nested)
  np.testing.assert_allclose(jax.grad(lambda x: fn(x).sum())(X), np.exp(X), rtol=1e-5)
  second = jax.jacrev(jax.grad(lambda x: fn(x).sum()))(X)
  np.testing.assert_allclose(np.diag(second), np.exp(X), rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # TensorFlow's own, about what is not saved
def test_without_saved_gradients_the_forward_pass_is_differentiated(tmp_path):
  fn = _saved(tmp_path, other_exp, keep=False)
  np.testing.assert_allclose(jax.grad(lambda x: fn(x).sum())(X), np.exp(X), rtol=1e-5)
