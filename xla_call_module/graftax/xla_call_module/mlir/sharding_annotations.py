"""Annotations of shardings and memories in the form that every runtime accepts.

JAX writes the sharding of a value as an op of Shardy. A portable artifact has a custom call in its place, which does
not say how large its result is, and a runtime that replaces open sizes by those of its arguments cannot follow them
through it. The same is true of the memory where a value lies.
"""

from collections.abc import Iterable
from typing import Any

from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module.mlir.bindings import call_target, downcast
from graftax.xla_call_module.mlir.dimension_sizes import dimension_sizes

__all__ = ["is_of_shardy", "with_annotated_sizes", "without_annotation"]

_TARGETS = ("Sharding", "xla.sdy.FuncResultSharding")
_PLACEMENT = "annotate_device_placement"
_SIZES = "indices_of_shape_operands"
_COPIED = ("call_target_name", "has_side_effect", "api_version", "mhlo.sharding", "mhlo.frontend_attributes")


def is_of_shardy(operations: Iterable[Any]) -> bool:
  """Returns whether shardings are written as ops and attributes of Shardy, which always come with a mesh."""
  return any(op.name == "sdy.mesh" for op in operations)


def without_annotation(op: Any) -> None:
  """Removes a custom call that annotates a sharding, which means nothing if there is only one device."""
  if call_target(op) in _TARGETS:
    op.results[0].replace_all_uses_with(op.operands[0])
    op.erase()


def with_annotated_sizes(op: Any) -> None:
  """Gives a custom call the sizes of its result as an operand if it annotates an array with an open shape."""
  if (
    call_target(op) not in (*_TARGETS, _PLACEMENT)
    or _SIZES in op.attributes
    or downcast(op.results[0].type).has_static_shape
  ):
    return
  with mlir_ir.InsertionPoint(op), op.location:
    sizes = stablehlo.concatenate(dimension_sizes(op.operands[0]), dimension=0)
    new = mlir_ir.Operation.create(
      op.name,
      results=[op.results[0].type],
      operands=[op.operands[0], sizes],
      attributes={
        **{name: op.attributes[name] for name in _COPIED if name in op.attributes},
        _SIZES: mlir_ir.Attribute.parse("dense<1> : tensor<1xi64>"),
      },
    )
  op.results[0].replace_all_uses_with(new.results[0])
  op.erase()
