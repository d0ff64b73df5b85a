"""Stateful random ops: TensorFlow's in eager calls, refused or explicit inside of transformations."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import MissingInputError, jax2tf

_X = np.zeros([1000], np.float32)


def _noisy(x):
  return x + tf.random.uniform([1000]), tf.random.normal([1000])


def test_eager_calls_draw_the_numbers_of_tensorflow():
  f = jax2tf.call_tf(_noisy)
  tf.random.set_seed(7)
  expected = [_noisy(tf.constant(_X)), _noisy(tf.constant(_X))]
  tf.random.set_seed(7)
  for values in expected:
    for found, value in zip(f(_X), values, strict=True):
      np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize(
  "transform", [jax.jit, lambda f: lambda x: jax.vmap(f)(x[None]), lambda f: lambda x: jax.jvp(f, (x,), (x,))]
)
def test_transformations_refuse_them_and_show_the_explicit_form(transform):
  with pytest.raises(
    MissingInputError, match=r"(?s)_noisy draws random numbers.*'rng'.*variables='explicit'.*stateless"
  ):
    transform(jax2tf.call_tf(_noisy))(_X)


def test_jax2tf_convert_refuses_them():
  with pytest.raises(MissingInputError, match="_noisy draws random numbers"):
    jax2tf.convert(jax2tf.call_tf(_noisy))(_X)


def test_explicit_variables_hold_a_key_that_changes_with_each_call():
  f = jax2tf.call_tf(_noisy, variables="explicit")
  variables = f.variables(_X)
  assert list(variables) == ["rng"]
  drawn = []
  for _ in range(3):
    (uniform, normal), new = jax.jit(f)(variables, _X)
    again, _ = f(variables, _X)
    np.testing.assert_array_equal(again[0], uniform)
    # Bounds of 6 standard errors.
    assert abs(float(uniform.mean()) - 0.5) < 6 * (1 / 12 / 1000) ** 0.5 and 0 <= uniform.min() <= uniform.max() < 1
    assert abs(float(normal.mean())) < 6 / 1000**0.5 and abs(float(normal.std()) - 1) < 6 / 2000**0.5
    drawn += [np.asarray(uniform), np.asarray(normal)]
    variables = new
  assert len({array.tobytes() for array in drawn}) == len(drawn)


def test_the_seed_of_tensorflow_decides_the_first_key():
  f = jax2tf.call_tf(_noisy, variables="explicit")
  keys = []
  for seed in (7, 7, 8):
    tf.random.set_seed(seed)
    keys.append(f.variables(_X)["rng"].tolist())
  assert keys[0] == keys[1] != keys[2]
  assert f.variables(_X)["rng"].tolist() != f.variables(_X)["rng"].tolist()


def test_the_backward_pass_uses_the_numbers_of_the_forward_pass():
  f = jax2tf.call_tf(lambda x: x * tf.random.uniform([1000]), variables="explicit")
  x = _X + 2.0
  variables = f.variables(x)
  for function in (f, jax.checkpoint(f)):
    y, pullback = jax.vjp(lambda x, function=function: function(variables, x)[0], x)
    np.testing.assert_allclose(pullback(np.ones_like(x))[0], y / x, rtol=1e-6)


def test_a_key_is_exported_with_the_function():
  f = jax2tf.call_tf(_noisy, variables="explicit")
  variables = f.variables(_X)
  exported = jax.export.export(jax.jit(f))(variables, _X)
  found, new = exported.call(variables, _X)
  np.testing.assert_array_equal(found[0], jax.jit(f)(variables, _X)[0][0])
  assert new["rng"].tolist() != variables["rng"].tolist()


def test_a_missing_key_is_an_error():
  f = jax2tf.call_tf(_noisy, variables="explicit")
  with pytest.raises(MissingInputError, match="a PRNG key named 'rng'"):
    f({}, _X)


def test_the_key_has_another_name_if_a_variable_has_this_one():
  v = tf.Variable(2.0, name="rng")
  f = jax2tf.call_tf(lambda x: x * v + tf.random.uniform([]), variables="explicit")
  variables = f.variables(_X)
  assert set(variables) == {"rng", "rng_"} and float(variables["rng"]) == 2.0
  assert set(f(variables, _X)[1]) == {"rng", "rng_"}


def test_functions_without_random_ops_have_no_key():
  assert jax2tf.call_tf(tf.sin, variables="explicit").variables(_X) == {}
  stateless = jax2tf.call_tf(lambda x: x + tf.random.stateless_uniform([1000], [1, 2]), variables="explicit")
  assert stateless.variables(_X) == {}
