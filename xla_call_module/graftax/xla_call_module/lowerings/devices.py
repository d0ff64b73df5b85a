"""Which device this is, and what devices tell each other: only where there is but one."""

from typing import Any

import numpy as np
from jax import Array, lax

from graftax.xla_call_module import communication, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register("stablehlo.replica_id", "stablehlo.partition_id", takes_known=True)
def _device_id(context: Context, op: ir.Op) -> Any:
  kind = op.name.removeprefix("stablehlo.").removesuffix("_id")
  if int(context.ir.attrs.get(f"mhlo.num_{kind}s", 1)) != 1:
    raise context.unsupported(op, f"the module runs on several {kind}s, and a lifted function is one program.")
  return np.zeros((), op.type.dtype)


# Groups of one device leave nothing to split or to join.
_OF_SEVERAL_DEVICES = (
    "all_gather_dim", "channel_handle", "concat_dimension", "scatter_dimension", "split_count", "split_dimension",
    "use_global_device_ids",
)  # fmt: skip


@register(*communication.COLLECTIVES, attributes=("replica_groups", "source_target_pairs"), ignores=_OF_SEVERAL_DEVICES)
def _collective(context: Context, op: ir.Op, *operands: Array, environment: Any = None) -> Any:
  """Over groups of one device a collective is the identity; larger groups need a mesh that this op does not name."""
  groups = communication.groups(op)
  if not communication.is_alone(context.ir, op) or len(operands) != len(op.types):
    raise context.unsupported(op, f"it communicates between devices in groups {groups.tolist()!r}.", embeds=False)
  if op.name == "stablehlo.collective_permute" and not groups.size:
    return lax.full_like(operands[0], 0)  # what no device sends is zero
  return operands if len(operands) > 1 else operands[0]
