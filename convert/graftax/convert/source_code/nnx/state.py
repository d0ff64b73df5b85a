"""State of modules: new values of parameters are assigned where they are computed, and variables have types."""

import re
from collections.abc import Mapping, Sequence

import jax.numpy as jnp

from graftax.convert.source_code.program import ASSIGN, Block, Equation, Operand, Rule, Value, path_parts

__all__ = ["assign", "kind_of"]

_STATISTICS = re.compile(r"(moving|running)_(mean|var|variance|stdev?)")


def assign(block: Block, updates: Sequence[tuple[Value, Operand]], kinds: Mapping[tuple[str, ...], str]) -> None:
  """Adds equations that assign parameters, in the scopes of what computes their values.

  Args:
    block: the program.
    updates: parameters and their new values.
    kinds: kinds of parameters.
  """
  updates = _without_cycles(block, updates)
  producers = {value: equation for equation in block.equations for value in equation.outputs}
  for parameter, new in updates:
    producer = producers.get(new) if isinstance(new, Value) else None
    if producer is not None and kinds[parameter.parameter or ()] != "Param":
      _without_own_derivative(producer, parameter)
    scope = () if producer is None else producer.scope
    block.equations.append(Equation(ASSIGN, [parameter, new], [], {}, {}, scope))


def _without_cycles(block: Block, updates: Sequence[tuple[Value, Operand]]) -> list[tuple[Value, Operand]]:
  """Copies the old values of parameters that are each assigned to the next one, such as two that are swapped."""
  new_of = dict(updates)
  out: list[tuple[Value, Operand]] = []
  for parameter, new in updates:
    following: dict[Operand, None] = {}
    value = new
    while isinstance(value, Value) and value in new_of and value not in following:
      following[value] = None
      value = new_of[value]
    if parameter in following:
      copied = Value(parameter.shape, parameter.dtype)
      block.equations.append(Equation("idiom", [new], [copied], {"text": "jnp.copy(_0)"}, {}, ()))
      new = copied
    out.append((parameter, new))
  return out


def _without_own_derivative(equation: Equation, parameter: Value) -> None:
  """Stops derivatives at a new value whose derivative is that of the old one, in place: the variable is not trained."""
  rule = equation.settings.get("rule")
  if not isinstance(rule, Rule) or rule.kind != "jvp" or len(rule.primal.inputs) != 2:
    return
  jvp = rule.blocks["jvp"]
  passes_second = not rule.primal.equations and rule.primal.results == rule.primal.inputs[1:]
  derives_first = not jvp.equations and jvp.results == jvp.inputs[1:3]
  if passes_second and derives_first and equation.inputs[0] is parameter:
    equation.op, equation.inputs, equation.settings = "stop_gradient", equation.inputs[1:], {}


def kind_of(value: Value, trainable: Mapping[tuple[str, ...], bool], assigned: frozenset[tuple[str, ...]]) -> str:
  """Returns the name of the type of variables in `flax.nnx` that a parameter has.

  Args:
    value: the parameter.
    trainable: whether parameters are trained; unknown ones are missing.
    assigned: parameters that the program assigns.
  """
  path = value.parameter or ()
  is_statistic = any(_STATISTICS.fullmatch(part) for part in path_parts(path)[-1:])
  guess = jnp.issubdtype(value.dtype, jnp.inexact) and not is_statistic and path not in assigned
  if trainable.get(path, guess) and jnp.issubdtype(value.dtype, jnp.inexact):
    return "Param"
  return "BatchStat" if is_statistic else "Variable"
