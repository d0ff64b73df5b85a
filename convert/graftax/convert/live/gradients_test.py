"""Custom gradients of live functions that TensorFlow has loaded or differentiated; with TensorFlow as the oracle."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.convert import jax2tf
from graftax.convert.errors import ConversionError
from graftax.convert.live.function import program_from_concrete_function

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


def _waves():
  """Returns a function whose gradient calls two functions of this kind, and the list of gradients that were traced.

  The derivative of order `n` is `2**n * sin(x + n * pi / 2)`.
  """
  traced = []

  def wave(x, order):
    @tf.custom_gradient
    def fn(x):
      def gradient(dy):
        traced.append(order)
        return dy * (wave(x, order + 1) + wave(x, order + 1))

      return tf.sin(x + order * np.float32(np.pi / 2)), gradient

    return fn(x)

  return tf.function(lambda x: wave(x, 0)), traced


def _derivatives(fn, num):
  derivatives = [fn]
  for _ in range(num):
    derivatives.append(jax.grad(derivatives[-1]))
  return derivatives


def test_gradients_inside_of_gradients_are_traced_when_derivatives_need_them():
  tf_fn, traced = _waves()
  fn = gc.convert_functional(tf_fn, tf.TensorSpec([]))
  x, expected, counts = 0.3, [2**n * np.sin(0.3 + n * np.pi / 2) for n in range(4)], []
  for derivative, value in zip(_derivatives(fn, 3), expected, strict=True):
    np.testing.assert_allclose(jax.jit(derivative)(x), value, rtol=1e-5)
    counts.append(len(traced))
  assert counts == [1, 1 + 2, 1 + 2 + 4, 1 + 2 + 4]


def test_a_pickled_function_has_the_gradients_inside_of_gradients():
  tf_fn, traced = _waves()
  fn = pickle.loads(pickle.dumps(gc.convert_functional(tf_fn, tf.TensorSpec([]))))
  assert len(traced) == 1 + 2 + 4
  for n, derivative in enumerate(_derivatives(fn, 3)):
    np.testing.assert_allclose(derivative(0.3), 2**n * np.sin(0.3 + n * np.pi / 2), rtol=1e-5)
  assert len(traced) == 1 + 2 + 4


def test_a_program_lists_the_functions_of_all_gradients():
  concrete = _waves()[0].get_concrete_function(tf.TensorSpec([]))
  program = program_from_concrete_function(concrete)
  assert "1 functions" in repr(program)
  copied = pickle.loads(pickle.dumps(program))
  assert len(copied.gradients) == 1 + 2 + 4
  assert {gradient.function for gradient in copied.gradients.values()} == set(copied.library) == set(program.library)


def test_a_gradient_of_higher_order_that_alone_reads_a_variable_raises():
  variable = tf.Variable(3.0, name="late")

  @tf.custom_gradient
  def scaled(x):
    return x * 1.0, lambda dy: dy * variable

  @tf.custom_gradient
  def squared(x):
    return x * x, lambda dy: dy * scaled(2.0 * x)

  fn = gc.convert_functional(tf.function(squared), tf.TensorSpec([]))
  np.testing.assert_allclose(jax.grad(fn)(1.5), 3.0)
  for _ in range(2):
    with pytest.raises(ConversionError, match=r"reads variable 'late', which a gradient of order 2 reads"):
      jax.grad(jax.grad(fn))(1.5)
