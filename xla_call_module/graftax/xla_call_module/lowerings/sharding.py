"""Sharding annotations of GSPMD and Shardy: constraints if a mesh is given, otherwise dropped with a record."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax import Array, lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import region_function, run_region
from graftax.xla_call_module.registry import register, register_custom_call
from graftax.xla_call_module.values import materialize

__all__: list[str] = []

# There is one way at most to match a text, so that the time is not exponential in its length.
_DIM = r'\{[^{}"]*(?:"[^"]*"[^{}"]*)*\}(?:p\d+)?'
_DIMS = re.compile(rf"\[({_DIM}(?:\s*,\s*{_DIM})*)?\]")


def _dims(text: str) -> list[str]:
  """Returns the contents of the braces of each dimension of a Shardy annotation `<@mesh, [{"x", "y"}, {?}p1], ...>`."""
  body = _DIMS.search(text)
  return [dim[1 : dim.rindex("}")] for dim in re.findall(_DIM, body[1] or "")] if body else []


def _names_axes(text: str) -> bool:
  return any('"' in dim for dim in _dims(text))


def _partition_spec(context: Context, op: ir.Op, text: str) -> PartitionSpec:
  """Returns the `PartitionSpec` of a Shardy annotation.

  Raises:
    LiftError: the annotation splits a mesh axis.
  """
  entries: list[Any] = []
  for dim in _dims(text):
    if '":(' in dim:
      raise context.unsupported(op, f"its sharding {text} splits a mesh axis, which a PartitionSpec cannot express.")
    axes = tuple(re.findall(r'"([^"]+)"', dim))
    is_open = dim.rstrip().endswith("?")
    entries.append((axes[0] if len(axes) == 1 else axes) if axes else PartitionSpec.UNCONSTRAINED if is_open else None)
  return PartitionSpec(*entries)


def _axis_names(spec: PartitionSpec) -> set[str]:
  entries = (entry if isinstance(entry, tuple) else (entry,) for entry in spec)
  return {name for entry in entries for name in entry if isinstance(name, str)}


@register("sdy.sharding_constraint", "sdy.reshard", takes_known=True, attributes=("sharding",))
def _sharding_constraint(context: Context, op: ir.Op, x: Any) -> Any:
  return _constrain(context, op, x, str(op.attrs["sharding"]))


def _constrain(context: Context, op: ir.Op, x: Any, text: str) -> Any:
  """Constrains a value to the sharding of a Shardy annotation, on the mesh that the caller gave."""
  mesh = context.options.mesh
  if not _names_axes(text):
    return x
  if mesh is None:
    context.record("sharding", op, f"dropped {text}: no mesh was given")
    return x
  if context.manual_axes is not None:
    context.record("sharding", op, f"dropped {text}: each device computes all of the body of its shard_map")
    return x
  spec = _partition_spec(context, op, text)
  names = _axis_names(spec)
  if not names <= set(mesh.axis_names):
    raise errors.ArgumentError(
      f"{op.place} shards over mesh axes {sorted(names)}; the mesh given has axes"
      f" {list(mesh.axis_names)}. Give a mesh with those axes, or none to drop the annotations."
    )
  return lax.with_sharding_constraint(materialize(x), NamedSharding(mesh, spec))


@register("sdy.manual_computation", attributes=("in_shardings", "manual_axes", "out_shardings"))
def _manual_computation(context: Context, op: ir.Op, *operands: Array, environment: dict[int, Any]) -> Any:
  """Lowers a region that runs per device to `shard_map` over the given mesh; inlines it for a single device.

  Along axes of the mesh that the region leaves to the compiler, each device computes the same.

  Raises:
    LiftError: the region is inside of another, or needs a mesh, or its shardings have no counterpart.
    ArgumentError: the given mesh does not fit.
  """
  mesh = context.options.mesh
  region = op.regions[0]
  # JAX computes the place along an axis in a region over the other axes, without operands.
  is_inside = context.manual_axes is not None and not operands and not _names_axes(str(op.attrs["out_shardings"]))
  if mesh is None or mesh.size == 1 or is_inside:
    local = [kind.shape for kind in region.types]
    if any(tuple(x.shape) != shape for x, shape in zip(operands, local, strict=True)):
      raise context.unsupported(op, f"it runs per device on shapes {local}; give a mesh with its axes.")
    return run_region(context, region, environment, operands)
  if context.manual_axes is not None:
    raise context.unsupported(
      op, "it is a shard_map in the body of another; export one shard_map over the axes of both.", embeds=False
    )
  if any(kind != AxisType.Auto for kind in mesh.axis_types):
    raise errors.ArgumentError(
      f"{op.place} is a shard_map, and the mesh given has axes of types {mesh.axis_types}. Give one with axes of type"
      " Auto: jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))."
    )
  body = region_function(context.inside_of(_manual_axes(context, op, mesh)), region, environment)
  given = (_specs(context, op, op.attrs[name]) for name in ("in_shardings", "out_shardings"))
  names = _names_of_manual_axes(op, mesh)
  if rest := [name for name in mesh.axis_names if name not in names]:
    context.record("sharding", op, f"each device along the mesh axes {rest} computes the same")
  ins, outs = ([_over(spec, names) for spec in specs] for specs in given)
  mapped = jax.shard_map(
    body, mesh=mesh, in_specs=tuple(ins), out_specs=tuple(outs) if len(outs) > 1 else outs[0], check_vma=False
  )
  return mapped(*operands)


def _names_of_manual_axes(op: ir.Op, mesh: Mesh) -> tuple[str, ...]:
  """Returns the axes of the mesh along which devices compute different parts; all if the op does not say."""
  named = re.findall(r'"([^"]+)"', str(op.attrs.get("manual_axes", "")))
  return tuple(named) or tuple(mesh.axis_names)


def _over(spec: PartitionSpec, names: Sequence[str]) -> PartitionSpec:
  """Returns a sharding along some axes of a mesh only."""
  entries = (entry if isinstance(entry, tuple) else (entry,) for entry in spec)
  return PartitionSpec(*(tuple(name for name in entry if name in names) or None for entry in entries))


def _specs(context: Context, op: ir.Op, shardings: ir.Attribute) -> tuple[PartitionSpec, ...]:
  if isinstance(shardings, tuple):
    return tuple(_hlo_spec(context, op, str(text)) for text in shardings)
  parts = re.findall(r"<@[^>]*>", str(shardings))
  return tuple(_partition_spec(context, op, part) if _names_axes(part) else PartitionSpec() for part in parts)


def _hlo_spec(context: Context, op: ir.Op, text: str) -> PartitionSpec:
  """Returns the `PartitionSpec` of an HLO sharding, whose tiles are axes of the mesh in order.

  Raises:
    LiftError: the sharding is another one.
  """
  if text in ("{replicated}", "{maximal device=0}"):
    return PartitionSpec()
  tiles = _tiles(text)
  # Tiles beyond the axes of the array would replicate it over some axes of the mesh.
  entries = None if tiles is None or tiles.replicates else _tile_axes(context, tiles.sizes)
  if entries is None:
    raise context.unsupported(op, f"its sharding {text} does not map to axes of the mesh.")
  return PartitionSpec(*entries)


def _manual_axes(context: Context, op: ir.Op, mesh: Mesh) -> tuple[tuple[str, int], ...]:
  """Returns the axes of the module's mesh, in the order in which they number devices; empty if devices are reordered.

  Raises:
    ArgumentError: the given mesh has other sizes.
  """
  shardings = op.attrs["in_shardings"]
  if isinstance(shardings, tuple):  # GSPMD has no names: the given mesh is the module's
    return tuple(mesh.shape.items())
  named = re.search(r"<@([\w.]+)", str(shardings) + str(op.attrs["out_shardings"]))
  text = str(context.ir.meshes.get(named[1], "")) if named else ""
  axes = tuple((name, int(size)) for name, size in re.findall(r'"([^"]+)"=(\d+)', text))
  if wrong := [f"{name}={size}" for name, size in axes if mesh.shape.get(name) != size]:
    raise errors.ArgumentError(
      f"{op.place} runs over a mesh with {', '.join(wrong)}; the mesh given has axes {dict(mesh.shape)}."
    )
  return () if "device_ids" in text else axes


@register_custom_call(
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding", "xla.sdy.Sharding",
    "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape", takes_known=True,
)  # fmt: skip
def _sharding_call(context: Context, op: ir.Op, x: Any) -> Any:
  target = op.attrs.text("call_target_name")
  frontend = op.attrs.fields("mhlo.frontend_attributes", ir.Attributes())
  shardy = frontend.get("xla.sdy.sharding")
  if shardy:
    return _constrain(context, op, x, str(shardy).replace("\\22", '"').replace("\\", ""))
  text = str(op.attrs.get("mhlo.sharding", ""))
  shape = getattr(op.types[0], "shape", None)
  if shape is not None and tuple(getattr(x, "shape", ())) != tuple(shape) and None not in shape:
    raise context.unsupported(op, f"{target} changes the shape from {x.shape} to {shape}: it needs the manual mesh.")
  if context.options.mesh is not None and "devices=" in text:
    return _constrain_hlo(context, op, x, text)
  if "devices=" in text:
    context.record("sharding", op, f"dropped {text}: no mesh was given")
  return x


_TILES = re.compile(r"\{devices=\[(\d+(?:,\d+)*)\](?:<=\[[\d,]+\]|(\d+(?:,\d+)*))( last_tile_dim_replicate)?\}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Tiles:
  """An HLO sharding that gives its tiles to the devices in their order.

  Attributes:
    sizes: the number of tiles along each axis of the array.
    replicates: whether `sizes` has one more element: how many devices have the same tile.
  """

  sizes: list[int]
  replicates: bool


def _tiles(text: str) -> _Tiles | None:
  """Returns the tiles of an HLO sharding such as `{devices=[2,1]<=[2]}` or `{devices=[2,1]0,1}`.

  None if it is another sharding, or if it gives the tiles to the devices in another order.
  """
  match = _TILES.fullmatch(text)
  if match is None:
    return None
  sizes = [int(part) for part in match[1].split(",")]
  if match[2] is not None:
    devices = [int(part) for part in match[2].split(",")]
    if len(devices) != math.prod(sizes) or devices != list(range(len(devices))):
      return None
  return _Tiles(sizes, match[3] is not None)


def _constrain_hlo(context: Context, op: ir.Op, x: Any, text: str) -> Any:
  """Constrains a value to an HLO sharding `{devices=[2,1]<=[2]}` if its tiles are products of mesh axes in order."""
  tiles = _tiles(text)
  mesh: Mesh | None = context.options.mesh
  entries = None if tiles is None else _tile_axes(context, tiles.sizes[: x.ndim])
  if entries is None or mesh is None:
    context.record("sharding", op, f"dropped {text}: it does not map to axes of the mesh")
    return x
  return lax.with_sharding_constraint(materialize(x), NamedSharding(mesh, PartitionSpec(*entries)))


def _tile_axes(context: Context, tiles: list[int]) -> list[Any] | None:
  """Returns the axes of the mesh whose product each number of tiles is, in order, or None if there are none."""
  mesh = context.options.mesh
  if mesh is None:
    return None
  axes, entries = list(mesh.axis_names), []
  for size in tiles:
    taken: list[str] = []
    product = 1
    while product < size and axes:
      taken.append(axes.pop(0))
      product *= mesh.shape[taken[-1]]
    if product != size:
      return None
    entries.append(tuple(taken) or None)
  return entries
