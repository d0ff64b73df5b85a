"""Functions with effects: those that lowering removes are exported, all others raise with what would work."""

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify

from graftax.testing.call_modules import run_call_module
from graftax.xla_call_module import Module, UnsupportedModuleError, lift
from graftax.xla_call_module.exporting import export_call_module

_X = np.linspace(0.5, 2, 4, dtype=np.float32)


def _assigned(x):
  ref = jax.new_ref(x)
  ref[0] = x[1] * 5
  return ref[...]


def _frozen(x):
  ref = jax.new_ref(x)
  ref[0] = x[1] * 5
  return jax.freeze(ref)


def _summed_by_a_scan(x):
  total = jax.new_ref(jnp.zeros(()))

  def body(carry, item):
    total[...] += item**2
    return carry, None

  lax.scan(body, 0, x)
  return total[...]


def _summed_by_a_loop(x):
  total = jax.new_ref(jnp.zeros(()))

  def body(i):
    total[...] = total[...] + x[i]
    return i + 1

  lax.while_loop(lambda i: i < 4, body, 0)
  return jax.freeze(total)


def _assigned_in_a_branch(x):
  ref = jax.new_ref(jnp.zeros(()))

  def assign():
    ref[...] = x[1] ** 2

  lax.cond(x[0] > 0, assign, lambda: None)
  return jax.freeze(ref)


_REFERENCES = [_assigned, _frozen, _summed_by_a_scan, _summed_by_a_loop, _assigned_in_a_branch]


@pytest.mark.parametrize("function", _REFERENCES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_references_inside_of_a_function_run_in_tensorflow(function, symbolic):
  # JAX's effects have no text of their own, only the addresses of objects.
  if symbolic and function is _summed_by_a_loop:
    pytest.skip("reads four elements")
  shape = jax.export.symbolic_shape("n") if symbolic else _X.shape
  module = export_call_module(lambda x: [function(x)], [jax.ShapeDtypeStruct(shape, np.float32)])
  want = jax.jit(function)(_X)
  np.testing.assert_allclose(run_call_module(module.attributes, [_X], module.outputs)[0], want, rtol=1e-6)
  np.testing.assert_allclose(lift(Module.from_call_module(**module.attributes))(_X)[0], want, rtol=1e-6)


@pytest.mark.parametrize("function", [f for f in _REFERENCES if f is not _summed_by_a_loop])
def test_derivatives_of_functions_with_references_run_in_tensorflow(function):
  gradient = jax.grad(lambda x: jnp.sum(function(x) ** 2))
  module = export_call_module(lambda x: [gradient(x)], [jax.ShapeDtypeStruct(_X.shape, np.float32)])
  (got,) = run_call_module(module.attributes, [_X], module.outputs)
  np.testing.assert_allclose(got, gradient(_X), rtol=1e-5)


_OUTSIDE = jax.new_ref(jnp.zeros(4))


def _read_from_outside(x):
  return [x + _OUTSIDE[...]]


def _checked(x):
  checkify.check(jnp.all(x > 0), "negative")
  return [x]


def _printed(x):
  jax.debug.print("{}", x)
  return [x]


def _called_back(x):
  return [jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)]


def _called_for_effect(x):
  return [jax.experimental.io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)]


@pytest.mark.parametrize(
  ("function", "message"),
  [
    (_checked, r"'_checked' has side effects \(checkify\.check\)"),
    (_printed, r"'_printed' has side effects \(jax\.debug\.print or jax\.debug\.callback\)"),
    (_called_back, r"'_called_back' cannot be exported"),
    (_called_for_effect, r"'_called_for_effect' has side effects \(io_callback\)"),
    (_read_from_outside, r"'_read_from_outside' .*jax\.Ref from outside"),
  ],
)
def test_effects_that_stay_raise_with_what_helps_and_without_addresses(function, message):
  with pytest.raises(UnsupportedModuleError, match=message) as caught:
    export_call_module(function, [jax.ShapeDtypeStruct(_X.shape, np.float32)])
  assert "EQX_ON_ERROR=nan before equinox is imported" in str(caught.value)
  assert " at 0x" not in str(caught.value)
