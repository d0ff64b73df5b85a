"""Ops that exchange data with other devices or with the host."""

from typing import Any

import numpy as np

from graftax.xla_call_module import ir

__all__ = ["COLLECTIVES", "HOST_CALLBACKS", "HOST_TRANSFERS", "PER_DEVICE", "groups", "is_alone", "may_embed_alone"]

COLLECTIVES = (
    "stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.reduce_scatter",
    "stablehlo.collective_permute", "stablehlo.collective_broadcast", "stablehlo.cross-replica-sum",
)  # fmt: skip
HOST_TRANSFERS = ("stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed")
PER_DEVICE = "sdy.manual_computation"
# Each holds an address, or a number in a table, of the process that exported it.
HOST_CALLBACKS = frozenset({
    "xla_python_cpu_callback", "xla_python_gpu_callback", "xla_ffi_python_cpu_callback",
    "xla_ffi_python_gpu_callback", "xla_ffi_partitioned_python_cpu_callback",
    "xla_ffi_partitioned_python_gpu_callback", "xla_buffer_python_cpu_callback", "xla_buffer_python_gpu_callback",
})  # fmt: skip


def groups(op: ir.Op) -> Any:
  """The groups of devices, or the pairs of them, between which a collective communicates; None where it says none."""
  return op.attrs.get("replica_groups", op.attrs.get("source_target_pairs"))


def is_alone(op: ir.Op) -> bool:
  """Whether each device communicates with nobody but itself in a collective."""
  found = groups(op)
  if found is None:
    return False
  if op.name == "stablehlo.collective_permute":
    # A device that nobody sends to gets zeros.
    return len(found) > 0 and all(int(a) == int(b) for a, b in found)
  return np.shape(found)[-1:] == (1,)


def may_embed_alone(op: ir.Op) -> bool:
  """Whether XLA can run one op as it is, on one device."""
  return (
    op.name not in (*HOST_TRANSFERS, *COLLECTIVES, PER_DEVICE)
    and op.attrs.get("call_target_name") not in HOST_CALLBACKS
  )
