"""Converts arrays of JAX over several devices to DTensors."""

from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import PartitionSpec

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export._tensorflow import TfTensor, import_dtensor

__all__ = ["jax_array_to_dtensor", "one_spelling", "split_axes"]


def jax_array_to_dtensor(
  arr: jax.Array,
  pspec: jax.sharding.PartitionSpec | None,
  dmesh: Any,
  jax_mesh: jax.sharding.Mesh | None = None,
  allow_multi_axis_sharding_consolidation: bool | None = None,
  allow_multi_axis_sharding_conslidation: bool | None = None,
) -> TfTensor:
  """Returns an array as a DTensor that is split in the same way.

  Args:
    arr: the array.
    pspec: how the mesh axes split its dimensions; None if each device holds all of it.
    dmesh: the DTensor mesh.
    jax_mesh: the mesh of JAX; by default that of the array.
    allow_multi_axis_sharding_consolidation: DTensor splits a dimension by one mesh axis. If true, an array whose
      dimension is split by several axes is split by the largest of them instead.
    allow_multi_axis_sharding_conslidation: the same, in the spelling of earlier versions of orbax.export.

  Raises:
    SaveInputError: the two spellings contradict each other, neither `jax_mesh` nor the array's sharding is a mesh, a
      dimension is split by several axes, or its size is not a multiple of that of the axis.
  """
  consolidate = one_spelling(allow_multi_axis_sharding_conslidation, allow_multi_axis_sharding_consolidation)
  dtensor = import_dtensor("DTensor")
  sizes = {name: dmesh.dim_size(name) for name in dmesh.dim_names}
  axes = split_axes(arr.shape, pspec, sizes, consolidate=consolidate)
  if jax_mesh is None:
    mesh = getattr(arr.sharding, "mesh", None)
    if not isinstance(mesh, jax.sharding.Mesh):
      raise SaveInputError(f"jax_array_to_dtensor: the sharding {arr.sharding!r} has no mesh; pass jax_mesh")
    jax_mesh = mesh
  sharding = jax.sharding.NamedSharding(jax_mesh, jax.sharding.PartitionSpec(*axes))
  # This is `arr` itself if it already is split so.
  placed = jax.device_put(arr, sharding)
  shards = {shard.device: shard.data for shard in placed.addressable_shards}
  # TensorFlow numbers its devices in the order of the mesh, which need not be the order of JAX's device ids.
  local = [shards[device] for device in jax_mesh.devices.flat if device in shards]
  layout = dtensor.Layout([dtensor.UNSHARDED if axis is None else axis for axis in axes], dmesh)
  return dtensor.pack(local, layout)


def one_spelling(conslidation: bool | None, consolidation: bool | None) -> bool:
  """Returns the value of an argument that has two spellings.

  Raises:
    SaveInputError: both are given and differ.
  """
  if conslidation is not None and consolidation is not None and conslidation != consolidation:
    raise SaveInputError(
      f"allow_multi_axis_sharding_conslidation={conslidation!r} and "
      f"allow_multi_axis_sharding_consolidation={consolidation!r} are the same argument; pass one of them"
    )
  return bool(conslidation or consolidation)


def split_axes(
  shape: tuple[int, ...], pspec: PartitionSpec | None, sizes: Mapping[str, int], *, consolidate: bool
) -> tuple[str | None, ...]:
  """Returns the one mesh axis that splits each dimension, or None.

  Args:
    shape: the shape of the array.
    pspec: a `PartitionSpec`, or None.
    sizes: mesh axis -> number of devices. Axes of size 1 do not count.
    consolidate: take the largest axis if several split a dimension.

  Raises:
    SaveInputError: several axes split a dimension and `consolidate` is false, an axis is unknown, or the size of a
      dimension is not a multiple of that of its axis.

  Example:
    >>> split_axes((8, 4, 2), jax.sharding.PartitionSpec(("x", "y"), None), {"x": 4, "y": 2}, consolidate=True)
    ('x', None, None)
  """
  entries = () if pspec is None else tuple(pspec)
  if len(entries) > len(shape):
    raise SaveInputError(f"{pspec} has {len(entries)} entries, but the array has the shape {shape}")
  return tuple(
    _axis_of(dim, size, entries[dim] if dim < len(entries) else None, sizes, consolidate)
    for dim, size in enumerate(shape)
  )


def _axis_of(dim: int, size: int, entry: Any, sizes: Mapping[str, int], consolidate: bool) -> str | None:
  names = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
  unknown = [name for name in names if name not in sizes]
  if unknown:
    raise SaveInputError(f"dimension {dim} is split by {unknown}, but the mesh has the axes {dict(sizes)}")
  splitting = [name for name in names if sizes[name] > 1]
  if len(splitting) > 1 and not consolidate:
    raise SaveInputError(
      f"dimension {dim} is split by several mesh axes, { ({name: sizes[name] for name in splitting}) }, which DTensor "
      "does not do; pass allow_multi_axis_sharding_consolidation=True to split it by the largest one"
    )
  axis = max(splitting, key=sizes.__getitem__, default=None)
  if axis is not None and size % sizes[axis]:
    raise SaveInputError(
      f"dimension {dim} has size {size}, which must be a multiple of the size of mesh axis {axis!r}, {sizes[axis]}"
    )
  return axis
