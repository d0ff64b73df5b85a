"""CHLO ops that are not elementwise: scan, ragged dot, top k."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import run_region
from graftax.xla_call_module.lowerings.contraction import precision_of
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import materialize

__all__: list[str] = []


@register(
  "chlo.scan",
  takes_known=True,
  attributes=("dimension", "is_reverse", "operandSegmentSizes", "resultSegmentSizes", "scan_dim_size"),
  ignores=("is_associative",),
)
def _scan(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  """Scans `body(*slices, *carries) -> (*outputs, *carries)` along one axis."""
  num_inputs = op.attrs.integers("operandSegmentSizes")[0]
  num_outputs = op.attrs.integers("resultSegmentSizes")[0]
  axis, region = op.attrs.integer("dimension"), op.regions[0]
  inputs = tuple(jnp.moveaxis(jnp.asarray(materialize(x)), axis, 0) for x in operands[:num_inputs])
  inits = tuple(jnp.asarray(materialize(x)) for x in operands[num_inputs:])

  def step(carries: Any, slices: Any) -> Any:
    results = [jnp.asarray(materialize(v)) for v in run_region(context, region, environment, (*slices, *carries))]
    return tuple(results[num_outputs:]), tuple(results[:num_outputs])

  length = op.attrs.integer("scan_dim_size") if not inputs else None
  carries, outputs = lax.scan(step, inits, inputs, length=length, reverse=op.attrs.boolean("is_reverse", False))
  return (*(jnp.moveaxis(x, 0, axis) for x in outputs), *carries)


_RAGGED_FIELDS = (
    "lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions", "rhs_contracting_dimensions",
    "lhs_ragged_dimensions", "rhs_group_dimensions",
)  # fmt: skip


@register("chlo.ragged_dot", attributes=("precision_config", "ragged_dot_dimension_numbers"))
def _ragged_dot(context: Context, op: ir.Op, x: Array, y: Array, sizes: Array) -> Array:
  """Lowers both the op, whose dimension numbers are a struct, and the composite, where they are a list of arrays."""
  numbers = op.attrs["ragged_dot_dimension_numbers"]
  if isinstance(numbers, tuple):
    numbers = ir.Attributes(zip(_RAGGED_FIELDS, numbers, strict=True))
  if not isinstance(numbers, ir.Attributes):
    raise context.unsupported(op, f"its dimension numbers are {numbers!r}.")
  fields = {name: numbers.integers(name, ()) for name in _RAGGED_FIELDS}
  contracting = (fields["lhs_contracting_dimensions"], fields["rhs_contracting_dimensions"])
  batching = (fields["lhs_batching_dimensions"], fields["rhs_batching_dimensions"])
  dimension_numbers = lax.RaggedDotDimensionNumbers(
    (contracting, batching), fields["lhs_ragged_dimensions"], fields["rhs_group_dimensions"]
  )
  return lax.ragged_dot_general(
    x, y, sizes, dimension_numbers, precision=precision_of(op), preferred_element_type=op.type.dtype
  )


# lax.top_k is always stable.
@register("chlo.top_k", attributes=("k",), ignores=("is_stable",))
def _top_k(context: Context, op: ir.Op, x: Array) -> Any:
  return lax.top_k(x, op.attrs.integer("k"))
