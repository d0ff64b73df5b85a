"""Primitives without a rule, such as those of JAX libraries, by what they lower to."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from graftax.convert.jax2tf.tf_ops import registry
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.tensors import physical_spec
from graftax.convert.jax2tf.traced_function import as_keys, without_extended_dtype
from graftax.convert.jaxprs import nested_equations
from graftax.convert.pytrees import Leaf
from graftax.ops_jax import Array

__all__ = ["lifted", "lifting_key"]


def lifted(equation: JaxprEqn) -> ClosedJaxpr:
  """Returns what an equation computes, in primitives that have rules.

  Every primitive that JAX can compile has a lowering to StableHLO, and that is lifted to JAX. Operands and results are
  those that a TensorFlow graph has: random keys are their data.

  Raises:
    Unsupported: its lowering cannot be exported or lifted, or consists of primitives of which some have no rule.
  """
  # Importing what lifts takes a third of a second.
  from graftax.xla_call_module import Module, lift

  if equation.effects or equation.primitive.name.endswith("callback"):
    raise Unsupported("no rule")
  # Any: the type that JAX declares for `aval` has no dtype.
  variables: list[Any] = list(equation.invars)
  dtypes = [variable.aval.dtype for variable in variables]
  specs = [physical_spec(variable.aval) for variable in variables]

  def computed(*operands: Array) -> list[Leaf]:
    given = [as_keys(operand, dtype) for operand, dtype in zip(operands, dtypes, strict=True)]
    found = equation.primitive.bind(*given, **equation.params)
    results = found if equation.primitive.multiple_results else [found]
    return [without_extended_dtype(result) for result in results]

  try:
    exported = _exported(computed, specs)
    program = jax.make_jaxpr(lift(Module.from_exported(exported)))(*specs)
  except Exception as e:  # whatever the lowering of a library says of what it lacks
    raise Unsupported(f"no rule, and {_reason(e)}") from e
  primitives = {inner.primitive.name for inner, _ in nested_equations(program.jaxpr)}
  missing = sorted(name for name in primitives - {equation.primitive.name} if registry.find(name) is None)
  if missing:
    raise Unsupported(f"no rule, and its lowering has none for {', '.join(missing)}")
  if equation.primitive.name in primitives:
    raise Unsupported("no rule")
  return program


def lifting_key(equation: JaxprEqn) -> Hashable | None:
  """Returns what the result of `lifted` depends on, or None if a parameter cannot be hashed."""
  try:
    params = frozenset((name, type(value), value) for name, value in equation.params.items())
  except TypeError:
    return None
  # Equal parameters may differ: 1 and 1.0, 0.0 and -0.0, and tuples or other objects with these in them.
  texts = tuple(sorted((name, repr(value)) for name, value in equation.params.items()))
  return equation.primitive, tuple(variable.aval for variable in equation.invars), params, texts


def _exported(function: Callable[..., list[Leaf]], specs: Sequence[jax.ShapeDtypeStruct]) -> jax.export.Exported:
  from graftax.xla_call_module.exporting import checks_of_unstable_calls

  # TensorFlow runs plain ops on any platform.
  checks = [jax.export.DisabledSafetyCheck.platform()]
  try:
    return jax.export.export(jax.jit(function), platforms=["cpu"], disabled_checks=checks)(*specs)
  except ValueError as error:
    if not (allowed := checks_of_unstable_calls(error)):
      raise
    return jax.export.export(jax.jit(function), platforms=["cpu"], disabled_checks=[*checks, *allowed])(*specs)


def _reason(error: Exception) -> str:
  """Returns what an error says about a primitive."""
  if "host_callbacks" in str(error):
    return "it calls back to Python, as equinox.error_if does unless the environment variable EQX_ON_ERROR is nan"
  first, _, _ = str(error).partition("\n")
  return f"its lowering cannot be read: {first or type(error).__name__}"
