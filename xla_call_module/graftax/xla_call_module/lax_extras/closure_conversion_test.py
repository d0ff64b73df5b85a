import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module.lax_extras.closure_conversion import closed

X = np.array([0.5, 2.0, -1.0], np.float32)


def test_what_a_function_closes_over_becomes_arguments():
  @jax.jit
  def outer(x):
    inner = closed(lambda y: {"sum": y + x}, X)
    return inner.function(*[2 * value for value in inner.values], X)[0]

  np.testing.assert_allclose(outer(X * 4), 8 * X + X)
  assert not closed(jnp.sin, X).has_effects
  assert closed(lambda x: jax.debug.print("{}", x), X).has_effects
