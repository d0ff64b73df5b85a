"""The registry of rules: how a primitive of JAX becomes TensorFlow ops.

A rule's Python signature is its schema. After the builder, its positional parameters are the operands, and its
keyword-only parameters are the parameters of the primitive that it needs. A parameter `out` is the shape and dtype of
the result, and `outs` are those of all results. `operand_dtypes` are the dtypes of the operands in JAX, such as those
of random keys.
"""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax.extend.core import JaxprEqn

__all__ = ["PrimitiveRule", "Unsupported", "find", "plain_op_primitives", "rule"]

# Parameters that never change what a TensorFlow graph computes: placement, hints, and what the result's type says.
_ALWAYS_IGNORED = frozenset({"accuracy", "out_sharding", "sharding"})


class Unsupported(Exception):
  """A rule raises this if an equation has no form in TensorFlow ops; the text says what it is about the equation."""


@dataclasses.dataclass(frozen=True, slots=True)
class PrimitiveRule:
  """How a primitive becomes TensorFlow ops.

  Attributes:
    function: the rule.
    wanted: the parameters of the primitive that it takes.
    ignores: parameters of the primitive that it does not need.
    folds: whether the primitive can be evaluated while converting. One that calls other functions is not.
  """

  function: Callable[..., Any]
  wanted: frozenset[str]
  ignores: frozenset[str]
  folds: bool

  def arguments(self, eqn: JaxprEqn, outs: tuple[jax.ShapeDtypeStruct, ...]) -> dict[str, Any]:
    """Returns the keyword arguments of the rule for an equation.

    Raises:
      Unsupported: the primitive has a parameter that the rule does not know.
    """
    params = eqn.params
    given = {name for name, value in params.items() if value is not None}
    unknown = sorted(given - self.wanted - self.ignores - _ALWAYS_IGNORED)
    if unknown:
      raise Unsupported(f"its parameters {unknown} are not known")
    found = {name: params[name] for name in self.wanted if name in params}
    if "out" in self.wanted:
      found["out"] = outs[0]
    if "outs" in self.wanted:
      found["outs"] = outs
    if "operand_dtypes" in self.wanted:
      variables: list[Any] = list(eqn.invars)  # the class that JAX declares for `aval` has no dtype
      found["operand_dtypes"] = tuple(variable.aval.dtype for variable in variables)
    return found


_RULES: dict[str, PrimitiveRule] = {}


def rule(*primitives: str, ignores: Iterable[str] = (), folds: bool = True) -> Callable[[Any], Any]:
  """Returns a decorator that registers a rule for primitives.

  Args:
    primitives: their names, as in a printed jaxpr.
    ignores: parameters that the rule does not need.
    folds: see `PrimitiveRule.folds`.
  """

  def register(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters.values()
    wanted = frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
    for name in primitives:
      assert name not in _RULES, f"internal: primitive {name!r} has two rules."
      _RULES[name] = PrimitiveRule(function, wanted, frozenset(ignores), folds)
    return function

  return register


def find(primitive: str) -> PrimitiveRule | None:
  """Returns the rule of a primitive, or None."""
  _load()
  return _RULES.get(primitive)


def plain_op_primitives() -> dict[str, str]:
  """Returns the JAX primitives that `lowering="tf_ops"` converts, sorted, each with its domain.

  A primitive can still raise an `UnsupportedPrimitiveError` with some dtypes or parameters.

  Example:
    >>> plain_op_primitives()["dot_general"]
    'products'
  """
  _load()
  return {name: found.function.__module__.rpartition(".")[2] for name, found in sorted(_RULES.items())}


@functools.cache  # listing the folder for each equation would take 0.4 of a conversion
def _load() -> None:
  """Imports the modules of rules. Conversions to StableHLO do not need them."""
  from graftax.convert.jax2tf.tf_ops import rules

  for module in pkgutil.iter_modules(rules.__path__):
    if not module.name.endswith("_test"):
      importlib.import_module(f"{rules.__name__}.{module.name}")
