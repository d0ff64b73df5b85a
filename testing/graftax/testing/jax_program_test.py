"""JAX functions as programs, written as SavedModels without TensorFlow and differentiated by TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import convert_program, jax_program
from graftax.savedmodel_io import load, write_saved_model

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
PARAMS = {"w": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), "b": np.ones(4, np.float32)}


@jax.custom_vjp
def _tripled(x):
  return jnp.sin(x)


_tripled.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (3 * cotangent * x**2,))


def _mlp(params, x):
  hidden = _tripled(x @ params["w"] + params["b"])
  return {"logits": hidden, "top": hidden.argmax(-1)}


def _open(*shape, dtype=np.float32):
  sizes = jax.export.symbolic_shape(",".join(map(str, shape)))
  return jax.ShapeDtypeStruct(sizes, dtype)


def _reloaded(path, *programs):
  write_saved_model(path, {"f": programs})
  return tf.saved_model.load(path)


def _derivatives(function, x):
  """Returns the gradient of the sum of a TensorFlow function, and the gradient of the sum of that."""
  with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
      inner.watch(x)
      total = tf.reduce_sum(function(x))
    first = inner.gradient(total, x)
  return first, outer.gradient(first, x)


def test_gradients_of_both_orders_work_after_reloading(tmp_path):
  model = _reloaded(tmp_path / "model", jax_program(_mlp, [_open("b", 3)], params=PARAMS))

  def loss(params, x):
    return _mlp(params, x)["logits"].sum()

  for num in (2, 5):
    x = np.random.default_rng(num).normal(size=(num, 3)).astype(np.float32)
    want = _mlp(PARAMS, x)
    found = model.f(x)
    np.testing.assert_allclose(found["logits"], want["logits"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["top"], want["top"])
    first, second = _derivatives(lambda x: model.f(x)["logits"], tf.constant(x))
    gradient = jax.grad(loss, 1)
    np.testing.assert_allclose(first, gradient(PARAMS, x), rtol=1e-4, atol=1e-5)
    again = jax.grad(lambda x: gradient(PARAMS, x).sum())(x)  # noqa: B023
    np.testing.assert_allclose(second, again, rtol=1e-4, atol=1e-4)
    with tf.GradientTape() as tape:
      total = tf.reduce_sum(model.f(x)["logits"])
    for variable, value in zip(model.variables, tape.gradient(total, model.variables), strict=True):
      np.testing.assert_allclose(value, jax.grad(loss)(PARAMS, x)[variable.name[:-2]], rtol=1e-4, atol=1e-4)


def test_second_order_survives_that_tensorflow_saves_the_model_again(tmp_path):
  program = jax_program(lambda params, x: jnp.sin(x * params), [_open("b", 3)], params=np.full(3, 2, np.float32))
  model = _reloaded(tmp_path / "written", program)
  outer = tf.Module()
  outer.model = model
  outer.f = tf.function(lambda x: model.f(x) * 3, input_signature=[tf.TensorSpec([None, 3])], autograph=False)
  for name, saved in (("first", outer), ("again", outer)):
    tf.saved_model.save(saved, tmp_path / name)
    outer = tf.saved_model.load(tmp_path / name)
    first, second = _derivatives(outer.f, tf.constant(X))
    np.testing.assert_allclose(first, 6 * np.cos(2 * X), rtol=1e-5)
    np.testing.assert_allclose(second, -12 * np.sin(2 * X), rtol=1e-5)
  fn, variables = load(tmp_path / "again").convert("f")
  gradient = jax.grad(lambda x: fn(variables, x)[0].sum())
  np.testing.assert_allclose(gradient(X), 6 * np.cos(2 * X), rtol=1e-5)
  np.testing.assert_allclose(jax.grad(lambda x: gradient(x).sum())(X), -12 * np.sin(2 * X), rtol=1e-5)


def test_results_without_cotangents_and_integers_may_have_open_shapes(tmp_path):
  def function(x, n):
    return jnp.sin(x), n.argmax(-1), x.sum(0), (x * n).ravel(), n

  model = _reloaded(
    tmp_path / "model", jax_program(function, jax.export.symbolic_args_specs((X, X.astype(int)), "b, c"))
  )
  n = np.arange(6, dtype=np.int32).reshape(2, 3)
  for i in (0, 2, 3):
    first, second = _derivatives(lambda x, i=i: model.f(x, n)[i], tf.constant(X))
    want = [np.cos(X), None, np.ones_like(X), n][i]
    np.testing.assert_allclose(first, want, rtol=1e-5)
    np.testing.assert_allclose(second, -np.sin(X) if i == 0 else np.zeros_like(X), rtol=1e-5)


def test_forward_mode_works_with_one_more_order(tmp_path):
  model = _reloaded(tmp_path / "model", jax_program(lambda x: x**3, [_open("b")], forward_mode=True))
  x = tf.constant([2.0, 3.0])
  with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = model.f(x)
    gradient = tape.gradient(y, x)
  np.testing.assert_allclose(accumulator.jvp(y), 3 * x**2, rtol=1e-6)
  np.testing.assert_allclose(accumulator.jvp(gradient), 6 * x, rtol=1e-6)


def test_complex_gradients_are_those_of_tensorflow(tmp_path):
  def function(z):
    return jnp.sin(z) * jnp.conj(z) * 1j

  z = tf.constant((X + 1j * X[::-1]).astype(np.complex64))
  model = _reloaded(tmp_path / "model", jax_program(function, [z.numpy()]))
  found = []
  for f in (model.f, lambda z: tf.sin(z) * tf.math.conj(z) * 1j):
    with tf.GradientTape() as tape:
      tape.watch(z)
      loss = tf.reduce_sum(tf.abs(f(z)) ** 2 * X + tf.math.real(f(z)))
    found.append(tape.gradient(loss, z))
  np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_traces_share_their_variables(tmp_path):
  programs = [
    jax_program(lambda w, x: x * w, [jax.ShapeDtypeStruct((n, 3), np.float32)], params=np.ones(3, np.float32))
    for n in (1, 2)
  ]
  model = _reloaded(tmp_path / "model", *programs)
  assert len(model.variables) == 1
  for n in (1, 2):
    with tf.GradientTape() as tape:
      y = model.f(tf.ones((n, 3)))
    np.testing.assert_allclose(tape.gradient(y, model.variables[0]), np.full(3, n))


def test_gradients_work_compiled_and_inside_other_functions(tmp_path):
  program = jax_program(lambda x, n: {"a": jnp.tanh(x) * n, "i": x.argmax()}, [_open("b", 3), np.int32(0)])
  model = _reloaded(tmp_path / "model", program)
  want = jax.grad(lambda x: (jnp.tanh(2 * x) * 3).sum())(X)
  for jit_compile in (False, True):

    @tf.function(jit_compile=jit_compile, autograph=False)
    def gradient(x):
      y = model.f(x * 2, tf.cast(tf.reduce_sum(x) + 3, tf.int32))["a"]
      return tf.gradients(y, x)[0]

    np.testing.assert_allclose(gradient(tf.constant(X)), want, rtol=1e-5)


def test_a_reloaded_function_without_gradient_rejects_differentiation(tmp_path):
  model = _reloaded(tmp_path / "model", jax_program(lambda x: x * 2, [X], with_gradient=False))
  with pytest.raises(LookupError, match="does not support gradients. Use `with_gradient`"):
    _derivatives(model.f, tf.constant(X))


def test_a_written_program_comes_back(tmp_path):
  program = jax_program(_mlp, [_open("b", 3)], params=PARAMS)
  write_saved_model(tmp_path / "model", {"f": program})
  for fn, variables in (convert_program(program), load(tmp_path / "model").convert("f")):
    found, want = fn(variables, X)[0], _mlp(PARAMS, X)
    np.testing.assert_allclose(found["logits"], want["logits"], rtol=1e-6)
    np.testing.assert_array_equal(found["top"], want["top"])
