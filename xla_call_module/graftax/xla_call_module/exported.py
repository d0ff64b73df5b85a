"""Reads the fields of a `jax.export.Exported`."""

from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import errors, ir

__all__ = ["array_struct", "array_type", "check_name", "deserialize"]


def deserialize(data: bytes) -> Any:
  """Deserializes a `jax.export.Exported`.

  Raises:
    DecodeError: the bytes are not a serialized `Exported`.
    ImportError: `flatbuffers` is not installed. JAX needs it here but does not depend on it.
  """
  try:
    return jax.export.deserialize(bytearray(data))
  except ImportError as error:
    raise ImportError(
      f"reading a serialized jax.export.Exported needs {error.name}, which is not installed; pip install flatbuffers.",
      name=error.name,
    ) from error
  except Exception as error:
    raise errors.DecodeError(
      f"{len(data)} bytes are not a serialized jax.export.Exported that this JAX reads: {error}"
    ) from None


def array_struct(aval: Any) -> jax.ShapeDtypeStruct:
  """Returns the array that represents an argument or a result in the module; its dimensions may be symbolic."""
  shape, dtype = aval.shape, aval.dtype
  if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    shape, dtype = (*shape, *data.shape), data.dtype
  if dtype == jax.dtypes.float0:  # `main` represents these as booleans
    dtype = np.bool_
  return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def array_type(aval: Any) -> ir.TensorType:
  """Returns the type of `array_struct(aval)`; an open dimension is None."""
  found = array_struct(aval)
  return ir.TensorType(tuple(dim if isinstance(dim, int) else None for dim in found.shape), np.dtype(found.dtype))


def check_name(check: Any) -> str:
  """Returns the name of a disabled safety check: "platform", "shape_assertions" or "custom_call:NAME"."""
  target = check.is_custom_call()
  if target:
    return f"custom_call:{target}"
  return next((name for name in ("platform", "shape_assertions") if name in str(check)), str(check))
