"""Derivatives of converted functions: in live TensorFlow, and in models that TensorFlow saved. JAX is the oracle."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import jax2tf as reference

from graftax.convert import jax2tf

X = np.array([0.1, 0.2, 0.3], np.float32)


def cubic_sine(x):
  return jnp.sin(x) * x**3


@jax.custom_vjp
def tripled_cosine(x):
  return jnp.sin(x)


tripled_cosine.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (3 * jnp.cos(x) * cotangent,))


def derivative(function, x, order):
  """Returns the derivative of the sum of a TensorFlow function."""
  if order == 0:
    return function(x)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = derivative(function, x, order - 1)
  return tape.gradient(y, x)


def jax_derivative(function, x, order):
  for _ in range(order):
    function = jax.grad(lambda x, inner=function: inner(x).sum())
  return function(x)


def reloaded(path, **functions):
  module = tf.Module()
  for name, (function, *specs) in functions.items():
    setattr(module, name, tf.function(function, autograph=False, input_signature=specs))
  tf.saved_model.save(module, str(path))
  return tf.saved_model.load(str(path))


@pytest.mark.parametrize("function", [cubic_sine, tripled_cosine])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_any_order_are_those_of_jax(function, order):
  want = jax_derivative(function, X, order)
  converted = jax2tf.convert(function)
  x = tf.constant(X)
  inside = tf.function(lambda x: derivative(converted, x, order), autograph=False)
  compiled = tf.function(lambda x: derivative(converted, x, order), autograph=False, jit_compile=True)
  outside = tf.function(converted, autograph=False)
  for found in derivative(converted, x, order), inside(x), compiled(x), derivative(outside, x, order):
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_saved_models_keep_two_orders_or_more_by_option(tmp_path):
  spec = tf.TensorSpec([None])
  loaded = reloaded(
    tmp_path,
    two=(jax2tf.convert(cubic_sine, polymorphic_shapes="b"), spec),
    three=(jax2tf.convert(cubic_sine, polymorphic_shapes="b", gradient_order=3), spec),
    one=(jax2tf.convert(cubic_sine, polymorphic_shapes="b", gradient_order=1), spec),
  )
  for orders, function in (1, loaded.one), (2, loaded.two), (3, loaded.three):
    for order in range(orders + 1):
      found = derivative(function, tf.constant(X), order)
      np.testing.assert_allclose(found, jax_derivative(cubic_sine, X, order), rtol=1e-5, atol=1e-6)
    with pytest.raises(LookupError, match="Save it with a larger `gradient_order`"):
      derivative(function, tf.constant(X), orders + 1)
  x, tangent = tf.constant(X), tf.ones(3)
  with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
    y = loaded.three(x)
  np.testing.assert_allclose(accumulator.jvp(y), jax_derivative(cubic_sine, X, 1), rtol=1e-5)


def test_a_model_that_was_called_and_loaded_before_is_saved_again(tmp_path):
  module = tf.Module()
  module.v = tf.Variable(2.0)
  converted = jax2tf.convert(cubic_sine)
  module.f = tf.function(lambda x: converted(x) * module.v, autograph=False)
  for size in 3, 5:
    module.f(tf.ones(size))
  tf.saved_model.save(module, str(tmp_path / "1"))
  tf.saved_model.save(tf.saved_model.load(str(tmp_path / "1")), str(tmp_path / "2"))
  loaded = tf.saved_model.load(str(tmp_path / "2"))
  for order in 0, 1, 2:
    found = derivative(loaded.f, tf.constant(X), order)
    np.testing.assert_allclose(found, 2 * jax_derivative(cubic_sine, X, order), rtol=1e-5, atol=1e-6)


def test_a_saved_training_step_contains_its_gradient(tmp_path):
  converted = jax2tf.convert(cubic_sine)
  loaded = reloaded(tmp_path, step=(lambda x: derivative(converted, x, 1), tf.TensorSpec([3])))
  for order in 0, 1:
    found = derivative(loaded.step, tf.constant(X), order)
    np.testing.assert_allclose(found, jax_derivative(cubic_sine, X, order + 1), rtol=1e-5)


def test_integer_results_with_symbolic_sizes_after_reloading(tmp_path):
  def function(x):
    return jnp.argmax(x, -1), jnp.sin(x), x > 0, 2 * x

  converted = jax2tf.convert(function, polymorphic_shapes="b, _")
  loaded = reloaded(tmp_path, f=(converted, tf.TensorSpec([None, 3])))
  x = tf.constant(np.stack([X, -X]))
  for called in converted, tf.function(converted, autograph=False), loaded.f:
    with tf.GradientTape() as tape:
      tape.watch(x)
      index, sine, *_ = called(x)
    np.testing.assert_array_equal(index, [2, 0])
    np.testing.assert_allclose(tape.gradient(sine, x), np.cos(x), rtol=1e-6)


def test_without_gradient_differentiation_raises_after_reloading_too(tmp_path):
  converted = jax2tf.convert(jnp.sin, with_gradient=False)
  loaded = reloaded(tmp_path, f=(converted, tf.TensorSpec([3])))
  for function in converted, tf.function(converted, autograph=False), loaded.f:
    np.testing.assert_allclose(function(tf.constant(X)), np.sin(X), rtol=1e-6)
    with pytest.raises(LookupError, match="Gradient explicitly disabled.*function does not support gradients"):
      derivative(function, tf.constant(X), 1)


def test_eager_functions_without_gradient_run_under_a_tape():
  x = tf.constant(X)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = jax2tf.convert(jnp.sin, with_gradient=False)(x)
    z = x * tf.stop_gradient(y)
  np.testing.assert_allclose(tape.gradient(z, x), np.sin(X), rtol=1e-6)
  with pytest.raises(LookupError, match="Gradient explicitly disabled"):
    tape.gradient(y, x)


def _mixed(state):
  state = dict(state, used=state["used"] * 2 * state["int_used"], int_used=state["int_used"] + 1)
  return state["used"].sum(), {key: value for key, value in state.items() if not key.endswith("unused")}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("unconnected", ["none", "zero"])
def test_cotangents_of_unused_and_integer_arguments_are_those_of_jax2tf(in_graph, unconnected):
  state = {
    "used": np.array([0.7, 0.9], np.float32),
    "passed": np.float16(1),
    "unused": np.array([1.1, 2.2], np.float32),
    "int_used": np.int16(5),
    "int_unused": np.array([1, 2], np.uint32),
    "bool_passed": np.array([True, False]),
  }

  def gradients(convert):
    def function(variables):
      with tf.GradientTape() as tape:
        tape.watch(variables)
        loss, _ = convert(_mixed)(variables)
      return tape.gradient(loss, variables, unconnected_gradients=unconnected)

    called = tf.function(function, autograph=False) if in_graph else function
    return called({key: tf.constant(value) for key, value in state.items()})

  ours, theirs = gradients(jax2tf.convert), gradients(reference.convert)
  for key in state:
    assert (ours[key] is None) == (theirs[key] is None), key
    if ours[key] is not None:
      assert ours[key].dtype == theirs[key].dtype
      np.testing.assert_array_equal(ours[key], theirs[key])


def test_gradients_reach_variables_and_casted_tensors():
  variable, wide = tf.Variable(X), tf.constant(X, tf.float64)
  with tf.GradientTape() as tape:
    tape.watch(wide)
    y = jax2tf.convert(lambda x, y: (x * y).sum())(variable, wide)
  found = tape.gradient(y, [variable, wide])
  assert found[1].dtype == tf.float64
  np.testing.assert_allclose(found, [X, X])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
  kernel: Any
  power: int = dataclasses.field(metadata={"static": True})


def test_dataclasses_and_static_arguments_have_gradients():
  @functools.partial(jax.jit, static_argnames="mode")
  def apply(layer, x, *, mode):
    y = {"sine": jnp.sin, "cosine": jnp.cos}[mode](x @ layer.kernel) ** layer.power
    return Layer(y, layer.power + 1)

  kernel = np.array([[0.5], [0.7], [0.9]], np.float32)
  for mode in "sine", "cosine":
    converted = jax2tf.convert(functools.partial(apply, mode=mode))
    for power in 2, 3:
      variable = tf.Variable(kernel)
      with tf.GradientTape() as tape:
        y = converted(Layer(variable, power), X[None])
      assert isinstance(y, Layer) and y.power == power + 1
      want, pull = jax.vjp(lambda k: apply(Layer(k, power), X[None], mode=mode).kernel, kernel)  # noqa: B023
      np.testing.assert_allclose(y.kernel, want, rtol=1e-6)
      np.testing.assert_allclose(tape.gradient(y.kernel, variable), pull(jnp.ones_like(want))[0], rtol=1e-5)


def test_complex_gradients_are_those_of_tensorflow(tmp_path):
  z = tf.constant((X + 1j * X[::-1]).astype(np.complex64))
  converted = jax2tf.convert(lambda z: jnp.sin(z) * jnp.conj(z) * 1j)
  loaded = reloaded(tmp_path, f=(converted, tf.TensorSpec([3], tf.complex64)))

  def gradient(function):
    with tf.GradientTape() as tape:
      tape.watch(z)
      loss = tf.reduce_sum(tf.abs(function(z)) ** 2 * X + tf.math.real(function(z)))
    return tape.gradient(loss, z)

  want = gradient(lambda z: tf.sin(z) * tf.math.conj(z) * 1j)
  for function in converted, tf.function(converted, autograph=False), loaded.f:
    np.testing.assert_allclose(gradient(function), want, rtol=1e-5, atol=1e-6)


def test_sparse_cotangents_are_accepted():
  x = tf.constant(np.stack([X, -X]))
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.gather(jax2tf.convert(jnp.sin)(x), [1])
  np.testing.assert_allclose(tape.gradient(y, x), [[0, 0, 0], np.cos(X)], rtol=1e-6)


def test_derivatives_are_traced_when_needed():
  backward = []

  @jax.custom_vjp
  def function(x):
    return jnp.sin(x)

  def rule(x, cotangent):
    backward.append(x)
    return (cotangent,)

  function.defvjp(lambda x: (jnp.sin(x), x), rule)
  converted = jax2tf.convert(function)
  x = tf.constant(X)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = converted(x)
  lazily = tf.function(jax2tf.convert(function, gradient_order=1), autograph=False)
  lazily.get_concrete_function(tf.TensorSpec([3]))
  assert not backward
  for _ in range(2):
    np.testing.assert_array_equal(tape.gradient(y, x), np.ones(3))
  assert len(backward) == 1


def test_gradients_of_eager_calls_can_be_taken_in_a_graph():
  x = tf.constant(X)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = jax2tf.convert(cubic_sine)(x)
  found = tf.function(lambda: tape.gradient(y, x), autograph=False)()
  np.testing.assert_allclose(found, jax_derivative(cubic_sine, X, 1), rtol=1e-5)


def test_forward_mode_of_eager_calls_and_functions():
  converted = jax2tf.convert(cubic_sine)
  x = tf.constant(X)
  for called in converted, tf.function(converted, autograph=False):
    with tf.autodiff.ForwardAccumulator(x, tf.ones(3)) as accumulator:
      y = called(x)
    np.testing.assert_allclose(accumulator.jvp(y), jax_derivative(cubic_sine, X, 1), rtol=1e-5)


def test_functions_that_jax_cannot_differentiate_are_converted(tmp_path):
  @jax.custom_vjp
  def function(x):
    return jnp.sin(x)

  def rule(x, cotangent):
    raise NotImplementedError("no derivative of this function")

  function.defvjp(lambda x: (jnp.sin(x), x), rule)
  converted = jax2tf.convert(function)
  for called in converted, tf.function(converted, autograph=False):
    np.testing.assert_allclose(called(X), np.sin(X), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="no derivative of this function"):
      derivative(called, tf.constant(X), 1)


def test_while_loops_have_reverse_mode_with_custom_rules(tmp_path):
  def function(x, n):
    return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, tripled_cosine(c[1])), (0, x))[1]

  converted = jax2tf.convert(function)
  loaded = reloaded(tmp_path, f=(converted, tf.TensorSpec([3]), tf.TensorSpec([], tf.int32)))
  want = 9 * np.cos(X) * np.cos(np.sin(X))
  for called in converted, tf.function(converted, autograph=False), loaded.f:
    found = derivative(lambda x, called=called: called(x, tf.constant(2)), tf.constant(X), 1)
    np.testing.assert_allclose(found, want, rtol=1e-5)
  # JAX has no forward mode of custom_vjp, which the second derivative of such a loop needs.
  with pytest.raises(tf.errors.InvalidArgumentError, match="JAX has no further derivative of this function"):
    derivative(lambda x: loaded.f(x, tf.constant(2)), tf.constant(X), 2)


def test_while_loops_have_second_derivatives(tmp_path):
  def function(x):
    return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1]

  converted = jax2tf.convert(function)
  loaded = reloaded(tmp_path, f=(converted, tf.TensorSpec([3])))
  for order in 1, 2:
    want = jax_derivative(lambda x: jnp.sin(jnp.sin(x)), X, order)
    for called in converted, loaded.f:
      np.testing.assert_allclose(derivative(called, tf.constant(X), order), want, rtol=1e-5)
