"""The signature of an exported function as data: names, nesting, shapes, shardings and effects."""

import dataclasses

import jax
from jax.sharding import NamedSharding, PartitionSpec

from graftax.xla_call_module import errors
from graftax.xla_call_module.trees import Tree

__all__ = ["KEY_IMPLEMENTATIONS", "Leaf", "SavedSharding", "Signature"]

KEY_IMPLEMENTATIONS = {"key<fry>": ("threefry2x32", 2), "key<rbg>": ("rbg", 4), "key<urbg>": ("unsafe_rbg", 4)}
"""Dtypes of typed random keys: the name of the implementation, and the words of uint32 of one key."""


@dataclasses.dataclass(frozen=True, slots=True)
class SavedSharding:
  """How an argument or a result is distributed over devices.

  Attributes:
    axes: names and sizes of the axes of the mesh; empty if the file has an HLO sharding.
    spec: the axes of the mesh that split each axis of the array, or None.
    memory_kind: where the array lies, or None for the default.
    hlo: a serialized `OpSharding`, which files before JAX 0.9 have instead of names.
  """

  axes: tuple[tuple[str, int], ...] = ()
  spec: tuple[tuple[str, ...] | None, ...] = ()
  memory_kind: str | None = None
  hlo: bytes = b""

  def on(self, mesh: jax.sharding.Mesh) -> NamedSharding:
    """Returns this sharding on a mesh.

    Raises:
      ArgumentError: the mesh has no axes of these names and sizes, the file did not keep names, or it names an unknown
        axis, an axis twice, or a memory that the devices lack.
    """
    if self.hlo:
      raise errors.ArgumentError("the file has a sharding without names of axes; place the array yourself.")
    used = [name for entry in self.spec for name in entry or ()]
    if len({*used}) < len(used):
      raise errors.ArgumentError(f"the file has a sharding that names an axis twice: {self.spec}")
    missing = [f"{name}={size}" for name, size in self.axes if name in used and mesh.shape.get(name) != size]
    if missing:
      raise errors.ArgumentError(f"the mesh has axes {dict(mesh.shape)}; the sharding needs {', '.join(missing)}.")
    entries = [entry[0] if entry and len(entry) == 1 else entry for entry in self.spec]
    kind = None if self.memory_kind == "device" else self.memory_kind  # the default, which CPUs call otherwise
    try:
      return NamedSharding(mesh, PartitionSpec(*entries), memory_kind=kind)
    except ValueError as error:  # JAX compares the names and the memory with the mesh
      raise errors.ArgumentError(f"the file has a sharding that cannot be placed on the mesh: {error}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
  """One array among the arguments or results.

  Attributes:
    path: where it is: `args[0]['w']` or `kwargs['scale']` of an argument, `result[0]` of a result.
    shape: sizes; a symbolic one is its text, such as "2*b + 1".
    dtype: the name of the dtype; also "float0", and "key<fry>", "key<rbg>" and "key<urbg>" for random keys.
    sharding: how it is distributed, or None if the file does not say.
    is_donated: whether the function may overwrite it.
  """

  path: str
  shape: tuple[int | str, ...]
  dtype: str
  sharding: SavedSharding | None = None
  is_donated: bool = False

  def __str__(self) -> str:
    return f"{self.path}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
  """What an exported function takes and returns.

  Attributes:
    name: the function's name.
    inputs: the arrays of its arguments, in order.
    outputs: the arrays of its results, in order.
    in_tree: the nesting of arguments: a pair of a tuple of positional arguments and a dict of named ones.
    out_tree: the nesting of the results.
    num_devices: for how many devices it was lowered.
    ordered_effects: names of the effects that happen in the order of the program.
    unordered_effects: names of other effects.
    uses_global_constants: whether constants are parameters of `main`.
    jax_version: the JAX that wrote the file, if it says so.
  """

  name: str
  inputs: tuple[Leaf, ...]
  outputs: tuple[Leaf, ...]
  in_tree: Tree
  out_tree: Tree
  num_devices: int = 1
  ordered_effects: tuple[str, ...] = ()
  unordered_effects: tuple[str, ...] = ()
  uses_global_constants: bool = False
  jax_version: str | None = None

  def __str__(self) -> str:
    return f"{self.name}{self.in_tree} -> {self.out_tree}"
