"""Traced functions and their derivatives against JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import ConversionError
from graftax.convert.jax2tf.traced_function import trace
from graftax.xla_call_module import Module, lift

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@jax.custom_vjp
def clipped(x):
  return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (3 * cotangent + x,))


def run(traced, *args, **options):
  module = traced.call_module(**options)
  return lift(Module.from_call_module(**module.attributes))(*(args[i] for i in module.kept))


def test_arguments_and_results_are_flat_and_named():
  def function(batch, *rest, scale):
    return {"sum": batch["x"] + batch["y"][0], "scaled": [rest[1] * scale]}

  traced = trace(function, [{"y": [X], "x": X}, X, X], {"scale": 2.0})
  assert traced.input_names == ("batch_x", "batch_y_0", "rest_0", "rest_1", "scale")
  assert traced.output_names == ("scaled_0", "sum")
  assert traced.inputs[-1].shape == () and traced.inputs[-1].dtype == np.float32
  scaled, added = traced(X, X, X, X, np.float32(2))
  np.testing.assert_array_equal(scaled, 2 * X)
  np.testing.assert_array_equal(added, 2 * X)
  assert traced.out_tree.unflatten([1, 2]) == {"sum": 2, "scaled": [1]}


def test_module_computes_the_function():
  traced = trace(lambda x, unused, y: (jnp.sin(x), y + 1), [X, X, 3])
  found = run(traced, X, X, np.int32(3))
  np.testing.assert_allclose(found[0], np.sin(X), rtol=1e-6)
  assert found[1] == 4
  assert traced.call_module() is traced.call_module(None)


def test_gradient_is_the_vjp_with_custom_rules_in_any_order():
  traced = trace(lambda x, y: (clipped(x) * y, x.sum()), [X, X])
  gradient = traced.gradient()
  assert gradient is traced.gradient()
  cotangents = X + 2, np.float32(3)
  want = jax.vjp(lambda x, y: (clipped(x) * y, x.sum()), X, X)[1](cotangents)
  for found, expected in zip(run(gradient, X, X, *cotangents), want, strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  second = gradient.gradient()
  want = jax.vjp(lambda *args: tuple(gradient(*args)), X, X, *cotangents)[1]((X, X + 1))
  for found, expected in zip(run(second, X, X, *cotangents, X, X + 1), want, strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_loops_of_unknown_length_have_gradients_and_leave_custom_rules_alone():
  def function(x, limit):
    doubled = jax.lax.while_loop(lambda y: jnp.abs(y).sum() < limit, lambda y: y * y + 1, x)
    return clipped(doubled)

  def unrolled(x):
    for _ in range(2):
      x = x * x + 1
    return clipped(x)

  limit = np.float32(10)
  traced = trace(function, [jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), np.float32), limit])
  np.testing.assert_allclose(run(traced, X, limit)[0], unrolled(X), rtol=1e-6)
  found = run(traced.gradient(), X, limit, X + 2)
  np.testing.assert_allclose(found[0], jax.vjp(unrolled, X)[1](X + 2)[0], rtol=1e-5, atol=1e-5)
  assert found[1] == 0
  second = run(traced.gradient().gradient(), X, limit, X + 2, X, limit)
  want = jax.vjp(lambda x, ct: jax.vjp(unrolled, x)[1](ct)[0], X, X + 2)[1](X)
  np.testing.assert_allclose(second[0], want[0], rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(second[2], want[1], rtol=1e-4, atol=1e-4)


def test_integers_have_no_cotangents():
  traced = trace(lambda n, x: (n + 1, x * n), [np.int32(2), X])
  assert (traced.differentiable_inputs, traced.differentiable_outputs) == ((1,), (1,))
  (found,) = traced.gradient()(np.int32(2), X, X)
  np.testing.assert_array_equal(found, 2 * X)


def test_cotangents_of_complex_values_are_those_of_tensorflow():
  z = (X + 1j * X[::-1]).astype(np.complex64)
  traced = trace(lambda z: jnp.sin(z), [z])
  (found,) = traced.gradient()(z, jnp.ones_like(z))
  # tf.GradientTape().gradient(tf.sin(z), z) is the conjugate of the derivative.
  np.testing.assert_allclose(found, np.conj(np.cos(z)), rtol=1e-5)


def test_symbolic_dimensions_stay():
  b, c = jax.export.symbolic_shape("b, c")
  specs = [jax.ShapeDtypeStruct((b, c), np.float32), jax.ShapeDtypeStruct((b,), np.int32)]
  traced = trace(lambda x, n: (jnp.concatenate([x, x]).ravel() / x.shape[0], n.argmax(), n), specs)
  assert traced.outputs[0].shape == (2 * b * c,)
  gradient = traced.gradient()
  assert gradient.inputs[-1].shape == (2 * b * c,)
  found = run(gradient, X, np.arange(2, dtype=np.int32), np.ones(12, np.float32))
  np.testing.assert_allclose(found[0], np.ones((2, 3)), rtol=1e-6)


def test_random_keys_are_words():
  traced = trace(lambda key, x: (jax.random.normal(key, x.shape) + x, jax.random.split(key)), [jax.random.key(1), X])
  assert (traced.inputs[0].shape, traced.inputs[0].dtype) == ((2,), np.uint32)
  assert traced.outputs[1].shape == (2, 2)
  found = traced(jax.random.key_data(jax.random.key(1)), X)
  np.testing.assert_array_equal(found[0], jax.random.normal(jax.random.key(1), X.shape) + X)


def test_float0_results_are_booleans():
  def function(n, x):
    return jax.grad(lambda n: x * n, allow_int=True)(n)

  traced = trace(function, [2, np.float32(3)])
  assert traced.outputs[0].dtype == np.bool_


def test_width_of_types_is_that_of_tracing():
  with jax.enable_x64(True):
    traced = trace(lambda x: jnp.sin(x), [np.float64(1)])
  assert traced.call_module().inputs[0].dtype == np.float64
  assert traced.gradient().outputs[0].dtype == np.float64
  assert trace(lambda x: x, [np.float64(1)]).inputs[0].dtype == np.float32


def test_what_is_not_an_array_raises():
  with pytest.raises(ConversionError, match=r"f: argument 'mode_kind' is 'text'"):
    trace(lambda mode: mode, [{"kind": "text"}], name="f")
  with pytest.raises(ConversionError, match="dtype object"):
    trace(lambda x: x, [np.array([None])])
  with pytest.raises(ConversionError, match="got a int"):
    trace(3, [])


class _Model:
  def __call__(self, params, x):
    return x if params["scale"] > 0 else -x


def _model(params, x):
  return _Model()(params, x)


@pytest.mark.parametrize(
  ("function", "name"), [(_model, "_model"), (functools.partial(_model), "_model"), (_Model(), "__call__")]
)
def test_errors_of_jax_name_the_function_of_the_caller_and_its_argument(function, name):
  with pytest.raises(jax.errors.TracerBoolConversionError) as raised:
    trace(function, [{"scale": 1.0}, 2.0], name=name)
  assert f"the function {name} at {__file__}:" in str(raised.value)
  assert "the value of the argument params_scale." in str(raised.value)
