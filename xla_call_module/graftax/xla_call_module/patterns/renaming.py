"""Removes ops whose results are other values under another name."""

import dataclasses
from collections.abc import Mapping

from graftax.xla_call_module import ir

__all__ = ["renamed", "without_scalar_constraints"]

_CONSTRAINT = "sdy.sharding_constraint"


def renamed(module_ir: ir.ModuleIR, names: Mapping[int, int]) -> ir.ModuleIR:
  """Returns a module without the ops of some results.

  Args:
    module_ir: the module.
    names: the number of each result -> that of the value which takes its place, and which stays.
  """
  if not names:
    return module_ir
  functions = {
    name: dataclasses.replace(function, body=_renamed(function.body, names))
    for name, function in module_ir.functions.items()
  }
  return dataclasses.replace(module_ir, functions=functions)


def without_scalar_constraints(module_ir: ir.ModuleIR) -> ir.ModuleIR:
  """Returns a module without sharding constraints of scalars, which say nothing.

  JAX writes them into the bodies of partially manual `shard_map`s, also between the ops of a reducer.
  """
  names: dict[int, int] = {}
  for function in module_ir.functions.values():
    for op in ir.walk(function.body):
      if op.name == _CONSTRAINT and isinstance(op.types[0], ir.TensorType) and not op.types[0].shape:
        names[op.results[0]] = names.get(op.operands[0], op.operands[0])
  return renamed(module_ir, names)


def _renamed(region: ir.Region, names: Mapping[int, int]) -> ir.Region:
  ops = [
    dataclasses.replace(
      op,
      operands=tuple(names.get(number, number) for number in op.operands),
      regions=tuple(_renamed(inner, names) for inner in op.regions),
    )
    for op in region.ops
    if not names.keys() & set(op.results)
  ]
  own = {*region.args, *(number for op in ops for number in op.results)}
  captures = (names.get(number, number) for number in region.captures)
  return dataclasses.replace(
    region,
    ops=tuple(ops),
    returns=tuple(names.get(number, number) for number in region.returns),
    captures=tuple(dict.fromkeys(number for number in captures if number not in own)),
  )
