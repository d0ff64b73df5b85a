"""Reads jaxprs, and runs them with other equations."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from graftax.xla_call_module import jax_versions
from graftax.xla_call_module.jax_versions import Operand

__all__ = ["array_type", "as_closed", "bound", "evaluated", "has_primitives", "inner_jaxprs", "place_of"]


def as_closed(jaxpr: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
  """Returns a jaxpr with its constants, of which it has none if it is not closed."""
  return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, [])


def array_type(atom: Var | Literal) -> jax.core.ShapedArray:
  """Returns the shape and dtype of an array."""
  aval = atom.aval
  assert isinstance(aval, jax.core.ShapedArray), "internal: no array"
  return aval


def inner_jaxprs(values: Iterable[object]) -> Iterator[ClosedJaxpr]:
  """Yields the jaxprs among parameters of an equation."""
  for value in values:
    if isinstance(value, ClosedJaxpr | Jaxpr):
      yield as_closed(value)
    elif isinstance(value, list | tuple):
      yield from inner_jaxprs(value)


def has_primitives(jaxpr: Jaxpr, names: Collection[str]) -> bool:
  """Returns whether a jaxpr, or one within it, has an equation with one of these primitives."""
  return any(
    equation.primitive.name in names
    or any(has_primitives(inner.jaxpr, names) for inner in inner_jaxprs(equation.params.values()))
    for equation in jaxpr.eqns
  )


def bound(
  equation: JaxprEqn, operands: Sequence[Operand], params: Mapping[str, Any] | None = None
) -> Sequence[Operand]:
  """Returns the results of an equation for other operands, and for other parameters if they are given."""
  results = jax_versions.bind_equation(equation.primitive, operands, equation.params if params is None else params)
  found: Sequence[Operand] = results if equation.primitive.multiple_results else [results]
  return found


@contextlib.contextmanager
def place_of(equation: JaxprEqn) -> Iterator[None]:
  """Gives what runs inside the name scope, the source line and the context of an equation."""
  stack = source_info_util.current_name_stack() + equation.source_info.name_stack
  with source_info_util.user_context(equation.source_info.traceback, name_stack=stack), equation.ctx.manager:
    yield


def evaluated(
  closed: ClosedJaxpr,
  operands: Sequence[Operand],
  results: Callable[[JaxprEqn, list[Operand]], Sequence[Operand]],
) -> list[Operand]:
  """Returns the results of a jaxpr, each of whose equations is computed by a function of it and its operands."""
  jaxpr = closed.jaxpr
  values: dict[Var, Operand] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
  values |= dict(zip(jaxpr.invars, operands, strict=True))

  def read(atom: Var | Literal) -> Operand:
    return atom.val if isinstance(atom, Literal) else values[atom]

  for equation in jaxpr.eqns:
    with place_of(equation):
      found = results(equation, [read(atom) for atom in equation.invars])
    values.update(zip(equation.outvars, found, strict=True))
  return [read(atom) for atom in jaxpr.outvars]
