"""`composite`: registered and CHLO functions by name, all others by their decomposition in the module."""

import dataclasses
from typing import Any

from graftax.xla_call_module import ir, registry
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import call_function
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import materialize

__all__: list[str] = []


@register(
  "stablehlo.composite",
  takes_known=True,
  attributes=("composite_attributes", "decomposition", "name"),
  ignores=("version",),
)
def _composite(context: Context, op: ir.Op, *operands: Any) -> Any:
  name = op.attrs.text("name")
  attributes = op.attrs.fields("composite_attributes", ir.Attributes())
  rule = registry.composites.get(name) or (registry.ops.get(name) if name.startswith("chlo.") else None)
  if rule is not None:
    named = dataclasses.replace(op, name=name, attrs=attributes)
    return rule.function(context, named, *(operands if rule.takes_known else map(materialize, operands)))
  return call_function(context, op.attrs.text("decomposition"), operands)
