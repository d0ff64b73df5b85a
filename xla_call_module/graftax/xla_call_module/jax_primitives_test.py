import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, PlatformError, lift, with_jax_primitives
from graftax.xla_call_module.jax_versions import KEEPS_JVP_RULES_IN_SCANS
from graftax.xla_call_module.lax_extras import while_loop

X = np.array([0.3, 1.7], np.float32)


def _rounded(x):
  return x + jax.lax.stop_gradient(jnp.round(x) - x)


def _root(x):
  return while_loop(lambda y: jnp.any(abs(y * y - x) > 1e-4), lambda y: (y + x / y) / 2, x)


def _nested(x):
  """A loop of unknown length and a choice of the platform, inside a scan inside a jit."""

  def step(carry, _):
    y = _root(carry + 1)
    return jax.lax.platform_dependent(y, cpu=lambda y: y + 2, default=lambda y: y * 3), None

  return jax.jit(lambda x: jax.lax.scan(step, x, None, length=2)[0])(x)


def _lifted():
  """A module with a platform and a stored gradient."""
  return lift(Module.from_exported(jax.export.export(jax.jit(_rounded), platforms=["cpu"])(X)))


_OURS = ("graftax_call_with_tangents", "graftax_linear_call", "stablehlo_platform_check")


def _names(function):
  text = str(jax.make_jaxpr(function)(X))
  return {name for name in (*_OURS, "platform_index") if name in text}


@pytest.mark.parametrize(
  ("function", "other"), [(_nested, "platform_index"), (lambda x: _lifted()(x)[0], "stablehlo_platform_check")]
)
def test_only_primitives_of_jax_stay_and_numbers_are_the_same(function, other):
  plain = with_jax_primitives(function, platform="cpu")
  assert other in _names(function)
  assert not _names(plain)
  np.testing.assert_array_equal(plain(X), function(X))
  for order in (jax.grad, lambda f: jax.grad(lambda x: jax.grad(f)(x).sum())):
    np.testing.assert_allclose(
      order(lambda x: (plain(x) ** 2).sum())(X), order(lambda x: (function(x) ** 2).sum())(X), rtol=1e-5
    )


def test_converted_functions_have_no_primitive_with_a_rule_since_jax_keeps_rules_in_scans():
  assert ("graftax_call_with_tangents" in _names(_root)) is not KEEPS_JVP_RULES_IN_SCANS


def test_every_platform_stays_without_a_choice():
  assert _names(with_jax_primitives(_nested)) == {"platform_index"}


def test_another_platform_is_refused():
  with pytest.raises(PlatformError, match="lowered for cpu"):
    with_jax_primitives(_lifted(), platform="tpu")(X)
