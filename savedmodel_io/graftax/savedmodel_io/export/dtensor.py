"""DTensor, TensorFlow's arrays over several devices: the mesh that exported parameters are placed on."""

import contextlib
import dataclasses
import math
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from graftax.savedmodel_io.errors import DTensorError, SaveInputError
from graftax.savedmodel_io.export._tensorflow import import_dtensor
from graftax.savedmodel_io.pytrees import KeyPath, Leaf, PyTree

__all__ = [
  "Mesh",
  "dtensor_initialized",
  "get_current_dtensor_mesh",
  "get_current_mesh",
  "get_pspec_from_jax_arrays",
  "initialize_dtensor",
  "jax_mesh_to_dtensor_mesh",
  "maybe_enable_dtensor_export_on",
  "shutdown_dtensor",
]

_PURPOSE = "DTensor"


@dataclasses.dataclass(frozen=True)
class Mesh:
  """The devices that parameters are placed on.

  Attributes:
    jax_mesh: the mesh in JAX.
    dtensor_mesh: the same mesh of logical CPU devices of TensorFlow.
  """

  jax_mesh: jax.sharding.Mesh
  dtensor_mesh: Any


class _State(threading.local):
  """The meshes of the contexts that this thread is in."""

  def __init__(self) -> None:
    self.meshes: list[Mesh] = []


@dataclasses.dataclass
class _System:
  """Whether DTensor was initialized; TensorFlow has one per process."""

  is_initialized: bool = False


_STATE = _State()
_SYSTEM = _System()


def initialize_dtensor(reset_context: bool = False) -> None:
  """Initializes DTensor with one logical CPU device for each device of JAX.

  Call it before TensorFlow runs anything.

  Args:
    reset_context: discard what TensorFlow has run so far. Tensors and variables that exist become unusable.

  Raises:
    LibraryNotFoundError: TensorFlow is not installed.
    DTensorError: TensorFlow was used before, or the number of DTensor clients is not that of JAX processes.
  """
  dtensor = import_dtensor(_PURPOSE)
  num_devices = jax.local_device_count()
  try:
    dtensor.initialize_accelerator_system(
      device_type="CPU", num_logical_cpu_devices=num_devices, experimental_reset_context=reset_context
    )
  except (RuntimeError, ValueError) as e:
    raise DTensorError(
      f"DTensor cannot be initialized with {num_devices} logical CPU devices: {e} Call initialize_dtensor() before "
      "TensorFlow runs anything, or pass reset_context=True, which makes existing tensors unusable."
    ) from e
  if dtensor.num_clients() != jax.process_count():
    raise DTensorError(
      f"DTensor has {dtensor.num_clients()} clients, and JAX {jax.process_count()} processes; expected as many. Set "
      "DTENSOR_JOBS and the other variables of DTensor for each process."
    )
  _SYSTEM.is_initialized = True


def dtensor_initialized() -> bool:
  """Returns whether `initialize_dtensor` was called.

  Example:
    >>> dtensor_initialized()
    False
  """
  return _SYSTEM.is_initialized


def shutdown_dtensor() -> None:
  """Ends DTensor.

  Raises:
    DTensorError: `initialize_dtensor` was not called.
  """
  if not _SYSTEM.is_initialized:
    raise DTensorError("DTensor is not initialized; call initialize_dtensor() first.")
  import_dtensor(_PURPOSE).shutdown_accelerator_system()
  _SYSTEM.is_initialized = False


def jax_mesh_to_dtensor_mesh(mesh: jax.sharding.Mesh) -> Any:
  """Returns a DTensor mesh of logical CPU devices, with the shape and the axis names of a mesh of JAX."""
  dtensor = import_dtensor(_PURPOSE)
  shape = mesh.devices.shape
  process = jax.process_index()
  local_ids = [i for i, device in enumerate(mesh.devices.flat) if device.process_index == process]
  return dtensor.Mesh(
    list(mesh.axis_names),
    global_device_ids=np.arange(math.prod(shape)).reshape(shape),
    local_device_ids=local_ids,
    local_devices=dtensor.local_devices(device_type="CPU")[: len(local_ids)],
  )


@contextlib.contextmanager
def maybe_enable_dtensor_export_on(mesh: jax.sharding.Mesh | None) -> Iterator[None]:
  """Makes parameters of modules that are made inside of it DTensors on a mesh.

  Does nothing if the mesh is None or DTensor is not initialized.

  Example:
    >>> with maybe_enable_dtensor_export_on(None):
    ...   print(get_current_mesh())
    None
  """
  if mesh is None or not _SYSTEM.is_initialized:
    yield
    return
  _STATE.meshes.append(Mesh(mesh, jax_mesh_to_dtensor_mesh(mesh)))
  try:
    yield
  finally:
    _STATE.meshes.pop()


def get_current_mesh() -> Mesh | None:
  """Returns the mesh of the innermost `maybe_enable_dtensor_export_on`; None outside of it."""
  return _STATE.meshes[-1] if _STATE.meshes else None


def get_current_dtensor_mesh() -> Any | None:
  """Returns the DTensor mesh of the innermost `maybe_enable_dtensor_export_on`; None outside of it."""
  mesh = get_current_mesh()
  return None if mesh is None else mesh.dtensor_mesh


def get_pspec_from_jax_arrays(nested_jax_arrays: PyTree) -> PyTree:
  """Returns the `PartitionSpec` of each array, nested in the same way.

  Args:
    nested_jax_arrays: a pytree of `jax.Array`s or `jax.ShapeDtypeStruct`s with a `NamedSharding`.

  Raises:
    SaveInputError: an array has another sharding, or the arrays are on several meshes.

  Example:
    >>> mesh = jax.sharding.Mesh(jax.devices()[:1], "x")
    >>> sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    >>> get_pspec_from_jax_arrays({"w": jax.device_put(np.ones(2), sharding)})["w"] == sharding.spec
    True
  """
  meshes: dict[Any, str] = {}

  def pspec(path: KeyPath, array: Leaf) -> PartitionSpec:
    name = jax.tree_util.keystr(tuple(path))
    sharding = getattr(array, "sharding", None)
    if not isinstance(sharding, jax.sharding.NamedSharding):
      raise SaveInputError(f"the array at {name or 'the root'} has the sharding {sharding}; expected a NamedSharding")
    meshes.setdefault(sharding.mesh, name)
    return sharding.spec

  pspecs = jax.tree_util.tree_map_with_path(pspec, nested_jax_arrays)
  if len(meshes) > 1:
    text = ", ".join(f"{name}: {mesh}" for mesh, name in meshes.items())
    raise SaveInputError(f"the arrays are on several meshes ({text}); expected one")
  return pspecs
