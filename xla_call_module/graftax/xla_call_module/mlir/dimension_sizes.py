"""Sizes of dimensions as values of a module."""

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module.mlir.bindings import downcast

__all__ = ["constant_sizes", "dimension_size", "dimension_sizes", "tensor_type"]


def dimension_sizes(value: Any) -> list[Any]:
  """Returns the size of each dimension of a value as `tensor<1xi32>`, at the current insertion point."""
  return [dimension_size(value, dim) for dim in range(len(downcast(value.type).shape))]


def dimension_size(value: Any, dim: int) -> Any:
  """Returns the size of a dimension as `tensor<1xi32>`, at the current insertion point."""
  kind = downcast(value.type)
  if not kind.is_dynamic_dim(dim):
    return constant_sizes([kind.get_dim_size(dim)])
  size = stablehlo.get_dimension_size(value, dim)
  return stablehlo.reshape(tensor_type([1], mlir_ir.IntegerType.get_signless(32)), size)


def constant_sizes(values: Sequence[int]) -> Any:
  """Returns a constant vector of int32, at the current insertion point."""
  kind = tensor_type([len(values)], mlir_ir.IntegerType.get_signless(32))
  return stablehlo.constant(mlir_ir.Attribute.parse(f"dense<{list(values)}> : {kind}"))


def tensor_type(shape: Sequence[int], element: Any) -> Any:
  """Returns the type of arrays of a shape, in which open sizes are those that MLIR has for them."""
  return mlir_ir.RankedTensorType.get(list(shape), element)
