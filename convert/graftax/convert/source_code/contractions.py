"""Joins products of matrices with the reshapes around them: they read and return arrays of any rank."""

import math
from collections import Counter

from graftax.convert.source_code.program import Block, Equation, Operand, Value, uses
from graftax.convert.source_code.simplifying import same_shape

__all__ = ["join_products"]


def join_products(block: Block) -> None:
  """Joins products with the reshapes around them, in place; reshapes of operands stay behind and may have no reader."""
  producers = {value: equation for equation in block.equations for value in equation.outputs}
  counts = Counter(uses(block))
  reshapes = {e.inputs[0]: e for e in block.equations if _is_reshape(e) and isinstance(e.inputs[0], Value)}
  moved: list[tuple[Equation, Equation]] = []
  for equation in block.equations:
    for body in equation.bodies.values():
      join_products(body)
    if equation.op == "dot_general":
      after = reshapes.get(equation.outputs[0]) if counts[equation.outputs[0]] == 1 else None
      if _joined(equation, after, producers) and after is not None:
        moved.append((equation, after))
  for product, reshape in moved:
    if product.outputs == reshape.outputs:
      block.equations.remove(reshape)


def _joined(product: Equation, after: Equation | None, producers: dict[Value, Equation]) -> bool:
  """Writes a product with the fewest reshapes, in place, and returns whether that changed it."""
  (contracted, batched), out = product.settings["dimension_numbers"], product.outputs
  left, right = product.inputs
  if any(batched) or tuple(map(tuple, contracted)) != ((len(left.shape) - 1,), (0,)):
    return False
  size = left.shape[-1]
  outs = [out] if after is None else [after.outputs, out]
  for results in outs:
    for lhs in _forms(left, producers):
      for rhs in _forms(right, producers):
        found = _dimensions(lhs, rhs, results[0], size)
        if found is not None and (lhs is not left or rhs is not right or results is not out):
          product.inputs, product.outputs = [lhs, rhs], results
          product.settings = {**product.settings, "dimension_numbers": (found, ((), ()))}
          return True
  return False


def _forms(operand: Operand, producers: dict[Value, Equation]) -> list[Operand]:
  """Returns what an operand was before a reshape, if it is one, and the operand."""
  producer = producers.get(operand) if isinstance(operand, Value) else None
  return [producer.inputs[0], operand] if producer is not None and _is_reshape(producer) else [operand]


def _is_reshape(equation: Equation) -> bool:
  return equation.op == "reshape" and not equation.settings


def _dimensions(lhs: Operand, rhs: Operand, out: Value, size: object) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
  """Returns which dimensions are summed over: last ones of `lhs` and first ones of `rhs`; None if they do not fit."""
  for count in range(1, min(len(lhs.shape), len(rhs.shape)) + 1):
    first = len(lhs.shape) - count
    summed = lhs.shape[first:]
    if not same_shape(summed, rhs.shape[:count]) or not all(isinstance(n, int) for n in summed):
      continue
    if math.prod(summed) == size and same_shape(out.shape, (*lhs.shape[:first], *rhs.shape[count:])):
      return tuple(range(first, len(lhs.shape))), tuple(range(count))
  return None
