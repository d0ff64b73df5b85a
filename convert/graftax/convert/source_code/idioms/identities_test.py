"""Functions with a gradient of their own, as TensorFlow stores them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert.source_code.api import to_source

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
