"""Tells whether two blocks are the same program."""

from collections.abc import Mapping

import numpy as np

from graftax.convert.source_code.program import Block, Equation, Literal, Operand, Rule, Value
from graftax.convert.source_code.simplifying import same_shape

__all__ = ["same_block", "same_operand", "same_settings"]


_Pairs = frozenset[tuple[int, int]]


def same_block(a: Block, b: Block, bound: dict[Value, Value] | None = None, comparing: _Pairs = frozenset()) -> bool:
  """Returns whether two blocks have the same equations in the same order, and read the same values.

  Args:
    a: a block.
    b: another.
    bound: values of `a` and the values of `b` that they are.
    comparing: pairs of rules that are being compared already: a rule may call its own function.
  """
  bound = {} if bound is None else bound
  if len(a.inputs) != len(b.inputs) or len(a.equations) != len(b.equations) or len(a.results) != len(b.results):
    return False
  bound.update(zip(a.inputs, b.inputs, strict=True))
  return all(_same_equation(x, y, bound, comparing) for x, y in zip(a.equations, b.equations, strict=True)) and all(
    same_operand(x, y, bound) for x, y in zip(a.results, b.results, strict=True)
  )


def _same_equation(a: Equation, b: Equation, bound: dict[Value, Value], comparing: _Pairs) -> bool:
  if a.op != b.op or len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs):
    return False
  if not same_settings(a.settings, b.settings, comparing) or a.bodies.keys() != b.bodies.keys():
    return False
  if not all(same_operand(x, y, bound) for x, y in zip(a.inputs, b.inputs, strict=True)):
    return False
  if not all(x.dtype == y.dtype and same_shape(x.shape, y.shape) for x, y in zip(a.outputs, b.outputs, strict=True)):
    return False
  if not all(same_block(body, b.bodies[role], bound, comparing) for role, body in a.bodies.items()):
    return False
  bound.update(zip(a.outputs, b.outputs, strict=True))
  return True


def same_operand(a: Operand, b: Operand, bound: Mapping[Value, Value]) -> bool:
  """Returns whether an operand is the other one."""
  if isinstance(a, Literal):
    return a.same(b)
  return isinstance(b, Value) and bound.get(a, a) is b


def same_settings(a: Mapping[str, object], b: Mapping[str, object], comparing: _Pairs = frozenset()) -> bool:
  """Returns whether static parameters are equal."""
  return a.keys() == b.keys() and all(_equal(value, b[name], comparing) for name, value in a.items())


def _equal(a: object, b: object, comparing: _Pairs) -> bool:
  if a is b:
    return True
  if isinstance(a, Rule) or isinstance(b, Rule):
    return isinstance(a, Rule) and isinstance(b, Rule) and _same_rule(a, b, comparing)
  if isinstance(a, tuple | list) and isinstance(b, tuple | list):
    return len(a) == len(b) and all(_equal(x, y, comparing) for x, y in zip(a, b, strict=True))
  try:
    if isinstance(a, np.generic | float) and isinstance(b, np.generic | float) and a != a and b != b:
      return True
    return bool(a == b)
  except Exception:  # Symbolic dimensions that cannot be compared, of which JAX has several classes.
    return False


def _same_rule(a: Rule, b: Rule, comparing: _Pairs) -> bool:
  if a.kind != b.kind or a.blocks.keys() != b.blocks.keys():
    return False
  pair = (id(a), id(b))
  if pair in comparing:
    return True
  inner = comparing | {pair}
  return same_block(a.primal, b.primal, None, inner) and all(
    same_block(block, b.blocks[role], None, inner) for role, block in a.blocks.items()
  )
