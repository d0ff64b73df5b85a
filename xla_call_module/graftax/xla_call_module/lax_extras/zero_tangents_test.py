import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.xla_call_module.lax_extras.linear_calls import linear_call
from graftax.xla_call_module.lax_extras.zero_tangents import keeping_zero_tangents, keeps_zero_tangents

X = np.array([0.0, -1.0, 4.0, np.nan], np.float32)
_root = keeping_zero_tangents(lax.sqrt)


def _masked(x):
  return jnp.sum(jnp.where(x > 0, _root(x), 0.0))


def test_zero_stays_zero_where_the_derivative_is_infinite_or_undefined():
  assert np.isnan(jax.grad(lambda x: jnp.sum(jnp.where(x > 0, lax.sqrt(x), 0.0)))(X)[:2]).all()
  np.testing.assert_array_equal(jax.grad(_masked)(X), [0, 0, 0.25, 0])
  np.testing.assert_array_equal(jax.jvp(_root, (X,), (np.array([0, 0, 2, 0], np.float32),))[1], [0, 0, 0.5, 0])


def test_other_tangents_have_the_derivative_of_jax():
  ones = np.ones_like(X)
  np.testing.assert_array_equal(jax.jvp(_root, (X,), (ones,))[1], jax.jvp(lax.sqrt, (X,), (ones,))[1])
  np.testing.assert_array_equal(jax.vjp(_root, X)[1](ones)[0], jax.vjp(lax.sqrt, X)[1](ones)[0])
  z = np.array([1 + 2j, -3 - 1j], np.complex64)
  np.testing.assert_allclose(jax.vjp(_root, z)[1](z)[0], jax.vjp(lax.sqrt, z)[1](z)[0], rtol=1e-6)


def test_derivatives_of_higher_orders_keep_zeros_too():
  second = jax.grad(lambda x: jnp.sum(jax.grad(_masked)(x)))(X)
  np.testing.assert_allclose(second, [0, 0, -1 / 32, 0], rtol=1e-6)
  third = jax.jacfwd(jax.jacrev(jax.grad(_masked)))(X)
  np.testing.assert_allclose(third[2, 2, 2], 3 / 8 * 4.0**-2.5, rtol=1e-6)
  assert np.isfinite(third).all()


def test_they_map_compile_and_repeat():
  mapped = jax.jit(jax.vmap(jax.grad(_masked)))(np.stack([X, X]))
  np.testing.assert_array_equal(mapped, [[0, 0, 0.25, 0]] * 2)
  repeated = jax.grad(lambda x: lax.scan(lambda total, row: (total + _masked(row), None), 0.0, x)[0])
  np.testing.assert_array_equal(repeated(np.stack([X, X])), [[0, 0, 0.25, 0]] * 2)


def test_their_equations_are_told_from_others():
  def names(function):
    return [keeps_zero_tangents(e) for e in jax.make_jaxpr(function)(X).jaxpr.eqns if "call" in e.primitive.name]

  assert names(_root) == names(jax.vmap(_root)) == [True]
  assert True in names(jax.vmap(jax.grad(lambda x: _root(x))))
  assert names(jax.nn.relu) in ([], [False])
  assert names(lambda x: linear_call(lambda t: [t], lambda t: [t], [], [x])) == [False]
