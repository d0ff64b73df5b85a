"""Custom gradients of live functions that TensorFlow has loaded or differentiated; with TensorFlow as the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.convert import jax2tf

KERNEL = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)


def _batch(size):
  return np.linspace(0, 1, 3 * size, dtype=np.float32).reshape(size, 3)


def _value_and_gradients(tf_fn, x, variable):
  x = tf.constant(x)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf_fn(x)
    loss = tf.reduce_sum(y**2)
  return y, *tape.gradient(loss, [variable, x])


def _assert_same(fn, params, tf_fn, x, variable):
  y, *gradients = _value_and_gradients(tf_fn, x, variable)
  name = variable.name.removesuffix(":0")
  np.testing.assert_allclose(jax.jit(fn)(params, x)[0], y, rtol=1e-6)
  got = jax.grad(lambda p, x: jnp.sum(fn(p, x)[0] ** 2), argnums=(0, 1))({name: np.asarray(params[name])}, x)
  for ours, theirs in zip((got[0][name], got[1]), gradients, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def restored(tmp_path_factory):
  """A model of any batch size, saved with its gradients, loaded and differentiated by TensorFlow.

  Our jax2tf writes it: with JAX 0.12 TensorFlow 2.21 cannot read the one of JAX.
  """
  module = tf.Module()
  module.kernel = tf.Variable(KERNEL, name="kernel")
  apply = jax2tf.convert(lambda kernel, x: jnp.tanh(x @ kernel), polymorphic_shapes=[None, "(b, ...)"])
  spec = tf.TensorSpec([None, 3], tf.float32)
  module.apply = tf.function(lambda x: apply(module.kernel, x), autograph=False, input_signature=[spec])
  path = str(tmp_path_factory.mktemp("jax2tf"))
  tf.saved_model.save(module, path, options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))
  loaded = tf.saved_model.load(path)
  _value_and_gradients(loaded.apply, _batch(2), loaded.kernel)
  return loaded


def test_a_polymorphic_model_that_was_loaded_and_differentiated_converts_for_any_batch(restored):
  fn, params = gc.convert(restored.apply, tf.TensorSpec([None, 3]))
  for size in (1, 2, 5):
    _assert_same(fn, params, restored.apply, _batch(size), restored.kernel)
  symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), np.float32)
  exported = jax.export.export(jax.jit(lambda x: fn(params, x)[0]))(symbolic)
  np.testing.assert_allclose(exported.call(_batch(4)), restored.apply(_batch(4)), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tf.function(lambda x: f(x))], ids=["itself", "called"])
def test_a_polymorphic_model_that_was_loaded_and_differentiated_converts_for_one_batch(restored, wrap):
  fn, params = gc.convert(wrap(restored.apply), _batch(2))
  _assert_same(fn, params, restored.apply, _batch(2), restored.kernel)


def test_a_function_called_both_inside_and_outside_of_a_tape_has_its_gradient_in_both_places():
  @tf.custom_gradient
  def cubed(x):
    return x**3, lambda dy: 100.0 * dy * x

  inner = tf.function(lambda x: cubed(x * 2.0) + 1.0)

  @tf.function
  def tf_fn(x):
    before = inner(x)
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = inner(x)
    return before + y * tape.gradient(y, x)

  x = tf.constant(1.5)
  fn = gc.convert_functional(tf_fn, x)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf_fn(x)
  value, gradient = jax.value_and_grad(fn)(1.5)
  np.testing.assert_allclose([value, gradient], [y, tape.gradient(y, x)], rtol=1e-6)


@pytest.mark.parametrize("is_known", [True, False], ids=["in the process that saved it", "in another process"])
def test_a_loaded_model_without_its_gradients_differentiates_the_forward_pass(tmp_path, is_known):
  @tf.custom_gradient
  def cubed(x):
    return x**3, lambda dy: 100.0 * dy * x

  module = tf.Module()
  module.apply = tf.function(lambda x: cubed(x * 2.0), input_signature=[tf.TensorSpec([])])
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
  tf.saved_model.save(module, str(tmp_path), options=options)
  if not is_known:
    _rename_gradients(tmp_path / "saved_model.pb")
  loaded = tf.saved_model.load(str(tmp_path))
  x = tf.constant(2.0)
  # TensorFlow misses the gradient too.
  with pytest.raises((LookupError, TypeError)), tf.GradientTape() as tape:
    tape.watch(x)
    tape.gradient(loaded.apply(x), x)
  value, gradient = jax.value_and_grad(gc.convert_functional(loaded.apply, 2.0))(2.0)
  np.testing.assert_allclose([value, gradient], [4.0**3, 6 * 4.0**2])


def _rename_gradients(path):
  """Gives custom gradients names that no process has registered."""
  path.write_bytes(path.read_bytes().replace(b"CustomGradient-", b"MissingGradient"))


def test_a_part_inside_of_a_called_function_keeps_a_gradient_that_captures_tensors():
  @tf.custom_gradient
  def exp(x):
    y = tf.exp(x)
    return y, lambda dy: 2.0 * dy * y

  inner = tf.function(lambda x: exp(tf.identity(x * 2.0, name="doubled")))
  outer = tf.function(lambda x: inner(x) + 1.0)
  x = tf.constant(1.0)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = exp(x)
  fn, params = gc.convert_subgraph(
    outer, "PartitionedCall/doubled", "PartitionedCall/IdentityN", args=(tf.TensorSpec([]),)
  )
  value, gradient = jax.value_and_grad(lambda x: fn(params, x)[0])(1.0)
  np.testing.assert_allclose([value, gradient], [y, tape.gradient(y, x)], rtol=1e-6)
