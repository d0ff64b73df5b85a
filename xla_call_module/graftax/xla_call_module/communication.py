"""Ops that exchange data with other devices or with the host."""

import numpy as np

from graftax.xla_call_module import ir

__all__ = ["COLLECTIVES", "HOST_CALLBACKS", "HOST_TRANSFERS", "PER_DEVICE", "groups", "is_alone", "may_embed_alone"]

COLLECTIVES = (
    "stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.reduce_scatter",
    "stablehlo.collective_permute", "stablehlo.collective_broadcast", "stablehlo.cross-replica-sum",
)  # fmt: skip
HOST_TRANSFERS = ("stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed")
PER_DEVICE = "sdy.manual_computation"
# Each refers to an address or a table entry of the process that exported the module.
HOST_CALLBACKS = frozenset({
    "xla_python_cpu_callback", "xla_python_gpu_callback", "xla_ffi_python_cpu_callback",
    "xla_ffi_python_gpu_callback", "xla_ffi_partitioned_python_cpu_callback",
    "xla_ffi_partitioned_python_gpu_callback", "xla_buffer_python_cpu_callback", "xla_buffer_python_gpu_callback",
})  # fmt: skip


def groups(op: ir.Op) -> np.ndarray:
  """Returns the replica groups or source-target pairs of a collective; an empty array if it has none."""
  return np.asarray(op.attrs.get("replica_groups", op.attrs.get("source_target_pairs", ())))


def is_alone(module_ir: ir.ModuleIR, op: ir.Op) -> bool:
  """Returns whether every device communicates only with itself in a collective."""
  found, count = groups(op), _num_devices(module_ir, op)
  if op.name == "stablehlo.collective_permute":
    return not found.size or (len(found) == count and bool((found[:, 0] == found[:, 1]).all()))
  if op.name == "stablehlo.collective_broadcast":
    return len(found) == count and found.shape[-1:] == (1,)
  return found.shape[-1:] == (1,) if found.size else count == 1  # without groups, all devices form one group


def _num_devices(module_ir: ir.ModuleIR, op: ir.Op) -> int:
  """Returns how many devices participate: all of them if the op has a channel, else the replicas of one partition."""
  replicas, partitions = (int(module_ir.attrs.get(f"mhlo.num_{kind}s", 1)) for kind in ("replica", "partition"))
  return replicas * partitions if "channel_handle" in op.attrs else replicas


def may_embed_alone(op: ir.Op) -> bool:
  """Returns whether XLA can run this op alone, on one device."""
  return (
    op.name not in (*HOST_TRANSFERS, *COLLECTIVES, PER_DEVICE)
    and op.attrs.get("call_target_name") not in HOST_CALLBACKS
  )
