"""One walk over all ops of a module, which collects what is checked before the module is lifted or embedded."""

import dataclasses
from typing import Any

import numpy as np

from graftax.xla_call_module import ir
from graftax.xla_call_module.communication import COLLECTIVES, HOST_TRANSFERS, PER_DEVICE

__all__ = ["CALLS", "RANDOM_BITS", "WITH_WINDOWS", "FunctionSize", "Survey", "survey"]

CALLS = {
  "func.call": "callee",
  "stablehlo.composite": "decomposition",
  "stablehlo.custom_call": "called_computations",
}
"""Ops that call functions, and the attribute that names these."""

WITH_WINDOWS = frozenset({"stablehlo.convolution", "stablehlo.reduce_window", "stablehlo.select_and_scatter"})

_CONSTANT = "stablehlo.constant"
RANDOM_BITS = "stablehlo.rng_bit_generator"

_NOTED = frozenset({*CALLS, *WITH_WINDOWS, *COLLECTIVES, *HOST_TRANSFERS, PER_DEVICE, RANDOM_BITS})


@dataclasses.dataclass(slots=True)
class FunctionSize:
  """The ops in the body of one function, the levels of its regions, and its calls with the level of each."""

  num_ops: int = 0
  depth: int = 0
  calls: list[tuple[str, int]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
  """What a module consists of.

  Attributes:
    sizes: the size of each function.
    names: the names of all ops.
    types: each type of a result, with the first op that has it. Types are decoded once per module.
    ops: the ops for which types are not the only check, each with its function: those that call functions, have
      windows, communicate, or draw random bits.
    constants: the constants.
  """

  sizes: dict[str, FunctionSize]
  names: frozenset[str]
  types: tuple[tuple[Any, ir.Op], ...]
  ops: list[tuple[ir.Function, ir.Op]]
  constants: list[ir.Op]

  @property
  def stored_bytes(self) -> int:
    """The size of the constants that the module stores in full."""
    values = (op.attrs.get("value") for op in self.constants)
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray) and any(value.strides))


def survey(module_ir: ir.ModuleIR) -> Survey:
  """Returns what a module consists of."""
  types: dict[int, tuple[Any, ir.Op]] = {}
  noted: list[tuple[ir.Function, ir.Op]] = []
  sizes: dict[str, FunctionSize] = {}
  names: set[str] = set()
  constants: list[ir.Op] = []
  for function_name, function in module_ir.functions.items():
    size = sizes[function_name] = FunctionSize()
    pending = [(function.body, 1)]
    while pending:
      region, depth = pending.pop()
      size.depth = max(size.depth, depth)
      size.num_ops += len(region.ops)
      names.update([op.name for op in region.ops])
      for op in region.ops:
        name = op.name
        for kind in op.types:
          if id(kind) not in types:
            types[id(kind)] = kind, op
        if op.regions:
          pending += [(inner, depth + 1) for inner in op.regions]
        if name == _CONSTANT:
          constants.append(op)
        elif name in _NOTED:
          noted.append((function, op))
          size.calls += [(callee, depth) for callee in _callees(op)]
  return Survey(sizes, frozenset(names), tuple(types.values()), noted, constants)


def _callees(op: ir.Op) -> tuple[str, ...]:
  attribute = CALLS.get(op.name)
  found = None if attribute is None else op.attrs.get(attribute)
  return (found,) if isinstance(found, str) else tuple(map(str, found)) if isinstance(found, tuple) else ()
