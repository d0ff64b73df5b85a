"""Which device this is, and what devices tell each other: only where there is but one."""

from typing import Any

import numpy as np
from jax import Array

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register("stablehlo.replica_id", "stablehlo.partition_id", takes_known=True)
def _device_id(context: Context, op: ir.Op) -> Any:
  kind = op.name.removeprefix("stablehlo.").removesuffix("_id")
  if int(context.program.attrs.get(f"mhlo.num_{kind}s", 1)) != 1:
    raise context.unsupported(op, f"the module runs on several {kind}s, and a lifted function is one program.")
  return np.zeros((), op.type.dtype)


@register(
    "stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.reduce_scatter",
    "stablehlo.collective_permute", "stablehlo.collective_broadcast", "stablehlo.cross-replica-sum",
)  # fmt: skip
def _collective(context: Context, op: ir.Op, *operands: Array, environment: Any = None) -> Any:
  """Over groups of one device a collective is the identity; larger groups need a mesh that this op does not name."""
  groups = op.attrs.get("replica_groups", op.attrs.get("source_target_pairs"))
  is_pairs = op.name == "stablehlo.collective_permute"
  alone = groups is not None and (
    all(int(a) == int(b) for a, b in groups) if is_pairs else np.shape(groups)[-1:] == (1,)
  )
  if not alone or len(operands) != len(op.types):
    raise context.unsupported(op, f"it communicates between devices in groups {np.asarray(groups).tolist()!r}.")
  return operands if len(operands) > 1 else operands[0]
