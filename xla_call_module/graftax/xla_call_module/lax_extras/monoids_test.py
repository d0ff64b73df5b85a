import jax
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import monoid_of_primitive, only_primitive, unwrapped
from graftax.xla_call_module.lax_extras.monoids import MONOIDS


def _traced(function):
  scalar = jax.ShapeDtypeStruct((), np.float32)
  return jax.make_jaxpr(function)(scalar, scalar)


@pytest.mark.parametrize(
  "function, name",
  [
    (lax.add, "add"),
    (lambda x, y: lax.max(y, x), "max"),
    (lambda x, y: jax.jit(jax.jit(lax.mul))(x, y), "mul"),
    (lambda x, y: x + x, None),
    (lambda x, y: x + 1, None),
    (lambda x, y: jax.jit(lax.sub)(y, x) + 1, None),
    (lambda x, y: jax.jit(lambda a, b: a + b)(x, x), None),
    (lambda x, y: lax.fori_loop(0, 3, lambda _, z: z + y, x), None),
    (lambda x, y: y, None),
  ],
)
def test_the_only_primitive_is_that_of_both_arguments(function, name):
  assert only_primitive(_traced(function)) == name


def test_a_function_with_a_derivative_of_its_own_is_another_one_unless_that_is_ignored():
  maximum = jax.custom_jvp(lambda x, y: lax.max(x, y))
  maximum.defjvp(lambda primals, tangents: (maximum(*primals), tangents[0]))
  traced = _traced(maximum)
  assert only_primitive(traced) == "custom_jvp_call"
  assert only_primitive(traced, ignores_rules=True) == "max"


def test_a_call_that_returns_an_argument_is_unwrapped():
  second = jax.custom_jvp(lambda x, y: y)
  second.defjvp(lambda primals, tangents: (second(*primals), tangents[0]))
  jaxpr = unwrapped(_traced(second), ignores_rules=True)
  assert jaxpr.outvars == [jaxpr.invars[1]]


def test_every_monoid_is_that_of_its_primitive():
  found = {name: monoid_of_primitive(only_primitive(jax.make_jaxpr(f)(1, 1))) for name, f in MONOIDS.items()}
  assert found == {name: name for name in MONOIDS}
  assert monoid_of_primitive("sub") is None
