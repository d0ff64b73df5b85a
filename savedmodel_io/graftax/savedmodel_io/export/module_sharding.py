"""How the parameters of a `JaxModule` are spread over devices."""

import warnings
from dataclasses import dataclass

import jax
from jax.sharding import PartitionSpec
from jax.tree_util import PyTreeDef

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export.dtensor import Mesh, get_current_mesh
from graftax.savedmodel_io.export.module_parameters import ModuleParameters
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["Sharding", "module_sharding"]


@dataclass(frozen=True)
class Sharding:
  """How arrays are spread over devices, for variables that are DTensors.

  Attributes:
    mesh: the devices.
    pspecs: the `PartitionSpec` of each array; None for arrays that each device holds as a whole.
    consolidate: whether an array that is split by several mesh axes along one dimension may be split by one of them.
  """

  mesh: Mesh
  pspecs: tuple[PartitionSpec, ...]
  consolidate: bool


def module_sharding(parameters: ModuleParameters, pspecs: PyTree, consolidate: bool) -> Sharding | None:
  """Returns how the parameters of a new module are spread; None if its variables are on one device.

  That is so outside of `maybe_enable_dtensor_export_on`, and, with a warning, if some parameters are not `jax.Array`s.

  Raises:
    SaveInputError: there is a mesh and no `pspecs`, there are `pspecs` and no mesh, or `pspecs` does not fit.
  """
  mesh = get_current_mesh()
  if mesh is not None and pspecs is None:
    raise SaveInputError(
      "`pspecs` is not specified, but the module is made inside maybe_enable_dtensor_export_on(mesh); pass the "
      "PartitionSpec of each parameter"
    )
  if mesh is None and pspecs is not None:
    raise SaveInputError(
      "pspecs is given, but JaxModule is not created within a DTensor export context; call initialize_dtensor(), and "
      "make the module inside `with maybe_enable_dtensor_export_on(mesh)`"
    )
  if mesh is None:
    return None
  leaves, treedef = jax.tree.flatten(parameters.tree)
  if not all(isinstance(leaf, jax.Array) for leaf in leaves):
    warnings.warn(
      "Some parameters are not jax.Arrays, so the variables of this JaxModule are not DTensors; place all parameters "
      "on the mesh with jax.device_put.",
      stacklevel=3,
    )
    return None
  return Sharding(mesh, _flat_pspecs(pspecs, treedef), consolidate)


def _flat_pspecs(pspecs: PyTree, treedef: PyTreeDef) -> tuple[PartitionSpec, ...]:
  try:
    flat = treedef.flatten_up_to(pspecs)
  except (ValueError, TypeError) as e:
    raise SaveInputError(f"pspecs does not have the structure of params: {e}") from e
  wrong = [pspec for pspec in flat if not (pspec is None or isinstance(pspec, jax.sharding.PartitionSpec))]
  if wrong:
    raise SaveInputError(f"pspecs holds {wrong[0]!r:.80}; expected a PartitionSpec for each parameter")
  return tuple(flat)
