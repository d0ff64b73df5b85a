import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert import convert_program, jax_program

_LARGE = np.random.default_rng(0).normal(size=(600, 600)).astype(np.float32) / 25
_X = np.linspace(-1, 1, 1200, dtype=np.float32).reshape(2, 600)


def _within(x):
  large = jnp.asarray(_LARGE)
  x = jax.jit(lambda x: jnp.sin(x @ large))(x)
  x = lax.fori_loop(0, 2, lambda i, x: jnp.tanh(x @ large), x)
  return lax.cond(x.sum() > 0, lambda x: x @ large, lambda x: x * 2, x)


def _stored(program):
  """Returns the sizes in bytes of modules and constants."""
  nodes = [node for function in (program.function, *program.library.values()) for node in function.nodes]
  modules = [len(node.attrs["module"]) for node in nodes if node.op == "XlaCallModule"]
  return modules, [node.attrs["value"].size * 4 for node in nodes if node.op == "Const"]


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_a_large_constant_is_written_once_and_derivatives_of_all_orders_use_it(lowering):
  program = jax_program(_within, [_X], lowering=lowering, gradient_order=2)
  modules, constants = _stored(program)
  assert len(program.gradients) == 2 and all(size < 100_000 for size in modules)
  assert [size for size in constants if size > 100_000] == [_LARGE.nbytes]
  fn, params = convert_program(program)

  def loss(function):
    return lambda x: (function(x) ** 2).sum()

  ours = loss(lambda x: fn(params, x)[0])
  np.testing.assert_allclose(fn(params, _X)[0], _within(_X), rtol=1e-4, atol=1e-5)
  for order in (jax.grad, lambda f: jax.grad(lambda x: jax.grad(f)(x)[0, :9].sum())):
    np.testing.assert_allclose(order(ours)(_X), order(loss(_within))(_X), rtol=1e-3, atol=1e-4)


def test_functions_with_other_constants_have_other_names():
  def function(large):
    return lambda x: x @ jnp.asarray(large)

  names = {jax_program(function(large), [_X], name="f").function.name for large in (_LARGE, _LARGE * 2, _LARGE * 2)}
  assert len(names) == 2


def test_small_constants_and_parameters_stay_where_they_are():
  program = jax_program(lambda p, x: x @ p + jnp.asarray(_X[0]), [_X], params=_LARGE)
  assert _stored(program)[1] == [] and len(program.variables) == 1
