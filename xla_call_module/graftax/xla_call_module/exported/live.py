"""The fields of a live `jax.export.Exported`."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.typing import DTypeLike

from graftax.xla_call_module import trees
from graftax.xla_call_module.exported.fields import ExportedFields
from graftax.xla_call_module.signature import Leaf, SavedSharding, Signature

__all__ = ["array_struct", "check_name", "read"]

# An abstract value: the class that JAX declares has no shape and no dtype.
_Aval: TypeAlias = Any


def read(exported: jax.export.Exported) -> ExportedFields:
  """Returns the fields of an `Exported`, without its gradient: JAX derives that on demand."""
  in_tree, out_tree = trees.of_definition(exported.in_tree), trees.of_definition(exported.out_tree)
  positional, named = in_tree.children
  paths = [
    *(f"args{path}" for path in trees.leaf_paths(positional)),
    *(f"kwargs{path}" for path in trees.leaf_paths(named)),
  ]
  signature = Signature(
    name=exported.fun_name,
    inputs=tuple(map(_leaf, paths, exported.in_avals)),
    outputs=tuple(map(_leaf, (f"result{path}" for path in trees.leaf_paths(out_tree)), exported.out_avals)),
    in_tree=in_tree,
    out_tree=out_tree,
    num_devices=exported.nr_devices,
    ordered_effects=tuple(str(type(effect)) for effect in exported.ordered_effects),
    unordered_effects=tuple(str(type(effect)) for effect in exported.unordered_effects),
    uses_global_constants=exported.uses_global_constants,
  )
  return ExportedFields(
    signature=signature,
    module=exported.mlir_module_serialized,
    platforms=tuple(exported.platforms),
    version=exported.calling_convention_version,
    disabled_checks=tuple(map(check_name, exported.disabled_safety_checks)),
    kept=tuple(exported.module_kept_var_idx),
    key_words=_key_words((*exported.in_avals, *exported.out_avals)),
  )


def _leaf(path: str, aval: _Aval) -> Leaf:
  dtype = "float0" if aval.dtype == jax.dtypes.float0 else str(aval.dtype)
  return Leaf(path, tuple(dim if isinstance(dim, int) else str(dim) for dim in aval.shape), dtype, _sharding(aval))


def _sharding(aval: _Aval) -> SavedSharding | None:
  found = getattr(aval, "sharding", None)
  if found is None or not found.mesh.axis_names:
    return None
  entries = tuple(entry if isinstance(entry, tuple | None) else (entry,) for entry in found.spec)
  axes = tuple(zip(found.mesh.axis_names, found.mesh.axis_sizes, strict=True))
  return SavedSharding(axes, entries, found.memory_kind)


def _key_words(avals: Iterable[_Aval]) -> dict[str, tuple[int, ...]]:
  """Returns the shape of the words of one random key, by the name of its dtype."""
  dtypes = {str(aval.dtype): aval.dtype for aval in avals if _is_key(aval.dtype)}
  return {name: array_struct(jax.ShapeDtypeStruct((), dtype)).shape for name, dtype in dtypes.items()}


def _is_key(dtype: DTypeLike) -> bool:
  return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def array_struct(aval: _Aval) -> jax.ShapeDtypeStruct:
  """Returns the array that represents an argument or a result in the module; its dimensions may be symbolic."""
  shape, dtype = aval.shape, aval.dtype
  if _is_key(dtype):
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    shape, dtype = (*shape, *data.shape), data.dtype
  if dtype == jax.dtypes.float0:  # `main` represents these as booleans
    dtype = np.bool_
  return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def check_name(check: jax.export.DisabledSafetyCheck) -> str:
  """Returns the name of a disabled safety check: "platform", "shape_assertions" or "custom_call:NAME"."""
  target = check.is_custom_call()
  if target:
    return f"custom_call:{target}"
  return next((name for name in ("platform", "shape_assertions") if name in str(check)), str(check))
