import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun
from jax.test_util import check_grads

from graftax.xla_call_module import Module, lift
from graftax.xla_call_module.exporting import export_call_module, reversible


def _power(x, n):
  """Returns `x ** n` for a traced `n`."""
  return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * x), (0, jnp.ones_like(x)))[1]


def _in_branch(x, n):
  return jax.lax.cond(n > 2, lambda x: _power(x, n), jnp.sin, x)


def _in_scan(x, n):
  return jax.lax.scan(lambda c, k: (c + _power(x, k), c), jnp.zeros_like(x), jnp.arange(n.dtype.type(4)), reverse=True)[
    0
  ]


def _in_while(x, n):
  return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + _power(x, s[0])), (n - n, x))[1]


def _under_jit(x, n):
  return jax.jit(_power)(x, n) * x


def _under_checkpoint(x, n):
  return jnp.sin(jax.checkpoint(_power)(x, n))


@pytest.mark.parametrize(
  "function",
  [
    _in_while,
    *(pytest.param(f, marks=pytest.mark.slow) for f in (_power, _in_branch, _in_scan, _under_jit, _under_checkpoint)),
  ],
)
def test_reverse_mode_equals_differences(function):
  with jax.enable_x64(True):
    n = jnp.int32(3)
    changed = reversible(function)
    x = jnp.array([0.7, 1.3])
    np.testing.assert_allclose(changed(x, n), function(x, n), rtol=1e-12)
    check_grads(lambda x: changed(x, n), (x,), order=2, modes=["rev"], rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients_stay_reversible_when_traced():
  def first(x):
    return jax.grad(lambda x: reversible(_power)(x, jnp.int32(4)))(x)

  traced = jaxpr_as_fun(jax.make_jaxpr(first)(2.0))
  assert float(jax.grad(lambda x: reversible(traced)(x)[0])(2.0)) == 48.0


@jax.custom_vjp
def _clipped(x):
  return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]


_clipped.defvjp(lambda x: (_clipped(x), x), lambda x, ct: (jnp.full_like(x, 7) * ct,))


def test_custom_rules_elsewhere_are_kept():
  function = reversible(lambda x, n: _clipped(x) + _power(x, n))
  assert float(jax.grad(function)(2.0, 2)) == 7 + 4


@jax.custom_jvp
def _stepped(x):
  return jnp.round(x)


_stepped.defjvp(lambda primals, tangents: (_stepped(*primals), 5 * tangents[0]))


def test_custom_rules_inside_of_loops_are_kept():
  function = reversible(lambda x, n: jax.lax.fori_loop(0, n, lambda _, y: y + _stepped(x), x))
  assert float(jax.grad(function)(2.0, 3)) == 1 + 3 * 5


def test_functions_without_loops_stay_as_they_are():
  def function(x, y):
    return {"sum": jnp.sin(x) + y["z"]}

  args = 1.0, {"z": jnp.arange(2.0)}
  assert str(jax.make_jaxpr(reversible(function))(*args)) == str(jax.make_jaxpr(function)(*args))


def test_captured_tracers_have_derivatives():
  def outer(w):
    return reversible(lambda n: _power(w, n))(jnp.int32(3))

  assert float(jax.grad(outer)(2.0)) == 12.0


def test_symbolic_batches_export_with_their_gradient():
  (b,) = jax.export.symbolic_shape("b")
  function = reversible(_power)
  specs = [jax.ShapeDtypeStruct((b, 2), np.float32), jax.ShapeDtypeStruct((), np.int32)]
  module = export_call_module(lambda x, n: [jax.grad(lambda x: jnp.sum(function(x, n)))(x)], specs)
  x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
  (got,) = lift(Module.from_call_module(**module.attributes))(x, np.int32(3))
  np.testing.assert_allclose(got, 3 * x**2, rtol=1e-6)


def test_the_condition_of_a_batch_is_asked_once_for_all_variables():
  def function(x):
    def test(state):
      return jnp.cosh(sum(state)) < 10

    return jax.vmap(lambda y: jax.lax.while_loop(test, lambda s: [a + 0.5 for a in s], [y] * 6))(x)

  # Once to test whether a row is left, and once for the rows that are finished.
  assert str(jax.make_jaxpr(reversible(function))(np.ones(3, np.float32))).count("cosh") == 2


def test_elements_of_a_batch_stop_one_after_the_other():
  def function(x):
    def grow(row, first):
      return jax.lax.while_loop(lambda s: s[0].sum() < 10, lambda s: (s[0] * 1.5 + first, s[1] + 1), (row, 0))[0]

    return jax.vmap(grow)(x, x[:, 0])

  x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
  want = jax.jacfwd(function)(x)
  np.testing.assert_allclose(jax.jacrev(reversible(function))(x), want, rtol=1e-6)
  symbolic = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("b"), 2), np.float32)
  module = export_call_module(lambda x: [jax.grad(lambda x: reversible(function)(x).sum())(x)], [symbolic])
  (got,) = lift(Module.from_call_module(**module.attributes))(x)
  np.testing.assert_allclose(got, want.sum((0, 1)), rtol=1e-6)
