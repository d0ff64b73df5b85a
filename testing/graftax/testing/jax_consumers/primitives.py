"""Counts the primitives of graftax in what a function consists of."""

import collections
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["OWN_PREFIXES", "equations", "own_primitives"]

OWN_PREFIXES = ("graftax_", "stablehlo_", "read_tensorflow_variables")
"""How the names of the primitives of graftax begin."""


def own_primitives(function: Callable[..., Any], *args: Any) -> collections.Counter[str]:
  """Returns how often each primitive of graftax occurs in the jaxpr of a function.

  Args:
    function: the function.
    *args: pytrees of arrays or specs, its arguments.
  """
  names = (equation.primitive.name for equation in equations(jax.make_jaxpr(function)(*args).jaxpr))
  return collections.Counter(name for name in names if name.startswith(OWN_PREFIXES))


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
  """Yields the equations of a jaxpr and of all that it calls."""
  for equation in jaxpr.eqns:
    yield equation
    for inner in _inside(list(equation.params.values())):
      yield from equations(inner)


def _inside(value: object) -> Iterator[Jaxpr]:
  if isinstance(value, ClosedJaxpr):
    yield value.jaxpr
  elif isinstance(value, Jaxpr):
    yield value
  elif isinstance(value, list | tuple):
    for part in value:
      yield from _inside(part)
