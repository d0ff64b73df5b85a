"""Tests functions that `jax2tf.convert` produced, converted back to JAX: live and from SavedModels."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import jax2tf

import graftax.convert as gc
from graftax import savedmodel_io

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _mlp(params, x):
  return {"out": jnp.tanh(x @ params["w"]) + params["b"], "sum": x.sum(axis=1)}


PARAMS = {"w": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), "b": np.ones(4, np.float32)}


@jax.custom_vjp
def _straight_through(x):
  return jnp.round(x)


_straight_through.defvjp(lambda x: (jnp.round(x), None), lambda _, g: (g * 3.0,))


def _saved(tmp_path, function, *specs, variables=()):
  module = tf.Module()
  module.f = tf.function(function, autograph=False, input_signature=list(specs))
  module.variables_ = list(variables)
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  tf.saved_model.save(module, str(tmp_path), options=options)
  return savedmodel_io.load(tmp_path).convert("f")


def test_values_transforms_and_structures_survive_the_round_trip():
  fn = gc.convert_functional(jax2tf.convert(_mlp), PARAMS, X)
  expected = _mlp(PARAMS, X)
  got = jax.jit(fn)(PARAMS, X)
  np.testing.assert_allclose(got["out"], expected["out"], rtol=1e-6)
  np.testing.assert_allclose(got["sum"], expected["sum"], rtol=1e-6, atol=1e-6)
  gradient = jax.grad(lambda p: fn(p, X)["out"].sum())(PARAMS)
  wanted = jax.grad(lambda p: _mlp(p, X)["out"].sum())(PARAMS)
  jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), gradient, wanted)
  with gc.override_config("strict_shape_check", False):
    batched = jax.vmap(lambda x: fn(PARAMS, x)["out"])(np.stack([X, X + 1]))
  np.testing.assert_allclose(batched[1], _mlp(PARAMS, X + 1)["out"], rtol=1e-6)


@pytest.mark.parametrize("from_file", [False, True])
def test_the_authors_derivative_is_used(tmp_path, from_file):
  tf_fn = jax2tf.convert(_straight_through)
  if from_file:
    fn, params = _saved(tmp_path, tf_fn, tf.TensorSpec([2, 3]))
    function = lambda x: fn(params, x)[0]  # noqa: E731
  else:
    function = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(function(X), np.round(X))
  np.testing.assert_allclose(jax.grad(lambda x: function(x).sum())(X), np.full_like(X, 3))


def test_gradients_can_be_differentiated_again():
  fn = gc.convert_functional(jax2tf.convert(lambda x: jnp.sin(x) * x), 0.0)
  second = jax.grad(jax.grad(fn))
  np.testing.assert_allclose(second(0.7), 2 * np.cos(0.7) - 0.7 * np.sin(0.7), rtol=1e-5)
  third = -3 * np.sin(0.7) - 0.7 * np.cos(0.7)
  np.testing.assert_allclose(jax.grad(second)(0.7), third, rtol=1e-4)


@pytest.mark.parametrize("saved", [False, True])
def test_forward_mode_is_the_transpose_of_the_authors_derivative(saved, tmp_path):
  @jax.custom_vjp
  def f(x):
    return jnp.round(x)

  f.defvjp(lambda x: (jnp.round(x), x), lambda x, ct: (jnp.cumsum(ct, axis=1) * x,))
  tf_fn = jax2tf.convert(lambda x: f(x) * 2.0)
  if saved:
    fn, params = _saved(tmp_path, tf_fn, tf.TensorSpec([2, 3]))
    function = lambda x: fn(params, x)[0]  # noqa: E731
  else:
    function = gc.convert_functional(tf_fn, X)
  t = np.cos(X)
  want = 2 * np.flip(np.cumsum(np.flip(X * t, 1), axis=1), 1)
  np.testing.assert_allclose(jax.jit(lambda x, t: jax.jvp(function, (x,), (t,))[1])(X, t), want, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(jax.jacfwd(function)(X), jax.jacrev(function)(X), rtol=1e-5, atol=1e-6)


def test_forward_mode_without_custom_gradients_differentiates_the_code_itself():
  with gc.override_config("convert_custom_gradient", False):
    fn = gc.convert_functional(jax2tf.convert(lambda x: jnp.sin(x) * x), X)
  np.testing.assert_allclose(jax.jvp(fn, (X,), (np.ones_like(X),))[1], np.cos(X) * X + np.sin(X), rtol=1e-5)
  np.testing.assert_allclose(
    jax.hessian(lambda x: fn(x).sum())(X)[0, 0, 0, 0], 2 * np.cos(X[0, 0]) - X[0, 0] * np.sin(X[0, 0]), rtol=1e-5
  )


def test_prevented_gradients_are_errors_unless_the_option_says_otherwise():
  tf_fn = jax2tf.convert(jnp.sin, with_gradient=False)
  fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(fn(X), np.sin(X), rtol=1e-6)
  with pytest.raises(LookupError, match="PreventGradient"):
    jax.grad(lambda x: fn(x).sum())(X)
  with gc.override_config("raise_on_prevent_gradient", False):
    fn = gc.convert_functional(tf_fn, X)
  np.testing.assert_allclose(jax.grad(lambda x: fn(x).sum())(X), np.cos(X), rtol=1e-6)


def test_open_batch_sizes_stay_open(tmp_path):
  tf_fn = jax2tf.convert(lambda x: x / x.shape[0], polymorphic_shapes=["b, 3"])
  spec = tf.TensorSpec([None, 3])
  live, live_params = gc.convert(tf.function(tf_fn, autograph=False), spec)
  saved, saved_params = _saved(tmp_path, tf_fn, spec)
  for fn, params in ((live, live_params), (saved, saved_params)):
    for rows in (1, 2, 5):
      x = np.ones((rows, 3), np.float32)
      np.testing.assert_allclose(jax.jit(fn)(params, x)[0], x / rows)
  gradient = jax.grad(lambda x: live(live_params, x)[0].sum())(np.ones((4, 3), np.float32))
  np.testing.assert_allclose(gradient, np.full((4, 3), 0.25))


def test_parameters_that_were_variables_are_parameters_again(tmp_path):
  variables = {name: tf.Variable(value, name=name) for name, value in PARAMS.items()}
  tf_fn = jax2tf.convert(_mlp)
  fn, params = _saved(tmp_path, lambda x: tf_fn(variables, x), tf.TensorSpec([2, 3]), variables=variables.values())
  assert set(params) == {"w", "b"}
  np.testing.assert_allclose(fn(params, X)[0]["out"], _mlp(PARAMS, X)["out"], rtol=1e-6)
  gradient = jax.grad(lambda p: fn(p, X)[0]["out"].sum())(params)
  wanted = jax.grad(lambda p: _mlp(p, X)["out"].sum())(PARAMS)
  for name in PARAMS:
    np.testing.assert_allclose(gradient[name], wanted[name], rtol=1e-5)


def test_integers_have_no_gradient_and_loops_have_one():
  def power(x, n):
    return jax.lax.fori_loop(0, 3, lambda i, y: y * x, jnp.ones_like(x)) * n

  fn = gc.convert_functional(jax2tf.convert(power), X, np.int32(2))
  np.testing.assert_allclose(fn(X, 2), X**3 * 2, rtol=1e-6)


def test_tensorflow_functions_inside_are_converted_too():
  table = tf.constant([10.0, 20.0, 30.0])

  @tf.function(autograph=False)
  def tf_part(x):
    return tf.gather(table, tf.cast(x, tf.int32)) + tf.math.lgamma(x + 1.0)

  def jax_fn(x):
    inner = jax2tf.call_tf(tf_part, call_tf_graph=True, output_shape_dtype=jax.ShapeDtypeStruct((2,), np.float32))
    return inner(x * 1.0) * 2.0

  x = np.array([0, 2], np.float32)
  tf_fn = tf.function(jax2tf.convert(jax_fn, with_gradient=False), autograph=False)
  fn = gc.convert_functional(tf_fn, x)
  expected = 2 * (np.array([10.0, 30.0]) + np.log([1.0, 2.0]))
  np.testing.assert_allclose(jax.jit(fn)(x), expected, rtol=1e-5)


def test_relu_and_cumulative_sums_come_back_as_what_they_were():
  fn = gc.convert_functional(jax2tf.convert(lambda x: jax.nn.relu(jnp.cumsum(x, axis=1))), X)
  np.testing.assert_allclose(fn(X), np.maximum(np.cumsum(X, axis=1), 0), rtol=1e-6, atol=1e-6)
  relu = gc.convert_functional(jax2tf.convert(jax.nn.relu), 0.0)
  assert jax.grad(relu)(0.0) == 0.0


def test_a_module_for_another_platform_raises_unless_the_option_says_otherwise():
  tf_fn = tf.function(jax2tf.convert(jnp.sin, native_serialization_platforms=["tpu"]), autograph=False)
  fn = gc.convert_functional(tf_fn, X)
  with pytest.raises(ValueError, match="tpu"):
    jax.block_until_ready(jax.jit(fn)(X))
  with gc.override_config("xlacallmodule_strict_checks", False):
    np.testing.assert_allclose(fn(X), np.sin(X), rtol=1e-6)
