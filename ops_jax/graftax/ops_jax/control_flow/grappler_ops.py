"""Ops that TensorFlow's own rewriting leaves in a graph."""

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
  """Known int32 scalar: which of several implementations to take, for devices named so.

  Always the one for "CPU", whose ops are the plain ones (those for a GPU call cuDNN); without it the number of names,
  which stands for the default.
  """
  names = [name.upper() for name in device_names]
  return np.asarray(names.index("CPU") if "CPU" in names else len(names), np.int32)


@register("FakeParam")
def fake_param(*, dtype: np.dtype, shape: PartialShape) -> Array:
  """Zeros that stand for a value which is never read, with unknown dimensions empty."""
  dims = tuple(0 if dim is None else dim for dim in shape.dims or ())
  return np.full(dims, b"", object) if dtype.kind == "O" else jnp.zeros(dims, canonical_dtype(dtype))


@register("_UnaryOpsComposition", ignores=("T",))
def unary_ops_composition(x: Array, *, op_names: tuple[str, ...]) -> Array:
  """The named unary ops applied one after the other.

  Raises:
    UnsupportedOpError: one of them has no lowering.
  """
  for name in op_names:
    entry = lowering(name)
    if entry is None:
      raise UnsupportedOpError(f"_UnaryOpsComposition: op {name!r} of {op_names!r} has no lowering.")
    x = entry.function(x)
  return x
