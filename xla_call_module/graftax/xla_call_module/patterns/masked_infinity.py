"""Gives `select(c, x * inf, y)` the derivative of `y` where it is `y`.

TensorFlow's compiler writes `erfinv` so, for its value at 1. The derivative of the product is infinite everywhere, and
its cotangent is 0 where `y` is selected, so that the gradient would be NaN there.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.analysis import BROADCASTS
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.survey import Survey

__all__ = ["with_masked_infinities"]

_NAME = "graftax.select_infinite"
_SELECT, _PRODUCT, _CONSTANT = "stablehlo.select", "stablehlo.multiply", "stablehlo.constant"


@register(_NAME, attributes=("infinity", "on_true"))
def _select_infinite(context: Context, op: ir.Op, condition: Array, x: Array, other: Array) -> Any:
  infinite = lax.full_like(x, op.attrs.real("infinity"))
  one = lax.full_like(x, 1)
  if op.attrs.boolean("on_true"):
    return lax.select(condition, x * lax.select(condition, infinite, one), other)
  return lax.select(condition, other, x * lax.select(condition, one, infinite))


def with_masked_infinities(module_ir: ir.ModuleIR, found: Survey) -> ir.ModuleIR:
  """Returns the module with a `graftax.select_infinite` for each select of a product with infinity.

  Args:
    module_ir: the module.
    found: its survey.
  """
  if not {_SELECT, _PRODUCT, _CONSTANT} <= set(found.names):
    return module_ir
  functions = {
    name: dataclasses.replace(function, body=_rewritten(function.body))
    for name, function in module_ir.functions.items()
  }
  return dataclasses.replace(module_ir, functions=functions)


def _rewritten(region: ir.Region) -> ir.Region:
  defined = {op.results[0]: op for op in region.ops if len(op.results) == 1}
  ops = []
  for op in region.ops:
    if op.regions:
      op = dataclasses.replace(op, regions=tuple(map(_rewritten, op.regions)))
    ops.append(_masked(op, defined) if op.name == _SELECT else op)
  return dataclasses.replace(region, ops=tuple(ops))


def _masked(op: ir.Op, defined: Mapping[int, ir.Op]) -> ir.Op:
  """Returns a select in the other form if one of its values is a product with infinity; else unchanged."""
  condition, *values = op.operands
  for position, value in enumerate(values):
    product = defined.get(value)
    for x, factor in _factors(product):
      infinity = _infinity(defined, factor)
      if infinity is not None:
        attrs = ir.Attributes(infinity=infinity, on_true=position == 0)
        return dataclasses.replace(op, name=_NAME, operands=(condition, x, values[1 - position]), attrs=attrs)
  return op


def _factors(op: ir.Op | None) -> tuple[tuple[int, int], ...]:
  """Returns the operands of a product in both orders."""
  if op is None or op.name != _PRODUCT:
    return ()
  left, right = op.operands
  return (left, right), (right, left)


def _infinity(defined: Mapping[int, ir.Op], number: int) -> float | None:
  """Returns the value of a constant that is infinity or minus infinity everywhere; None for other values."""
  op = defined.get(number)
  while op is not None and op.name in BROADCASTS:
    op = defined.get(op.operands[0])
  value = op.attrs.maybe_array("value") if op is not None and op.name == _CONSTANT else None
  # A splat is one number with strides of 0; the others are not looked through, since they may be large.
  if value is None or value.dtype.kind not in "fV" or not value.size or any(value.strides):
    return None
  first = value[(0,) * value.ndim]
  return float(first) if np.isinf(first) else None
