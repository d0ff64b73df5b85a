"""Communication between replicas and partitions, for a single replica, because a converted function runs as one.

If a graph has groups of several replicas, the result would differ, so that is an error.
"""

import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import PartialShape
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, Value
from graftax.ops_jax.tf2xla.proto_fields import integer_fields

__all__ = [
  "collective_assign_group_v2",
  "collective_reduce_v2",
  "cross_replica_sum",
  "xla_all_reduce",
  "xla_reduce_scatter",
  "xla_replica_id",
  "xla_sharding",
  "xla_spmd_full_to_shard_shape",
  "xla_spmd_shard_to_full_shape",
]

_ADVICE = "A converted function is a single replica: combine its results with jax.lax.psum and similar functions."
_REPLICATED, _MAXIMAL, _OTHER = 0, 1, 3


@register("XlaReplicaId")
def xla_replica_id() -> np.int32:
  """Returns 0, int32, the number of the only replica.

  Source op: `XlaReplicaId` (tf2xla).
  """
  return np.int32(0)


@register("XlaAllReduce", ignores=("T", "mode", "reduce_op"))
def xla_all_reduce(input: Array, group_assignment: Static[np.ndarray]) -> Array:
  """Returns the input, because each group has a single replica.

  Source op: `XlaAllReduce` (tf2xla).

  Args:
    input: any shape.
    group_assignment: `[num_groups, 1]`, or empty for one group of all replicas.

  Raises:
    UnsupportedOpError: a group has several replicas.
  """
  return _alone("XlaAllReduce", input, group_assignment)


@register("CrossReplicaSum", ignores=("T",))
def cross_replica_sum(input: Array, group_assignment: Static[np.ndarray]) -> Array:
  """Returns the input, because each group has a single replica; arguments as for `XlaAllReduce`.

  Source op: `tf.raw_ops.CrossReplicaSum`.
  """
  return _alone("CrossReplicaSum", input, group_assignment)


@register("XlaReduceScatter", ignores=("T", "reduce_op"))
def xla_reduce_scatter(input: Array, group_assignment: Static[np.ndarray], scatter_dimension: Static[int]) -> Array:
  """Returns the input, because each group has a single replica; other arguments as for `XlaAllReduce`.

  Source op: `XlaReduceScatter` (tf2xla).
  """
  del scatter_dimension
  return _alone("XlaReduceScatter", input, group_assignment)


def _alone(op: str, input: Array, groups: np.ndarray) -> Array:
  if groups.size and (groups.ndim != 2 or groups.shape[1] != 1):
    raise UnsupportedOpError(f"{op}: group_assignment={groups.tolist()} joins several replicas. {_ADVICE}")
  return input


@register(
  "CollectiveReduceV2",
  ignores=(
    "Nordering_token", "T", "communication_hint", "final_op", "is_stateless", "max_subdivs_per_device", "merge_op",
    "timeout_seconds",
  ),
)  # fmt: skip
def collective_reduce_v2(
  input: Array, group_size: Static[int], group_key: Value, instance_key: Value, ordering_token: list[Value]
) -> Array:
  """Returns the input, because the group has a single device.

  Source op: `tf.raw_ops.CollectiveReduceV2`.

  Args:
    input: any shape.
    group_size: 1. Must be concrete.
    group_key: not used.
    instance_key: not used.
    ordering_token: not used.

  Raises:
    UnsupportedOpError: the group has several devices.
  """
  if group_size != 1:
    raise UnsupportedOpError(f"CollectiveReduceV2: a group of {group_size} devices. {_ADVICE}")
  return input


@register("CollectiveAssignGroupV2")
def collective_assign_group_v2(
  group_assignment: Static[np.ndarray], device_index: Static[int], base_key: Static[int]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the size and the key of the group of a device.

  Source op: `tf.raw_ops.CollectiveAssignGroupV2`.

  Args:
    group_assignment: `[num_groups, group_size]`, devices. Must be concrete, like the others.
    device_index: the device.
    base_key: key of the first group; the keys are consecutive.

  Returns:
    Group size and group key, int32 scalars.

  Raises:
    InvalidInputError: the device is in no group.
  """
  rows = np.flatnonzero((np.atleast_2d(group_assignment) == device_index).any(axis=1))
  if not rows.size:
    raise InvalidInputError(
      f"CollectiveAssignGroupV2: device {device_index} is in no group of {group_assignment.tolist()}."
    )
  return np.array(group_assignment.shape[1], np.int32), np.array(base_key + rows[0], np.int32)


@register("XlaSharding", ignores=("T", "sharding", "unspecified_dims"))
def xla_sharding(input: Array) -> Array:
  """Returns the input; JAX decides its sharding.

  Source op: `XlaSharding` (tf2xla).
  """
  return input


@register("XlaSpmdFullToShardShape", ignores=("T", "unspecified_dims"))
def xla_spmd_full_to_shard_shape(input: Array, *, manual_sharding: bytes, dim: int = -1) -> Array:
  """Returns the input, because the only partition has all of it.

  Source op: `XlaSpmdFullToShardShape` (tf2xla).

  Args:
    input: any shape.
    manual_sharding: serialized `xla.OpSharding`.
    dim: the dimension that is sharded manually, or -1 for all.

  Raises:
    UnsupportedOpError: the sharding has several parts.
  """
  _check_whole("XlaSpmdFullToShardShape", manual_sharding, jnp.ndim(input), dim)
  return input


@register("XlaSpmdShardToFullShape", ignores=("T", "unspecified_dims"))
def xla_spmd_shard_to_full_shape(
  input: Array, *, manual_sharding: bytes, full_shape: PartialShape, dim: int = -1
) -> Array:
  """Returns the input, because the only partition has all of it; arguments as for `XlaSpmdFullToShardShape`.

  Source op: `XlaSpmdShardToFullShape` (tf2xla).
  """
  _check_whole("XlaSpmdShardToFullShape", manual_sharding, jnp.ndim(input), dim)
  if full_shape.dims is not None and tuple(full_shape.dims) != jnp.shape(input):
    raise InvalidInputError(
      f"XlaSpmdShardToFullShape: a part of shape {jnp.shape(input)} is not the whole of shape {full_shape}."
    )
  return input


def _check_whole(op: str, sharding: bytes, rank: int, dim: int) -> None:
  # Type, number of tiles along each dimension (and, beyond the rank, of replicas).
  fields = integer_fields(op, sharding, fields=(1, 3))
  kind, tiles = fields.get(1, [_REPLICATED])[-1], fields.get(3, [])[:rank]
  relevant = tiles if dim < 0 else tiles[dim : dim + 1]
  if kind in (_REPLICATED, _MAXIMAL) or (kind == _OTHER and all(n == 1 for n in relevant)):
    return
  raise UnsupportedOpError(
    f"{op}: a sharding of kind {kind} into {tiles} parts makes programs for single partitions. Convert the function "
    f"without manual sharding, and shard it with jax.shard_map."
  )
