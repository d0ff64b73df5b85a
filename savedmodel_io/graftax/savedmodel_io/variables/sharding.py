"""The devices that `load(sharding=)` places each variable on."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from graftax.graphdef_ir import DType
from graftax.savedmodel_io.checkpoint.partition import Bounds
from graftax.savedmodel_io.errors import ShardingError
from graftax.savedmodel_io.objects.spec_text import listed
from graftax.savedmodel_io.pytrees import PyTree
from graftax.savedmodel_io.variables.nesting import flat

__all__ = [
  "ChooseSharding",
  "Shardings",
  "check_fit",
  "device_dtype",
  "is_whole",
  "partition_rules",
  "place",
  "sharding_choice",
]

ChooseSharding: TypeAlias = Callable[[str, tuple[int, ...]], Sharding | None]
"""Variable name and shape -> where it is placed, or None to leave it in the mapped file."""

Shardings: TypeAlias = Sharding | Mapping[str, PyTree] | ChooseSharding | None
"""What `load(sharding=)` takes: one for all variables, nested dicts of them by name, or a function; None for none."""

Region = tuple[slice, ...]

# More might not fit the system's cache.
_MOST_AHEAD_BYTES = 1 << 30
_WIDE_INTEGERS = frozenset({DType.INT64, DType.UINT64})


def partition_rules(mesh: Mesh, rules: Iterable[tuple[str, PartitionSpec]]) -> ChooseSharding:
  """Returns a function for `load(sharding=)` that chooses the `PartitionSpec` of a variable by patterns of names.

  Args:
    mesh: the devices.
    rules: `(pattern, spec)`. The pattern is a regular expression that is searched for in the name, so `"kernel$"` fits
      the end of it and `""` fits every name. Of several rules that fit, the first counts. Arrays of one element need no
      rule: each device holds them.

  Raises:
    ShardingError: a rule is not a pair of a regular expression and a PartitionSpec for this mesh. The result raises it
      for a variable that no rule fits.

  Example:
      >>> mesh = jax.make_mesh((1,), ("model",))
      >>> choose = partition_rules(mesh, [("kernel$", PartitionSpec(None, "model")), ("", PartitionSpec())])
      >>> choose("dense/kernel", (8, 4)).spec
      P(None, 'model')
  """
  compiled = [_rule(mesh, rule) for rule in rules]

  def choose(name: str, shape: tuple[int, ...]) -> Sharding:
    if np.prod(shape) == 1:
      return NamedSharding(mesh, PartitionSpec())
    for pattern, sharding in compiled:
      if pattern.search(name):
        return sharding
    patterns = [pattern.pattern for pattern, _ in compiled]
    raise ShardingError(
      f"variable {name!r} {list(shape)}: no rule fits among {patterns}; add one, such as ('', PartitionSpec()) as the "
      "last for variables that each device holds as a whole."
    )

  return choose


def _rule(mesh: Mesh, rule: Any) -> tuple[re.Pattern[str], NamedSharding]:
  try:
    pattern, spec = rule
    if not isinstance(spec, PartitionSpec):
      raise TypeError(f"{spec!r} is not a PartitionSpec")
    return re.compile(pattern), NamedSharding(mesh, spec)
  except (TypeError, ValueError, re.error) as e:
    raise ShardingError(f"partition rule {rule!r}: {e}; expected (regular expression, PartitionSpec).") from e


def sharding_choice(sharding: Shardings, names: Iterable[str]) -> ChooseSharding | None:
  """Returns the choice of the caller of `load`, or None if variables are not placed on devices.

  Args:
    sharding: None, a Sharding, a dict of them by variable name, flat or nested by slashes, or a function.
    names: the variables of the model.

  Raises:
    ShardingError: it is something else, or names a variable that the model does not have.
  """
  if sharding is None:
    return None
  if isinstance(sharding, Sharding):
    return lambda name, shape: sharding
  if isinstance(sharding, Mapping):
    return _by_name(sharding, tuple(names))
  if not callable(sharding):
    raise ShardingError(
      f"sharding={sharding!r:.80}: expected a jax.sharding.Sharding, a dict of them by variable name, or a function of "
      "name and shape, such as partition_rules(mesh, rules)."
    )
  return lambda name, shape: _checked(sharding(name, shape), name)


def _by_name(tree: Mapping[str, PyTree], names: tuple[str, ...]) -> ChooseSharding:
  shardings = flat(tree)
  for name in shardings:
    if name not in names:
      raise ShardingError(f"sharding names the variable {name!r}; {listed(name, names)}")

  def choose(name: str, shape: tuple[int, ...]) -> Sharding | None:
    if name not in shardings:
      raise ShardingError(
        f"variable {name!r} {list(shape)}: sharding has no entry for it; add one, or None to leave the variable in the "
        f"mapped file. {listed(name, shardings)}"
      )
    return _checked(shardings[name], name)

  return choose


def _checked(sharding: object, name: str) -> Sharding | None:
  if sharding is None or isinstance(sharding, Sharding):
    return sharding
  raise ShardingError(f"variable {name!r}: sharding is {sharding!r:.80}; expected a jax.sharding.Sharding or None.")


def device_dtype(stored: DType, cast: np.dtype | None) -> np.dtype | None:
  """Returns the type in which JAX holds a variable, or None if it cannot hold it without loss of integers.

  Args:
    stored: the type in the checkpoint.
    cast: the type it is cast to; None for its own.
  """
  if stored == DType.STRING or (stored in _WIDE_INTEGERS and not jax.config.jax_enable_x64):
    return None
  return np.dtype(jax.dtypes.canonicalize_dtype(stored.numpy if cast is None else cast))


def place(
  name: str,
  shape: tuple[int, ...],
  dtype: np.dtype,
  sharding: Sharding,
  read: Callable[[Region], np.ndarray],
  read_ahead: Callable[[Region], None] | None = None,
) -> jax.Array:
  """Returns a variable on its devices. Each box of it that a device of this process holds is read once.

  Args:
    name: for messages.
    shape: the shape of the whole.
    dtype: the type of what `read` returns.
    sharding: where it is placed.
    read: returns a box of the variable that nothing else refers to.
    read_ahead: called with what will be read next, if other processes hold a part of the variable. Otherwise this one
      reads all of it, and the system reads ahead by itself.

  Raises:
    ShardingError: the sharding does not fit the shape.
  """
  check_fit(name, shape, sharding)
  devices: dict[Bounds, list[jax.Device]] = {}
  for device, index in sharding.addressable_devices_indices_map(shape).items():
    box = tuple(
      (part.start or 0, size if part.stop is None else part.stop) for part, size in zip(index or (), shape, strict=True)
    )
    devices.setdefault(box, []).append(device)
  arrays = []
  next_boxes = _read_together(tuple(devices), dtype.itemsize)
  for (box, holders), next_box in zip(devices.items(), next_boxes, strict=True):
    if read_ahead is not None and next_box is not None and not sharding.is_fully_addressable:
      read_ahead(_region(next_box))
    value = read(_region(box))
    targets = [SingleDeviceSharding(device, memory_kind=sharding.memory_kind) for device in holders]
    # Waiting for each box keeps the memory of the host free of boxes that are on their way.
    arrays += jax.block_until_ready([jax.device_put(value, target) for target in targets])
  return jax.make_array_from_single_device_arrays(shape, sharding, arrays, dtype=dtype)


def _read_together(boxes: tuple[Bounds, ...], itemsize: int) -> list[Bounds | None]:
  """Returns what to read ahead before each of some disjoint boxes: for the first all of them, if they are one box.

  Devices of a process often hold adjacent columns. Read together, they are fewer and longer parts of the file.
  """
  most = _MOST_AHEAD_BYTES // itemsize
  sides = [list(zip(*bounds, strict=True)) for bounds in zip(*boxes, strict=True)]
  joined = tuple((min(starts), max(stops)) for starts, stops in sides)
  if _size(joined) == sum(map(_size, boxes)) <= most:
    return [joined, *(None for _ in boxes[1:])]
  return [box if _size(box) <= most else None for box in boxes]


def _size(box: Bounds) -> int:
  return math.prod(stop - start for start, stop in box)


def _region(box: Bounds) -> Region:
  return tuple(slice(*bound) for bound in box)


def is_whole(region: Region, shape: tuple[int, ...]) -> bool:
  """Returns whether a region with explicit bounds is all of an array."""
  return all((part.start, part.stop) == (0, size) for part, size in zip(region, shape, strict=True))


def check_fit(name: str, shape: tuple[int, ...], sharding: Sharding) -> None:
  """Raises a `ShardingError` if a sharding does not fit the shape of a variable."""
  try:
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
      raise ValueError(f"{sharding.spec} has {len(sharding.spec)} dimensions")
    sharding.shard_shape(shape)
  except ValueError as e:
    raise ShardingError(f"variable {name!r} {list(shape)}: the sharding does not fit its shape: {e}") from e
