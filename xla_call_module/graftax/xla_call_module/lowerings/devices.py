"""Device numbers and collectives, for a single device or inside of a `shard_map`."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
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
  if kind == "partition" and context.manual_axes:
    return lax.axis_index(tuple(name for name, _ in context.manual_axes)).astype(op.type.dtype)
  count = communication.num_replicas if kind == "replica" else communication.num_partitions
  if count(context.ir) != 1:
    raise context.unsupported(op, f"the module runs on several {kind}s; a lifted function runs on one.")
  return np.zeros((), op.type.dtype)


# In groups of one device there is nothing to split or to join, so these attributes have no effect.
_OF_SEVERAL_DEVICES = (
    "all_gather_dim", "channel_handle", "concat_dimension", "scatter_dimension", "split_count", "split_dimension",
    "use_global_device_ids",
)  # fmt: skip


@register(*communication.COLLECTIVES, attributes=("replica_groups", "source_target_pairs"), ignores=_OF_SEVERAL_DEVICES)
def _collective(context: Context, op: ir.Op, *operands: Array, environment: Any = None) -> Any:
  """Lowers a collective inside of a `shard_map`, and one over groups of one device to the identity."""
  if context.manual_axes is not None:
    return _over_axes(context, op, context.manual_axes, operands)
  groups = communication.groups(op)
  if not communication.is_alone(context.ir, op) or len(operands) != len(op.types):
    raise context.unsupported(op, f"it communicates between devices in groups {groups.tolist()!r}.", embeds=False)
  if op.name == "stablehlo.collective_permute" and not groups.size:
    return lax.full_like(operands[0], 0)  # a device that receives nothing gets zeros
  return operands if len(operands) > 1 else operands[0]


_Mesh = tuple[tuple[str, int], ...]
_REDUCTIONS = {"stablehlo.add": lax.psum, "stablehlo.maximum": lax.pmax, "stablehlo.minimum": lax.pmin}


def _over_axes(context: Context, op: ir.Op, mesh: _Mesh, operands: Sequence[Array]) -> Any:
  """Lowers a collective to JAX's over the axes of the mesh that its groups are."""
  names = () if context.options.mesh is None else context.options.mesh.axis_names
  run = _collective_of_jax(op, mesh, names) if mesh and communication.num_replicas(context.ir) == 1 else None
  if run is None or len(operands) != len(op.types):
    raise context.unsupported(op, f"in a shard_map over {dict(mesh)} it has no counterpart here.", embeds=False)
  results = [run(x) for x in operands]
  for result, kind in zip(results, op.types, strict=True):
    if isinstance(kind, ir.TensorType) and tuple(result.shape) != tuple(kind.shape):
      raise context.unsupported(op, f"over {dict(mesh)} its result has shape {result.shape}, not {kind.shape}.")
  return results[0] if len(results) == 1 else tuple(results)


def _collective_of_jax(op: ir.Op, mesh: _Mesh, names: Sequence[str]) -> Callable[[Array], Any] | None:
  """Returns what a collective does with one operand, or None if JAX has no counterpart.

  Args:
    op: the collective.
    mesh: names and sizes of the axes, in the order in which the module numbers devices.
    names: the axes in the order of the mesh that the caller gave.
  """
  attrs = op.attrs
  # Without these, the numbers in the groups are not those of devices.
  numbers_devices = attrs.boolean("use_global_device_ids", False)
  crosses_partitions = communication.has_channel(op)
  if op.name == "stablehlo.collective_permute":
    return _permute(op, mesh, names) if crosses_partitions else None
  if op.name == "stablehlo.all_reduce":
    axes, reduction = _group_axes(op, mesh), _REDUCTIONS.get(_reducer(op))
    return (lambda x: reduction(x, axes)) if axes and reduction and numbers_devices else None
  if op.name == "stablehlo.collective_broadcast":
    return _broadcast(op, mesh) if crosses_partitions else None
  axes = _group_axes(op, mesh, in_order=True)
  if not axes:
    return None
  if op.name == "stablehlo.all_gather" and numbers_devices:
    return lambda x: lax.all_gather(x, axes, axis=attrs.integer("all_gather_dim"), tiled=True)
  if op.name == "stablehlo.reduce_scatter" and numbers_devices and _reducer(op) == "stablehlo.add":
    return lambda x: lax.psum_scatter(x, axes, scatter_dimension=attrs.integer("scatter_dimension"), tiled=True)
  if op.name == "stablehlo.all_to_all" and crosses_partitions:
    split, concat = attrs.integer("split_dimension"), attrs.integer("concat_dimension")
    return lambda x: lax.all_to_all(x, axes, split, concat, tiled=True)
  return None


