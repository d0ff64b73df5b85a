"""Reads strings from files, for inputs that are text or encoded images and sounds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graftax.graphdef_ir import TensorSpec
from graftax.tools.errors import ArrayFileError

__all__ = ["as_strings", "holds_strings", "read_strings"]

_LINES = (".txt",)
_ARRAYS = (".npy", ".npz")


def holds_strings(location: str) -> bool:
  """Returns whether a file is read as strings, and not as arrays of NumPy."""
  return ".npz:" not in location and Path(location).suffix not in _ARRAYS


def read_strings(location: str, argument: str) -> list[bytes]:
  """Returns the lines of a .txt file, or the bytes of any other file as one string.

  Raises:
    ArrayFileError: the file cannot be read.
  """
  path = Path(location)
  try:
    data = path.read_bytes()
  except OSError as e:
    raise ArrayFileError(
      f"--input {argument}: {location!r} cannot be read: {e.strerror}. It is the name of a file: write the strings as "
      "the lines of a .txt file, one for each element."
    ) from e
  return data.splitlines() if path.suffix in _LINES else [data]


def as_strings(name: str, values: np.ndarray | Sequence[bytes], spec: TensorSpec) -> np.ndarray:
  """Returns strings as an array of the rank of the input: a scalar, a vector, or a column.

  Raises:
    ArrayFileError: they do not fit the shape, or are not strings.
  """
  flat = np.empty(np.shape(values), object)
  flat[...] = values
  for index, item in np.ndenumerate(flat):
    if not isinstance(item, str | bytes):
      raise ArrayFileError(f"input {name!r}: the file holds {type(item).__name__}; expected strings, as {spec}.")
    flat[index] = item.encode() if isinstance(item, str) else item
  rank = spec.shape.rank
  if rank == 0 and flat.size == 1:
    flat = flat.reshape(())
  elif rank is not None and flat.ndim == 1 and rank > 1:
    flat = flat.reshape(-1, *[1] * (rank - 1))
  if not spec.shape.is_compatible_with(flat.shape):
    raise ArrayFileError(f"input {name!r}: the files hold strings of shape {list(flat.shape)}; expected {spec}.")
  return flat
