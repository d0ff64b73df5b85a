"""Gathers and scatters without batching dimensions, which StableHLO has since version 1.1.

The positions along the batching dimensions become part of the index vectors. StableHLO's own pass for this
(`stablehlo-compatibility-expander`) skips dynamic shapes.
"""

from collections.abc import Sequence

from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module.mlir.bindings import MlirValue, downcast
from graftax.xla_call_module.mlir.dimension_sizes import constant_sizes, dimension_sizes, tensor_type

__all__ = ["without_batching_dims"]


def without_batching_dims(op: mlir_ir.Operation) -> None:
  """Rewrites an operation in place if it is a gather or a scatter with batching dimensions."""
  if op.name in ("stablehlo.gather", "stablehlo.dynamic_gather"):
    _rewrite_gather(op)
  elif op.name == "stablehlo.scatter":
    _rewrite_scatter(op)


def _rewrite_gather(op: mlir_ir.Operation) -> None:
  old = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
  if not old.operand_batching_dims:
    return
  axis = old.index_vector_dim
  op.operands[1] = _extended(op, op.operands[1], old.start_indices_batching_dims, axis)
  op.attributes["dimension_numbers"] = stablehlo.GatherDimensionNumbers.get(
    offset_dims=list(old.offset_dims),
    collapsed_slice_dims=sorted([*old.collapsed_slice_dims, *old.operand_batching_dims]),
    operand_batching_dims=[],
    start_indices_batching_dims=[],
    start_index_map=[*old.operand_batching_dims, *old.start_index_map],
    index_vector_dim=axis,
  )
  op.attributes["indices_are_sorted"] = mlir_ir.BoolAttr.get(False)


def _rewrite_scatter(op: mlir_ir.Operation) -> None:
  old = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
  if not old.input_batching_dims:
    return
  axis = old.index_vector_dim
  position = (len(op.operands) - 1) // 2  # inputs, indices, updates
  op.operands[position] = _extended(op, op.operands[position], old.scatter_indices_batching_dims, axis)
  op.attributes["scatter_dimension_numbers"] = stablehlo.ScatterDimensionNumbers.get(
    update_window_dims=list(old.update_window_dims),
    inserted_window_dims=sorted([*old.inserted_window_dims, *old.input_batching_dims]),
    input_batching_dims=[],
    scatter_indices_batching_dims=[],
    scattered_dims_to_operand_dims=[*old.input_batching_dims, *old.scattered_dims_to_operand_dims],
    index_vector_dim=axis,
  )
  op.attributes["indices_are_sorted"] = mlir_ir.BoolAttr.get(False)


def _extended(op: mlir_ir.Operation, indices: MlirValue, batching_dims: Sequence[int], axis: int) -> MlirValue:
  """Returns index vectors that begin with the positions along the batching dimensions."""
  with mlir_ir.InsertionPoint(op), op.location:
    kind = downcast(indices.type)
    shape = list(kind.shape)
    sizes = dimension_sizes(indices)
    if axis == len(shape):  # scalars instead of index vectors
      shape, sizes = [*shape, 1], [*sizes, constant_sizes([1])]
      indices = _reshaped(indices, shape, kind.element_type, sizes)
    one = [*shape[:axis], 1, *shape[axis + 1 :]]
    one_sizes = stablehlo.concatenate([*sizes[:axis], constant_sizes([1]), *sizes[axis + 1 :]], dimension=0)
    positions = [
      stablehlo.dynamic_iota(tensor_type(one, kind.element_type), one_sizes, mlir_ir.IntegerAttr.get(_i64(), dim))
      for dim in batching_dims
    ]
    return stablehlo.concatenate([*positions, indices], dimension=axis)


def _reshaped(value: MlirValue, shape: Sequence[int], element: mlir_ir.Type, sizes: Sequence[MlirValue]) -> MlirValue:
  return stablehlo.dynamic_reshape(tensor_type(shape, element), value, stablehlo.concatenate(sizes, dimension=0))


def _i64() -> mlir_ir.IntegerType:
  return mlir_ir.IntegerType.get_signless(64)