def _permute(op: ir.Op, mesh: _Mesh, names: Sequence[str]) -> Callable[[Array], Any] | None:
  """Returns what a permutation does, or None if it names devices that the mesh does not have.

  JAX numbers its devices by the axes in the order of the given mesh alone.
  """
  order = sorted(range(len(mesh)), key=lambda i: names.index(mesh[i][0]))
  sizes = [size for _, size in mesh]
  number = np.argsort(np.arange(math.prod(sizes)).reshape(sizes).transpose(order).reshape(-1)).tolist()
  given = np.asarray(op.attrs["source_target_pairs"]).reshape(-1, 2)
  if (given < 0).any() or (given >= len(number)).any():
    return None
  pairs = [(number[a], number[b]) for a, b in given.tolist()]
  return lambda x: lax.ppermute(x, tuple(mesh[i][0] for i in order), pairs)


def _broadcast(op: ir.Op, mesh: _Mesh) -> Callable[[Array], Any] | None:
  """Returns what a broadcast does: the first device of each group sends, and has the same place in all groups."""
  axes = _group_axes(op, mesh)
  groups: Any = op.attrs.get("replica_groups", ())
  if not axes:
    return None
  if isinstance(groups, dict):
    return lambda x: lax.all_gather(x, axes)[0]
  sizes = dict(mesh)
  devices = np.arange(math.prod(sizes.values())).reshape(list(sizes.values()))
  chosen = [list(sizes).index(name) for name in axes]
  rows = np.moveaxis(devices, chosen, range(-len(chosen), 0)).reshape(len(groups), -1).tolist()
  senders = {row.index(int(group[0])) for group in groups for row in rows if int(group[0]) in row}
  if len(senders) != 1:
    return None
  (sender,) = senders
  return lambda x: lax.all_gather(x, axes)[sender]


def _reducer(op: ir.Op) -> str:
  """Returns the op that combines two elements, or an empty string if the region does something else."""
  region = op.regions[0]
  if len(region.ops) != 1 or region.returns != region.ops[0].results:
    return ""
  return region.ops[0].name if set(region.ops[0].operands) == set(region.args) else ""


def _group_axes(op: ir.Op, mesh: _Mesh, *, in_order: bool = False) -> tuple[str, ...] | None:
  """Returns the axes of the mesh along which the groups of a collective lie, or None if they are other groups.

  Args:
    op: the collective.
    mesh: names and sizes of the axes.
    in_order: whether the order of the devices in a group matters, too.
  """
  groups: Any = op.attrs.get("replica_groups", ())
  if isinstance(groups, dict):
    axes = [dict(axis) for axis in groups.get("axes", ())]
    names = tuple(str(axis.get("name", "")).strip('"') for axis in axes)
    return names if all(len(axis) == 1 for axis in axes) and set(names) <= {name for name, _ in mesh} else None
  if not len(groups):
    return None  # all devices, which have to be listed if they have global numbers
  order: Callable[[Any], list[int]] = list if in_order else sorted
  choices: Callable[..., Iterable[tuple[int, ...]]] = itertools.permutations if in_order else itertools.combinations
  wanted = sorted(tuple(order(map(int, group))) for group in np.asarray(groups).reshape(len(groups), -1))
  sizes = [size for _, size in mesh]
  devices = np.arange(math.prod(sizes)).reshape(sizes)
  for count in range(1, devices.ndim + 1):
    for chosen in choices(range(devices.ndim), count):
      size = math.prod(sizes[i] for i in chosen)
      if size != len(wanted[0]):
        continue
      moved = np.moveaxis(devices, chosen, range(-count, 0)).reshape(-1, size)
      if sorted(tuple(order(map(int, group))) for group in moved) == wanted:
        return tuple(mesh[i][0] for i in chosen)
  return None
