"""Reads the fields of a `jax.export.Exported`."""

from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import errors, ir

__all__ = ["array_type", "check_name", "deserialize"]


def deserialize(data: bytes) -> Any:
  """The `jax.export.Exported` that serialized bytes hold.

  Raises:
    DecodeError: the bytes are something else.
    ImportError: `flatbuffers`, which JAX needs for this and does not require, is not installed.
  """
  try:
    return jax.export.deserialize(bytearray(data))
  except ImportError:
    raise
  except Exception as error:
    raise errors.DecodeError(
      f"{len(data)} bytes are not a serialized jax.export.Exported that this JAX reads: {error}"
    ) from None


def array_type(aval: Any) -> ir.TensorType:
  """The type of the array that stands for an argument or a result; an open dimension is None."""
  shape, dtype = aval.shape, aval.dtype
  if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    shape, dtype = (*shape, *data.shape), data.dtype
  if dtype == jax.dtypes.float0:  # main holds these as booleans
    dtype = np.bool_
  return ir.TensorType(tuple(dim if isinstance(dim, int) else None for dim in shape), np.dtype(dtype))


def check_name(check: Any) -> str:
  """A disabled safety check as modules record it: "platform", "shape_assertions", "custom_call:NAME"."""
  target = check.is_custom_call() if hasattr(check, "is_custom_call") else None
  if target:
    return f"custom_call:{target}"
  return next((name for name in ("platform", "shape_assertions") if name in str(check)), str(check))
