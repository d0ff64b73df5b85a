"""Selects the code of one platform: replaces each `case` on the platform index by the selected branch.

A module of several platforms has a `case` around every op whose lowering depends on the platform. A pattern of several
ops (the two custom calls of a QR decomposition) spans several such cases, so it can be recognized only afterwards.
"""

import dataclasses
from typing import Any

import numpy as np

from graftax.xla_call_module import ir

__all__ = ["for_platform"]


def for_platform(module_ir: ir.ModuleIR, index: int) -> ir.ModuleIR:
  """Returns the module for one value of the platform index, which remains the first parameter of `main`."""
  functions = {
    name: dataclasses.replace(
      function, body=_Chosen(index, _index_arguments(module_ir, function)).region(function.body)
    )
    for name, function in module_ir.functions.items()
  }
  return dataclasses.replace(module_ir, functions=functions)


def _index_arguments(module_ir: ir.ModuleIR, function: ir.Function) -> list[int]:
  marked = [
    number
    for number, attrs in zip(function.body.args, function.attrs, strict=True)
    if str(attrs.get("jax.global_constant", "")) == "_platform_index"
  ]
  return [*marked, function.body.args[0]] if function is module_ir.main else marked


class _Chosen:
  """Rewrites one function. `known` maps values to known integers, `same` maps values to their replacements."""

  def __init__(self, index: int, arguments: list[int]):
    self.known = dict.fromkeys(arguments, index)
    self.same: dict[int, int] = {}

  def region(self, region: ir.Region) -> ir.Region:
    ops: list[ir.Op] = []
    self._append(region.ops, ops)
    return dataclasses.replace(
      region, ops=tuple(ops), returns=self._now(region.returns), captures=self._captures(region)
    )

  def _append(self, source: Any, ops: list[ir.Op]) -> None:
    for op in source:
      if op.name == "stablehlo.constant" and op.type.shape == () and op.type.dtype.kind == "i":
        self.known[op.results[0]] = int(np.asarray(op.attrs["value"]))
      if op.name == "stablehlo.case" and (chosen := self._branch(op)) is not None:
        self._append(chosen.ops, ops)
        self.same.update(zip(op.results, self._now(chosen.returns), strict=True))
        self.known.update(
          (number, self.known[now])
          for number, now in zip(op.results, self._now(chosen.returns), strict=True)
          if now in self.known
        )
        continue
      regions = tuple(self.region(inner) for inner in op.regions)
      ops.append(dataclasses.replace(op, operands=self._now(op.operands), regions=regions))

  def _branch(self, op: ir.Op) -> ir.Region | None:
    index = self.known.get(op.operands[0])
    if index is None:
      return None
    return op.regions[index if 0 <= index < len(op.regions) else -1]

  def _now(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(self.same.get(number, number) for number in numbers)

  def _captures(self, region: ir.Region) -> tuple[int, ...]:
    return tuple(dict.fromkeys(self._now(region.captures)))
