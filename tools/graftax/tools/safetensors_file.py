"""Writing parameters to a safetensors file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from graftax.tools.errors import ExportError

__all__ = ["write_safetensors"]

# The format has float8 as well, but safetensors 0.8 does not read that into numpy or JAX.
_DTYPES = (
  "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64".split()
)  # fmt: skip


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
  """Writes `tensors` to `path`. Memory-mapped arrays are written from the mapping, without a copy in memory.

  Args:
    path: the file; it is overwritten.
    tensors: by name.
    metadata: free text for the header.

  Raises:
    ExportError: safetensors does not support a dtype.
  """
  for name, tensor in tensors.items():
    if tensor.dtype.name not in _DTYPES:
      raise ExportError(
        f"parameter {name!r} has dtype {tensor.dtype.name}, which safetensors cannot hold; it can hold "
        f"{', '.join(_DTYPES)}."
      )
  # safetensors writes nbytes from the address of the first element, whatever the strides are.
  save_file({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, path, dict(metadata))
