import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module.linear_calls import call_with_tangents, closed, linear_call

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


def _other_sine(x):
  """Its derivative is `2 * sin(x)`."""

  def rule(operands, results, tangents):
    return [None if tangents[0] is None else tangents[0] * 2 * jnp.sin(operands[0]), None]

  return call_with_tangents(lambda x, n: [jnp.sin(x), n + 1], rule, [x, jnp.int32(3)])[0]


@pytest.mark.parametrize("loop", [False, True], ids=["unrolled", "scan"])
def test_a_given_derivative_is_used_in_every_mode_and_order(loop):
  def f(x):
    if loop:
      return jax.lax.scan(lambda c, _: (_other_sine(c) * x, None), x, None, length=2)[0].sum()
    return (_other_sine(_other_sine(x) * x) * x).sum()

  # By hand: y = s(x) x, f = s(y) x, with s' = 2 sin wherever s stands.
  s, y = np.sin(X), np.sin(X) * X
  dy = 2 * s * X + s
  want = 2 * np.sin(y) * dy * X + np.sin(y)
  np.testing.assert_allclose(jax.grad(f)(X), want, rtol=1e-5)
  np.testing.assert_allclose(jax.jvp(f, (X,), (X,))[1], (want * X).sum(), rtol=1e-5)
  np.testing.assert_allclose(jax.vmap(jax.grad(f))(np.stack([X, X]))[1], want, rtol=1e-5)
  np.testing.assert_allclose(jax.hessian(f)(X), jax.jacrev(jax.grad(f))(X), rtol=1e-5, atol=1e-6)


def test_second_derivatives_in_a_scan_are_those_of_the_unrolled_loop():
  def unrolled(x):
    return _other_sine(_other_sine(_other_sine(x)))

  def scanned(x):
    return jax.lax.scan(lambda c, _: (_other_sine(c), None), x, None, length=3)[0]

  np.testing.assert_allclose(jax.grad(jax.grad(scanned))(0.7), jax.grad(jax.grad(unrolled))(0.7), rtol=1e-5)


def test_a_function_with_a_given_derivative_can_be_transposed():
  def f(t):
    return call_with_tangents(lambda x, t: [jnp.sin(x) * t], lambda *_: [None], [X, t])[0]

  np.testing.assert_allclose(jax.linear_transpose(f, X)(X)[0], np.sin(X) * X, rtol=1e-6)


def test_what_a_function_closes_over_becomes_arguments():
  @jax.jit
  def outer(x):
    inner = closed(lambda y: {"sum": y + x}, X)
    return inner.function(*[2 * value for value in inner.values], X)[0]

  np.testing.assert_allclose(outer(X * 4), 8 * X + X)
  assert not closed(jnp.sin, X).has_effects
  assert closed(lambda x: jax.debug.print("{}", x), X).has_effects
