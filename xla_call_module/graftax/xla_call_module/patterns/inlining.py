"""Inlines calls of small functions, so that loop analysis sees the slices inside them."""

import dataclasses
import itertools
from collections.abc import Mapping

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context

__all__ = ["MAX_INLINED_OPS", "inline_small_calls"]

MAX_INLINED_OPS = 8
"""Largest number of ops of a function that is inlined."""
_fresh = itertools.count(1 << 40)


def inline_small_calls(context: Context, region: ir.Region) -> ir.Region:
  """Returns the region with calls inlined if the callee has at most `MAX_INLINED_OPS` ops and none with regions."""
  key = ("inlined", id(region))
  if key not in context.analyses:
    context.analyses[key] = (_inline(context, region), region)
  return context.analyses[key][0]


def _inline(context: Context, region: ir.Region) -> ir.Region:
  ops: list[ir.Op] = []
  renamed: dict[int, int] = {}
  for op in region.ops:
    callee = context.ir.functions.get(op.attrs.text("callee")) if op.name == "func.call" else None
    if callee is None or len(callee.body.ops) > MAX_INLINED_OPS or any(inner.regions for inner in callee.body.ops):
      ops.append(_renumbered(op, renamed))
      continue
    operands = [renamed.get(number, number) for number in op.operands]
    local = dict(zip(callee.body.args, operands, strict=True))
    for inner in callee.body.ops:
      local.update((number, next(_fresh)) for number in inner.results)
      ops.append(_renumbered(inner, local))
      analysis.definitions(context).update((number, ops[-1]) for number in ops[-1].results)
    renamed.update((number, local[r]) for number, r in zip(op.results, callee.body.returns, strict=True))
  if len(ops) == len(region.ops) and not renamed:
    return region
  returns = tuple(renamed.get(number, number) for number in region.returns)
  return dataclasses.replace(region, ops=tuple(ops), returns=returns)


def _renumbered(op: ir.Op, names: Mapping[int, int]) -> ir.Op:
  if not names:
    return op
  regions = tuple(_renumbered_region(inner, names) for inner in op.regions)
  operands = tuple(names.get(number, number) for number in op.operands)
  results = tuple(names.get(number, number) for number in op.results)
  return dataclasses.replace(op, operands=operands, results=results, regions=regions)


def _renumbered_region(region: ir.Region, names: Mapping[int, int]) -> ir.Region:
  return dataclasses.replace(
    region,
    ops=tuple(_renumbered(op, names) for op in region.ops),
    returns=tuple(names.get(number, number) for number in region.returns),
    captures=tuple(names.get(number, number) for number in region.captures),
  )
