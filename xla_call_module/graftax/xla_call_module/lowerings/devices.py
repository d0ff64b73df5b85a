"""Device numbers and collectives, for a single device only."""

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
    raise context.unsupported(op, f"the module runs on several {kind}s; a lifted function runs on one.")
  return np.zeros((), op.type.dtype)


# In groups of one device there is nothing to split or to join, so these attributes have no effect.
_OF_SEVERAL_DEVICES = (
    "all_gather_dim", "channel_handle", "concat_dimension", "scatter_dimension", "split_count", "split_dimension",
    "use_global_device_ids",
)  # fmt: skip


@register(*communication.COLLECTIVES, attributes=("replica_groups", "source_target_pairs"), ignores=_OF_SEVERAL_DEVICES)
def _collective(context: Context, op: ir.Op, *operands: Array, environment: Any = None) -> Any:
  """Lowers a collective over groups of one device to the identity; larger groups would need a mesh."""
  groups = communication.groups(op)
  if not communication.is_alone(context.ir, op) or len(operands) != len(op.types):
    raise context.unsupported(op, f"it communicates between devices in groups {groups.tolist()!r}.", embeds=False)
  if op.name == "stablehlo.collective_permute" and not groups.size:
    return lax.full_like(operands[0], 0)  # a device that receives nothing gets zeros
  return operands if len(operands) > 1 else operands[0]
