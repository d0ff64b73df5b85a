"""Captured variables: read at every call, captured by `jax2tf.convert`, explicit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import ParameterError, VariableWriteError, jax2tf

_X = np.float32([0.5, -1.0])


def _scale(v):
  return jax2tf.call_tf(lambda x: x * v)


@pytest.mark.parametrize(
  "transform",
  [
    lambda f: f,
    jax.jit,
    lambda f: jax.jit(jax.jit(f)),
    lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x]))[1],
    lambda f: jax.jit(lambda x: jax.vmap(f)(jnp.stack([x, x]))[1]),
    lambda f: jax.jit(lambda x: jax.lax.scan(lambda c, _: (c, f(x)), 0, None, 3)[1][2]),
    lambda f: jax.jit(lambda x: jax.lax.cond(x[0] > 0, f, lambda x: x, x)),
    lambda f: jax.jit(lambda x: jax.vjp(f, x)[1](x)[0]),
    lambda f: lambda x: jax.vjp(f, x)[1](x)[0],
    lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
    lambda f: jax.jit(lambda x: jax.jvp(jax.checkpoint(f), (x,), (x,))[1]),
    lambda f: jax.jit(lambda x: jax.vjp(jax.checkpoint(f), x)[1](x)[0]),
  ],
)
def test_a_variable_that_was_assigned_is_seen(transform):
  v = tf.Variable(1.0)
  f = transform(_scale(v))
  np.testing.assert_allclose(f(_X), _X)
  v.assign(3.0)
  np.testing.assert_allclose(f(_X), 3 * _X)
  v.assign_add(1.0)
  np.testing.assert_allclose(f(_X), 4 * _X)


def test_variables_of_64_bits_are_narrowed():
  v = tf.Variable(np.float64([1.5, 2.5]))
  f = jax.jit(jax2tf.call_tf(lambda: v + 0))
  assert f().dtype == np.float32
  v.assign([3.0, 4.0])
  np.testing.assert_array_equal(f(), [3, 4])
  with jax.enable_x64(True):
    assert jax2tf.call_tf(lambda: v + 0)().dtype == np.float64


def test_variables_of_dtypes_that_numpy_lacks():
  v = tf.Variable(tf.cast([1.5, 2.5], tf.bfloat16))
  f = jax.jit(jax2tf.call_tf(lambda: v + 1))
  assert f().dtype == jnp.bfloat16
  v.assign([3.0, 4.0])
  np.testing.assert_array_equal(f(), [4, 5])


def test_a_call_without_variables_has_no_callback():
  text = jax.jit(jax2tf.call_tf(lambda x: x * 2)).lower(_X).as_text()
  assert "callback" not in text


def test_several_variables_are_read_by_one_callback():
  variables = [tf.Variable(float(i)) for i in range(5)]
  lowered = jax.jit(jax2tf.call_tf(lambda x: x + sum(variables))).lower(_X)
  assert lowered.as_text().count("xla_ffi_python_cpu_callback") == 1
  assert str(jax.make_jaxpr(jax2tf.call_tf(lambda x: x + sum(variables)))(_X)).count("read_tensorflow_variables") == 1


def test_writes_work_eagerly():
  v = tf.Variable(1.0)
  f = jax2tf.call_tf(lambda x: v.assign_add(tf.reduce_sum(x)))
  assert float(f(_X)) == 0.5
  assert float(v) == 0.5


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, lambda f: lambda x: jax.jvp(f, (x,), (x,))])
def test_writes_inside_of_a_transformation_are_an_error_that_shows_the_explicit_form(transform):
  v = tf.Variable(1.0, name="total")

  def count(x):
    v.assign_add(1.0)
    return x * v

  with pytest.raises(VariableWriteError, match=r"count writes the variables \['total'\].*\n.*variables='explicit'"):
    transform(jax2tf.call_tf(count))(_X)
  assert float(v) == 1.0


def test_writes_in_branches_and_loops_are_found():
  v = tf.Variable(1.0)

  def f(x):
    tf.cond(x[0] > 100.0, lambda: v.assign(2.0), lambda: v.read_value())
    return x

  with pytest.raises(VariableWriteError):
    jax.jit(jax2tf.call_tf(f))(_X)


def test_explicit_variables_are_taken_and_returned():
  v = tf.Variable(2.0, name="v")
  w = tf.Variable([1.0, 1.0], name="w")

  def f(x):
    v.assign_add(1.0)
    return x * v * w

  g = jax2tf.call_tf(f, variables="explicit")
  variables = g.variables(_X)
  assert {name: value.tolist() for name, value in variables.items()} == {"v": 2.0, "w": [1.0, 1.0]}
  for call in (g, jax.jit(g)):
    result, new = call(variables, _X)
    np.testing.assert_allclose(result, 3 * _X)
    assert float(new["v"]) == 3.0
    np.testing.assert_array_equal(new["w"], variables["w"])
  assert float(v) == 2.0
  gradient = jax.grad(lambda variables: g(variables, _X)[0].sum())(jax.tree.map(jnp.asarray, variables))
  np.testing.assert_allclose(gradient["w"], 3 * _X)
  v.assign(5.0)
  assert float(g.variables(_X)["v"]) == 5.0


def test_explicit_variables_have_the_names_of_the_function():
  v = tf.Variable(2.0, name="v")
  g = jax2tf.call_tf(lambda x: x * v, variables="explicit")
  with pytest.raises(ParameterError, match=r"missing \['v'\], unknown \['w'\]"):
    g({"w": 1.0}, _X)
  with pytest.raises(ParameterError, match="must be a dict of variables by name; got a ndarray"):
    g(_X, _X)


def test_the_state_of_a_generator_is_explicit():
  generator = tf.random.Generator.from_seed(3)
  g = jax2tf.call_tf(lambda x: x + generator.normal([2]), variables="explicit")
  variables = g.variables(_X)
  first, variables = jax.jit(g)(variables, _X)
  second, _ = jax.jit(g)(variables, _X)
  np.testing.assert_allclose(first, _X + generator.normal([2]).numpy(), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(second, _X + generator.normal([2]).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inner", [lambda f: f, jax.jit, jax.checkpoint])
def test_jax2tf_convert_captures_the_variable(inner):
  v = tf.Variable(2.0, name="v")
  called = inner(_scale(v))
  converted = jax2tf.convert(lambda x: called(x) + 1.0)
  f = tf.function(converted, autograph=False)
  for run in (f, converted):
    v.assign(2.0)
    np.testing.assert_allclose(run(_X), 2 * _X + 1)
    v.assign(3.0)
    np.testing.assert_allclose(run(_X), 3 * _X + 1)
    with tf.GradientTape() as tape:
      y = tf.reduce_sum(run(_X))
    np.testing.assert_allclose(tape.gradient(y, v), _X.sum())
  assert [variable.name for variable in f.get_concrete_function(_X).variables] == ["v:0"]
  v.assign(4.0)
  np.testing.assert_allclose(jax.jit(called)(_X), 4 * _X)


def test_a_captured_variable_is_saved(tmp_path):
  module = tf.Module()
  module.v = tf.Variable(2.0)
  module.f = tf.function(jax2tf.convert(_scale(module.v)), autograph=False, input_signature=[tf.TensorSpec([2])])
  tf.saved_model.save(module, tmp_path)
  loaded = tf.saved_model.load(tmp_path)
  loaded.v.assign(5.0)
  np.testing.assert_allclose(loaded.f(_X), 5 * _X)


def test_a_scanned_call_is_captured_by_jax2tf_convert():
  v = tf.Variable(2.0)
  f = _scale(v)
  converted = jax2tf.convert(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, 3)[0])
  np.testing.assert_allclose(converted(_X), 8 * _X)
  v.assign(1.0)
  np.testing.assert_allclose(converted(_X), _X)
