"""Communication between devices for a module that has only one: each collective returns its operands."""

from collections.abc import Sequence

import numpy as np
from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module.mlir.bindings import MlirValue, downcast

__all__ = ["without_communication"]

_WITH_ITSELF = (
  "stablehlo.all_reduce",
  "stablehlo.all_gather",
  "stablehlo.reduce_scatter",
  "stablehlo.collective_broadcast",
  "stablehlo.collective_permute",
)
_NUMBERS = ("stablehlo.partition_id", "stablehlo.replica_id")


def without_communication(operations: Sequence[mlir_ir.Operation]) -> None:
  """Replaces ops that communicate between devices by what they return if device 0 is the only one."""
  # Those that are left have no regions, so nothing below reads an op inside of one that is erased.
  for op in [op for op in operations if op.name in (*_NUMBERS, *_WITH_ITSELF)]:
    if op.name in _NUMBERS:
      with mlir_ir.InsertionPoint(op), op.location:
        _replace(op, [stablehlo.constant(mlir_ir.Attribute.parse("dense<0> : tensor<ui32>"))])
    elif _is_alone(op):
      _replace(op, list(op.operands))


def _is_alone(op: mlir_ir.Operation) -> bool:
  """Returns whether device 0 exchanges data with itself, and the results have the types of the operands."""
  attribute = "source_target_pairs" if op.name == "stablehlo.collective_permute" else "replica_groups"
  devices = np.array(downcast(op.attributes[attribute]))
  return devices.size > 0 and not devices.any() and [x.type for x in op.operands] == [x.type for x in op.results]


def _replace(op: mlir_ir.Operation, values: list[MlirValue]) -> None:
  for result, value in zip(op.results, values, strict=True):
    result.replace_all_uses_with(value)
  op.erase()
