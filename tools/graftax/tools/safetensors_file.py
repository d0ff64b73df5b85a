"""Writing a safetensors file one tensor at a time.

The safetensors package writes all tensors from memory at once. Parameters here are memory-mapped and may be larger than
the machine's memory, so we write the format, an eight-byte length, a JSON header and the bytes, ourselves.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from graftax.tools.errors import ExportError

__all__ = ["CHUNK_SIZE_BYTES", "write_safetensors"]

CHUNK_SIZE_BYTES = 1 << 24

_HEADER_ALIGNMENT = 8
# The format has float8 as well, but safetensors 0.8 does not read that into numpy or JAX.
_DTYPES = {
  "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
  "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
  "complex64": "C64",
}  # fmt: skip


def write_safetensors(
  path: Path,
  tensors: Mapping[str, np.ndarray],
  metadata: Mapping[str, str],
  progress: Callable[[int], None] = lambda num_bytes: None,
) -> None:
  """Writes `tensors` to `path`, in any number of chunks and with at most one of them in memory.

  Args:
    path: the file; it is overwritten.
    tensors: by name. Memory-mapped arrays are read as they are written.
    metadata: free text for the header.
    progress: called with the number of bytes of each chunk.

  Raises:
    ExportError: a dtype that the format does not have.
  """
  with open(path, "wb") as file:
    file.write(_header(tensors, metadata))
    for tensor in tensors.values():
      for chunk in _chunks(tensor):
        file.write(chunk)
        progress(len(chunk))


def _header(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
  entries: dict[str, object] = {"__metadata__": dict(metadata)}
  offset = 0
  for name, tensor in tensors.items():
    if tensor.dtype.name not in _DTYPES:
      raise ExportError(
        f"parameter {name!r} has dtype {tensor.dtype.name}, which safetensors cannot hold; it can hold "
        f"{', '.join(_DTYPES)}."
      )
    entries[name] = {
      "dtype": _DTYPES[tensor.dtype.name],
      "shape": list(tensor.shape),
      "data_offsets": [offset, offset + tensor.nbytes],
    }
    offset += tensor.nbytes
  text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
  text += b" " * (-len(text) % _HEADER_ALIGNMENT)
  return len(text).to_bytes(8, "little") + text


def _chunks(tensor: np.ndarray) -> Iterator[memoryview]:
  # Little-endian and row by row, whatever the array is in memory; a view where it is so already.
  flat = np.ascontiguousarray(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)).reshape(-1).view(np.uint8)
  for start in range(0, flat.size, CHUNK_SIZE_BYTES):
    yield flat[start : start + CHUNK_SIZE_BYTES].data
