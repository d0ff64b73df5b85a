"""Functions with a gradient of their own, as TensorFlow stores them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert.source_code.api import to_source
from graftax.convert.source_code.idioms.identities import DERIVATIVES

_X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)


def _identity(first):
  """Returns an identity of a function's result and its argument; `first` is the derivative of the result."""

  @jax.custom_vjp
  def call(y, x):
    return y, x

  call.defvjp(lambda y, x: ((y, x), x), lambda x, g: (first(g[0]), 3.0 * x * g[0]))
  return call


def _compared(function):
  source = to_source(function, _X)
  found = source.function()

  def loss(function, x):
    return jnp.sum(jnp.sin(function(x)))

  np.testing.assert_array_equal(jax.jit(found)(_X), jax.jit(function)(_X))
  gradients = [jax.jit(jax.grad(loss, 1), static_argnums=0)(f, _X) for f in (found, function)]
  np.testing.assert_array_equal(*gradients)
  return source.text


def test_the_function_and_its_identity_are_one_function_for_all_shapes():
  identity = _identity(jnp.zeros_like)

  def activation(x):
    return identity(jax.nn.silu(x), x)[0]

  text = _compared(lambda x: activation(activation(x)[:1]))
  assert text.count("@jax.custom_vjp") == 1
  assert "\ndef silu(x):\n    return jax.nn.silu(x)\n" in text
  assert "zeros" not in text


@pytest.mark.parametrize("name", DERIVATIVES)
def test_known_derivatives_are_those_of_jax(name):
  x = np.concatenate([np.linspace(-100, 100, 4001), np.linspace(-3, 3, 4001), [0.0, -0.0]])
  function = getattr(jax.nn, name)
  with jax.enable_x64(True):
    wanted = jax.vjp(function, x)[1](np.cos(x))[0]
    found = DERIVATIVES[name](x, np.cos(x))
  np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)


def test_a_function_with_the_derivative_that_it_has_in_jax_is_called():
  @jax.custom_vjp
  def identity(y, x):
    return y, x

  def backward(x, cotangents):
    y = jax.nn.sigmoid(x)
    return jnp.zeros_like(x), cotangents[0] * (y * (1.0 + x * (1.0 - y)))

  identity.defvjp(lambda y, x: ((y, x), x), backward)
  source = to_source(lambda x: identity(jax.nn.silu(x), x)[0], _X)
  assert "return jax.nn.silu(x)\n" in source.text and "custom_vjp" not in source.text


@pytest.mark.parametrize(
  "function",
  [
    lambda x: _identity(lambda g: 2 * g)(jax.nn.silu(x), x)[0],
    lambda x: sum(_identity(jnp.zeros_like)(jax.nn.silu(x), x)),
    lambda x: _identity(jnp.zeros_like)(jnp.sqrt(x * x), x)[0],
    lambda x: _identity(jnp.zeros_like)(jax.nn.silu(x), x)[1],
  ],
)
def test_what_is_not_a_function_with_its_own_gradient_stays(function):
  assert "def silu(" not in _compared(function)
