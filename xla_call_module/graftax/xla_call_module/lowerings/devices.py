"""Which device this is, and what devices tell each other: only where there is but one."""

from typing import Any

import numpy as np
from jax import Array

from graftax.xla_call_module import communication, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register("stablehlo.replica_id", "stablehlo.partition_id", takes_known=True)
def _device_id(context: Context, op: ir.Op) -> Any:
  kind = op.name.removeprefix("stablehlo.").removesuffix("_id")
  if int(context.program.attrs.get(f"mhlo.num_{kind}s", 1)) != 1:
    raise context.unsupported(op, f"the module runs on several {kind}s, and a lifted function is one program.")
  return np.zeros((), op.type.dtype)


@register(*communication.COLLECTIVES)
def _collective(context: Context, op: ir.Op, *operands: Array, environment: Any = None) -> Any:
  """Over groups of one device a collective is the identity; larger groups need a mesh that this op does not name."""
  if not communication.is_alone(op) or len(operands) != len(op.types):
    groups = np.asarray(communication.groups(op)).tolist()
    raise context.unsupported(op, f"it communicates between devices in groups {groups!r}.")
  return operands if len(operands) > 1 else operands[0]
