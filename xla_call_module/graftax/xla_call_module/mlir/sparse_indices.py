"""Clamps the indices of sparse matrices before a kernel reads them, because the kernel does not check them.

Indices in range are unchanged. Others would make the kernel read memory outside of its operands.
"""

from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module.mlir.bindings import MlirValue, downcast

__all__ = ["SPARSE_PRODUCT", "clamp_indices"]

SPARSE_PRODUCT = "cpu_csr_sparse_dense_ffi"


def clamp_indices(module: mlir_ir.Module) -> None:
  """Clamps the operands of each sparse product of a module in place. Calls with wrong types are left as they are."""
  for op in _operations(module.operation):
    if op.name == "stablehlo.custom_call" and downcast(op.attributes["call_target_name"]).value == SPARSE_PRODUCT:
      kinds = [downcast(operand.type) for operand in op.operands]
      if len(kinds) == 4 and all(getattr(kind, "has_static_shape", False) and kind.rank for kind in kinds):
        op.operands[1] = _clamped(op, op.operands[1], kinds[0].shape[0])
        op.operands[2] = _clamped(op, op.operands[2], max(kinds[3].shape[0] - 1, 0))


def _operations(op: mlir_ir.Operation) -> list[mlir_ir.Operation]:
  """Returns the operations inside an operation, at any depth."""
  found: list[mlir_ir.Operation] = []
  pending = [op]
  while pending:
    for region in pending.pop().regions:
      for block in region.blocks:
        inner = [view.operation for view in block.operations]
        found += inner
        pending += [each for each in inner if len(each.regions)]
  return found


def _clamped(op: mlir_ir.Operation, indices: MlirValue, largest: int) -> MlirValue:
  with mlir_ir.InsertionPoint(op), op.location:
    scalar = mlir_ir.RankedTensorType.get([], downcast(indices.type).element_type)
    low, high = (
      stablehlo.constant(
        mlir_ir.DenseElementsAttr.get_splat(scalar, mlir_ir.IntegerAttr.get(scalar.element_type, value))
      )
      for value in (0, largest)
    )
    return stablehlo.clamp(low, indices, high)
