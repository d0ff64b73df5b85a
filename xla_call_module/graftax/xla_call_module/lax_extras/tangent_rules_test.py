import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module.lax_extras.tangent_rules import call_with_tangents

X = np.array([0.5, 2.0, -1.0], np.float32)


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


def test_functions_with_primitives_that_jax_expands_run_in_loops():
  rows = jnp.arange(4.0)

  def step(x, _):
    (y,) = call_with_tangents(
      lambda x: [x + jnp.searchsorted(rows, x)], lambda operands, results, tangents: [tangents[0]], [x]
    )
    return y, y

  loop = jax.jit(lambda x: jax.lax.scan(step, x, None, length=2)[1])
  np.testing.assert_array_equal(loop(0.5), [1.5, 3.5])
  np.testing.assert_array_equal(jax.jacfwd(loop)(0.5), [1, 1])
