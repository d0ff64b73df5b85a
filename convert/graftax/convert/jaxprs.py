"""Reads the equations of jaxprs."""

from collections.abc import Iterator

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["nested_equations"]


def nested_equations(jaxpr: Jaxpr, scope: str = "") -> Iterator[tuple[JaxprEqn, str]]:
  """Yields the equations of a program and of all that it holds, each with the scope around it."""
  for equation in jaxpr.eqns:
    path = "/".join(part for part in (scope, str(equation.source_info.name_stack)) if part)
    yield equation, path
    for leaf in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
      if isinstance(leaf, ClosedJaxpr):
        yield from nested_equations(leaf.jaxpr, path)
      elif isinstance(leaf, Jaxpr):
        yield from nested_equations(leaf, path)


def _is_program(value: object) -> bool:
  return isinstance(value, ClosedJaxpr | Jaxpr)
