"""Functions with ops that have no lowering."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import ConversionError, jax2tf
from graftax.convert.planning import preflight
from graftax.ops_jax import UnsupportedOpError

_X = np.float32([0.5, -1.0, 2.0])


@pytest.fixture
def without_sine(monkeypatch):
  """Takes the lowering of Sin away, since TensorFlow compiles few ops that have none."""
  lowering = preflight.lowering
  monkeypatch.setattr(preflight, "lowering", lambda op, **options: None if op == "Sin" else lowering(op, **options))


def test_tensorflow_compiles_what_has_no_lowering(without_sine):
  v = tf.Variable([1.0, 2.0, 3.0])
  constant = tf.constant([0.0, 1.0, 0.0])

  def f(x, *, n):
    return {"a": tf.sin(x) * v + constant, "n": n + 1}

  g = jax2tf.call_tf(f)
  found = jax.jit(g)(_X, n=3)
  np.testing.assert_allclose(found["a"], np.sin(_X) * [1, 2, 3] + [0, 1, 0], rtol=1e-6)
  assert int(found["n"]) == 4
  batch = np.stack([_X, 2 * _X])
  np.testing.assert_allclose(
    jax.vmap(lambda x: g(x, n=1)["a"])(batch), np.sin(batch) * [1, 2, 3] + [0, 1, 0], rtol=1e-6
  )
  jacobian = jax.jit(jax.hessian(lambda x: g(x, n=1)["a"].sum()))(_X)
  np.testing.assert_allclose(jacobian, np.diag(-np.sin(_X) * [1, 2, 3]), rtol=1e-5, atol=1e-6)
  step = jax.jit(lambda x: g(x, n=1)["a"])
  step(_X)
  v.assign([0.0, 0.0, 0.0])
  np.testing.assert_allclose(step(_X), [0, 1, 0])


def test_constants_and_variables_are_in_order(without_sine):
  a, b = tf.constant([0.0, 1.0, 0.0]), tf.constant([[2.0]])
  v, w = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(4.0)

  def f(x):
    return (tf.sin(x) + a) * v + w * b[0]

  np.testing.assert_allclose(jax.jit(jax2tf.call_tf(f))(_X), f(tf.constant(_X)), rtol=1e-6)


def test_a_function_without_arguments(without_sine):
  np.testing.assert_allclose(jax.jit(jax2tf.call_tf(lambda: tf.sin(_X)))(), np.sin(_X), rtol=1e-6)


def test_custom_gradients_are_not_lost_silently(without_sine):
  @tf.custom_gradient
  def f(x):
    return tf.sin(x), lambda dy: dy * 5.0

  g = jax2tf.call_tf(f)
  np.testing.assert_allclose(jax.jit(g)(_X), np.sin(_X), rtol=1e-6)
  with pytest.raises(ConversionError, match="custom gradients are lost"):
    jax.grad(lambda x: g(x).sum())(_X)


def test_what_tensorflow_does_not_compile_is_one_error_that_names_the_ops():
  def f(x):
    return tf.numpy_function(np.sin, [x], tf.float32) + tf.strings.to_number(tf.strings.as_string(x))

  with pytest.raises(
    UnsupportedOpError, match=r"(?s)AsString x1.*PyFunc x1.*StringToNumber x1.*compiler does not help"
  ):
    jax.jit(jax2tf.call_tf(f))(_X)


def test_writes_of_variables_are_a_reason(without_sine):
  v = tf.Variable(1.0, name="v")

  def f(x):
    v.assign_add(1.0)
    return tf.sin(x)

  with pytest.raises(UnsupportedOpError, match=r"(?s)Sin x1.*writes the variables \['v'\]"):
    jax.jit(jax2tf.call_tf(f))(_X)


def test_symbolic_shapes_are_a_reason(without_sine):
  with pytest.raises(UnsupportedOpError, match=r"(?s)Sin x1.*shapes are symbolic"):
    jax.export.export(jax.jit(jax2tf.call_tf(tf.sin)))(jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), np.float32))
