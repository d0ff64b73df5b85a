"""Ops that exchange data with other devices or with the host."""

import numpy as np

from graftax.xla_call_module import errors, ir

__all__ = [
  "COLLECTIVES",
  "HOST_CALLBACKS",
  "HOST_TRANSFERS",
  "PER_DEVICE",
  "groups",
  "has_channel",
  "is_alone",
  "may_embed_alone",
  "num_partitions",
  "num_replicas",
]

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
  return num_replicas(module_ir) * (num_partitions(module_ir) if has_channel(op) else 1)


def has_channel(op: ir.Op) -> bool:
  """Returns whether a collective is one of all partitions; channels that are not positive are none."""
  channel = op.attrs.get("channel_handle")
  return isinstance(channel, ir.Attributes) and channel.integer("handle", 0) > 0


def num_replicas(module_ir: ir.ModuleIR) -> int:
  """Returns the number of replicas that a module is for.

  Raises:
    DecodeError: the module does not say it as a number.
  """
  return _count(module_ir, "mhlo.num_replicas")


def num_partitions(module_ir: ir.ModuleIR) -> int:
  """Returns the number of partitions that a module is for; see `num_replicas`."""
  return _count(module_ir, "mhlo.num_partitions")


def _count(module_ir: ir.ModuleIR, name: str) -> int:
  count = module_ir.attrs.get(name, 1)
  if not isinstance(count, int):
    raise errors.DecodeError(f"{name} of the module is {str(count)[:50]!r}; expected a number.")
  return int(count)


def may_embed_alone(op: ir.Op) -> bool:
  """Returns whether XLA can run this op alone, on one device."""
  return (
    op.name not in (*HOST_TRANSFERS, *COLLECTIVES, PER_DEVICE)
    and str(op.attrs.get("call_target_name")) not in HOST_CALLBACKS
  )
