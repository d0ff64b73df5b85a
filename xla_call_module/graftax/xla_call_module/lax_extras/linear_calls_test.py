import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module.lax_extras.linear_calls import linear_call

X = np.array([0.5, 2.0, -1.0], np.float32)


def _scaled(x, t):
  """`3 * sin(x) * t`, whose given transpose lacks the 3."""
  return linear_call(lambda x, t: [3 * jnp.sin(x) * t], lambda x, ct: [jnp.sin(x) * ct], [x], [t])[0]


def test_forward_mode_is_the_function_and_reverse_mode_the_given_transpose():
  np.testing.assert_allclose(jax.jvp(lambda t: _scaled(X, t), (X,), (X + 1,))[1], 3 * np.sin(X) * (X + 1), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda t: _scaled(X, t).sum())(X), np.sin(X), rtol=1e-6)


def test_both_differentiate_with_respect_to_residuals():
  np.testing.assert_allclose(jax.grad(lambda x: _scaled(x, X).sum())(X), 3 * np.cos(X) * X, rtol=1e-5)
  pulled = jax.grad(lambda t, x: (_scaled(x, t) * X).sum())
  np.testing.assert_allclose(jax.grad(lambda x: pulled(X, x).sum())(X), np.cos(X) * X, rtol=1e-5)
  np.testing.assert_allclose(jax.jvp(lambda x: pulled(X, x), (X,), (X,))[1], np.cos(X) * X * X, rtol=1e-5)


def test_it_maps_and_compiles():
  batch = np.stack([X, X + 1])
  got = jax.jit(jax.vmap(jax.grad(lambda t, x: _scaled(x, t).sum()), (0, None)))(batch, X)
  np.testing.assert_allclose(got, np.broadcast_to(np.sin(X), (2, 3)), rtol=1e-6)
  np.testing.assert_allclose(jax.vmap(_scaled, (0, None))(batch, X), 3 * np.sin(batch) * X, rtol=1e-6)


def test_with_given_outputs_the_function_is_not_looked_at_before_it_is_needed():
  def refused(*_):
    raise NotImplementedError("no forward mode")

  def f(x):
    return linear_call(refused, lambda ct: [2 * ct], [], [x], [x])[0]

  got = jax.jit(jax.grad(lambda x: jnp.sin(x).sum() + f(x).sum()))(X)
  np.testing.assert_allclose(got, np.cos(X) + 2, rtol=1e-6)
  with pytest.raises(NotImplementedError, match="no forward mode"):
    f(X)
