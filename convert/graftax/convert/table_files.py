"""Reads tables from text files, one entry per line, as `tf.lookup.TextFileInitializer` describes them."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graftax.graphdef_ir import DType, GraftaxError, Node

__all__ = ["TableFileError", "read_table_file"]

# Positions of a key or value that are not columns.
_WHOLE_LINE, _LINE_NUMBER = -2, -1


class TableFileError(GraftaxError, ValueError):
  """A file does not hold the table that the model describes."""


def read_table_file(node: Node, file: np.ndarray, dtypes: tuple[DType, DType]) -> tuple[np.ndarray, np.ndarray]:
  """Returns the keys and values of a table in a text file.

  Args:
    node: the node that fills the table, with the columns of keys and values.
    file: the path of the file, a string scalar.
    dtypes: the dtypes of keys and values.

  Raises:
    TableFileError: the file cannot be read, is too short, or a line does not have the columns.
  """
  path = Path(np.asarray(file, object).reshape(-1)[0].decode())
  attrs: dict[str, object] = {"vocab_size": -1, "delimiter": b"\t", "offset": 0, **node.attrs}
  lines = _lines(path, attrs["vocab_size"], attrs["offset"])
  keys, values = (
    _column(lines, attrs[f"{kind}_index"], attrs["delimiter"], dtype, path)
    for kind, dtype in zip(("key", "value"), dtypes, strict=True)
  )
  _check_different(keys, values, path)
  return keys, values


def _lines(path: Path, size: object, offset: object) -> list[bytes]:
  assert isinstance(size, int) and isinstance(offset, int), f"internal: {size!r} lines after {offset!r}."
  try:
    with path.open("rb") as file:
      stop = None if size < 0 else offset + size
      lines = [line.removesuffix(b"\n").replace(b"\r", b"") for line in itertools.islice(file, offset, stop)]
  except OSError as e:
    raise TableFileError(f"its file {str(path)!r} cannot be read ({e.strerror}).") from e
  if len(lines) < size:
    raise TableFileError(f"its file {str(path)!r} has {len(lines)} lines; expected {size}.")
  return lines


def _column(lines: Sequence[bytes], index: object, delimiter: object, dtype: DType, path: Path) -> np.ndarray:
  assert isinstance(index, int) and isinstance(delimiter, bytes), f"internal: column {index!r}."
  if index == _LINE_NUMBER:
    return np.arange(len(lines)).astype(dtype.numpy)
  try:
    items = list(lines) if index == _WHOLE_LINE else [line.split(delimiter)[index] for line in lines]
    if dtype is not DType.STRING:
      return np.array([item.decode() for item in items]).astype(dtype.numpy)
  except (IndexError, ValueError) as e:
    raise TableFileError(f"its file {str(path)!r} has a line without {dtype.tf_name} in column {index}: {e}") from e
  column = np.empty(len(items), object)
  column[:] = items
  return column


def _check_different(keys: np.ndarray, values: np.ndarray, path: Path) -> None:
  seen: dict[object, object] = {}
  for key, value in zip(keys.tolist(), values.tolist(), strict=True):
    if seen.setdefault(key, value) != value:
      raise TableFileError(f"its file {str(path)!r} has the key {key!r} twice, with {seen[key]!r} and {value!r}.")
