"""Every public function of `jax.scipy.special`, `jax.lax` and `jax.lax.linalg`, through `jax.export` and lifting."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.testing.public_functions import MODULES, NOT_CALLED, PublicFunction, public_functions
from graftax.xla_call_module import Module, lift

_TOLERANCE = {"value": 2e-5, "jvp": 2e-4, "vjp": 2e-4, "second order": 1e-3, "second order, forward": 1e-3}


def test_every_public_function_has_an_example_or_a_reason():
  names = {
    f"{module}.{name}"
    for module, functions in MODULES.items()
    for name in dir(functions)
    if not name.startswith("_") and not name.endswith("_p") and callable(getattr(functions, name))
    if not inspect.ismodule(getattr(functions, name))
  }
  known = {call.name for call in public_functions()} | {name for names in NOT_CALLED.values() for name in names.split()}
  assert not names - known


@pytest.mark.slow
@pytest.mark.parametrize("call", [pytest.param(call, id=call.label) for call in public_functions()])
def test_lifted_function_has_every_derivative_that_jax_has(call: PublicFunction):
  specs = [jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype) for a in call.args]

  def flat(*args):
    return tuple(jax.tree.leaves(call.function(*args)))

  lifted = lift(Module.from_exported(jax.export.export(jax.jit(flat))(*specs)), gradient="primal")
  compared = 0
  for what, derivative in _derivatives(call).items():
    try:
      want = derivative(flat)
    except Exception:  # JAX has no such derivative
      continue
    got = derivative(lifted)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
      assert a.shape == b.shape and a.dtype == b.dtype, what
      _assert_close(a, b, _TOLERANCE[what] * call.loose, what)
    compared += 1
  assert compared


def _assert_close(got, want, tolerance, what):
  """Compares where JAX's value is a number: for gradients it is NaN at some points where ours is right."""
  kind = np.complex128 if jnp.issubdtype(want.dtype, jnp.complexfloating) else np.float64
  got, want = np.asarray(got).astype(kind), np.asarray(want).astype(kind)
  if what != "value":
    got = np.where(np.isnan(want), want, got)
  np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=what)


def _derivatives(call: PublicFunction):
  inexact = [i for i, a in enumerate(call.args) if np.issubdtype(np.asarray(a).dtype, np.inexact)]
  moving = [call.args[i] for i in inexact]

  def varied(seed, like):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=x.shape) + 0j if jnp.iscomplexobj(x) else rng.normal(size=x.shape), x.dtype)
            for x in like]  # fmt: skip

  def of_moving(function):
    def run(*values):
      merged = list(call.args)
      for i, value in zip(inexact, values, strict=True):
        merged[i] = value
      return [out for out in function(*merged) if jnp.issubdtype(out.dtype, jnp.inexact)]

    return run

  def jvp(function):
    return jax.jvp(of_moving(function), tuple(moving), tuple(varied(0, moving)))[1]

  def vjp(function, values=moving):
    outs, pullback = jax.vjp(of_moving(function), *values)
    return pullback(varied(1, outs))

  def second(function):
    _, pullback = jax.vjp(lambda *values: vjp(function, values), *moving)
    return pullback(tuple(varied(2, moving)))

  def second_forward(function):
    def first(*values):
      return jax.jvp(of_moving(function), values, tuple(varied(0, moving)))[1]

    return jax.jvp(first, tuple(moving), tuple(varied(2, moving)))[1]

  found = {"value": lambda function: function(*call.args)}
  if moving:
    found |= {"jvp": jvp, "vjp": vjp, "second order": second, "second order, forward": second_forward}
  return {what: lambda f, g=g: jax.jit(lambda: g(f))() for what, g in found.items()}
