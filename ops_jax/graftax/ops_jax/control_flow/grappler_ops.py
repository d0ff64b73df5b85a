"""Ops that TensorFlow's graph optimizer creates: DeviceIndex, FakeParam, _UnaryOpsComposition."""

import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import PartialShape
from graftax.ops_jax._core.errors import UnsupportedOpError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import lowering, register
from graftax.ops_jax._core.values import Array

__all__ = ["device_index", "fake_param", "unary_ops_composition"]


@register("DeviceIndex")
def device_index(*, device_names: tuple[str, ...]) -> np.ndarray:
  """Returns the index of the implementation to use, as a known int32 scalar.

  It is the index of "CPU", whose implementation has plain ops (the one for a GPU calls cuDNN). Without "CPU", it is the
  number of names, which means the default.
  """
  names = [name.upper() for name in device_names]
  return np.asarray(names.index("CPU") if "CPU" in names else len(names), np.int32)


@register("FakeParam")
def fake_param(*, dtype: np.dtype, shape: PartialShape) -> Array:
  """Returns zeros for a value that is never read; unknown dimensions have size 0."""
  dims = tuple(0 if dim is None else dim for dim in shape.dims or ())
  return np.full(dims, b"", object) if dtype.kind == "O" else jnp.zeros(dims, canonical_dtype(dtype))


@register("_UnaryOpsComposition", ignores=("T",))
def unary_ops_composition(x: Array, *, op_names: tuple[str, ...]) -> Array:
  """Applies the named unary ops one after the other.

  Raises:
    UnsupportedOpError: one of them has no lowering.
  """
  for name in op_names:
    entry = lowering(name)
    if entry is None:
      raise UnsupportedOpError(f"_UnaryOpsComposition: op {name!r} of {op_names!r} has no lowering.")
    x = entry.function(x)
  return x
