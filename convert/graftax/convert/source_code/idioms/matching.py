"""Finds the program of a call in a block: from its result back to its operands."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from graftax.convert.source_code.comparing import same_block, same_settings
from graftax.convert.source_code.program import Block, Equation, Literal, Operand, Value
from graftax.convert.source_code.simplifying import same_shape

__all__ = ["Match", "matched"]

_COMMUTATIVE = frozenset(("add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"))


@dataclasses.dataclass(slots=True)
class Match:
  """What the inputs of a pattern are.

  Attributes:
    operands: of each value of the pattern.
    numbers: of each open number.
  """

  operands: dict[Value, Operand] = dataclasses.field(default_factory=dict)
  numbers: dict[float, Literal] = dataclasses.field(default_factory=dict)

  def copy(self) -> "Match":
    return Match(dict(self.operands), dict(self.numbers))


def matched(
  pattern: Block, root: Equation, producers: Mapping[Value, Equation], open_numbers: frozenset[float]
) -> Match | None:
  """Returns how a pattern with one result is the equation, with those that it depends on.

  Args:
    pattern: the program of a call in normal form.
    root: the equation whose result may be the call's.
    producers: the equations that define values of the program.
    open_numbers: numbers in the pattern that are any number in the program.
  """
  made = {value: equation for equation in pattern.equations for value in equation.outputs}
  (result,) = pattern.results
  if not isinstance(result, Value) or result not in made or len(root.outputs) != 1:
    return None
  matcher = _Matcher(frozenset(pattern.inputs), made, producers, open_numbers)
  return matcher.equation(made[result], root, Match())


class _Matcher:
  def __init__(
    self,
    inputs: frozenset[Value],
    made: Mapping[Value, Equation],
    producers: Mapping[Value, Equation],
    open_numbers: frozenset[float],
  ) -> None:
    self._inputs, self._made, self._producers, self._open = inputs, made, producers, open_numbers

  def equation(self, a: Equation, b: Equation, match: Match) -> Match | None:
    """Returns the match with one equation of the pattern, `a`, being `b`."""
    if a.op != b.op or len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs):
      return None
    if not same_settings(a.settings, b.settings) or a.bodies.keys() != b.bodies.keys():
      return None
    for x, y in zip(a.outputs, b.outputs, strict=True):
      if x.dtype != y.dtype or not same_shape(x.shape, y.shape):
        return None
    if any(not same_block(body, b.bodies[role]) for role, body in a.bodies.items()):
      return None
    found = self._operands(a.inputs, b.inputs, match.copy())
    if found is None and a.op in _COMMUTATIVE:
      found = self._operands(a.inputs, b.inputs[::-1], match.copy())
    if found is not None:
      found.operands.update(zip(a.outputs, b.outputs, strict=True))
    return found

  def _operands(self, xs: list[Operand], ys: list[Operand], match: Match) -> Match | None:
    found: Match | None = match
    for x, y in zip(xs, ys, strict=True):
      found = self._operand(x, y, found) if found is not None else None
    return found

  def _operand(self, x: Operand, y: Operand, match: Match) -> Match | None:
    if isinstance(x, Literal):
      return self._literal(x, y, match)
    if x in match.operands:
      known = match.operands[x]
      return match if known is y or (isinstance(known, Literal) and known.same(y)) else None
    if x in self._inputs:
      if x.dtype != y.dtype or not same_shape(x.shape, y.shape):
        return None
      match.operands[x] = y
      return match
    if not isinstance(y, Value) or y not in self._producers:
      return None
    a, b = self._made[x], self._producers[y]
    if len(a.outputs) != len(b.outputs) or a.outputs.index(x) != b.outputs.index(y):
      return None
    return self.equation(a, b, match)

  def _literal(self, x: Literal, y: Operand, match: Match) -> Match | None:
    if not isinstance(y, Literal) or x.dtype != y.dtype or x.shape != y.shape:
      return None
    if x.shape == () and np.issubdtype(x.array.dtype, np.floating):
      for number in self._open:
        if x.array == np.asarray(number, x.array.dtype):
          known = match.numbers.setdefault(number, y)
          return match if known.same(y) else None
    return match if x.same(y) else None
