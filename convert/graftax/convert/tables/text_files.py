"""Reads tables from text files, one entry per line, as `tf.lookup.TextFileInitializer` describes them."""

import itertools
from collections.abc import Sequence

import numpy as np

from graftax.graphdef_ir import DType, GraftaxError, ModelFolder, Node, UnreadableFileError

__all__ = ["TableFileError", "read_table_file"]

# Positions of a key or value that are not columns.
_WHOLE_LINE, _LINE_NUMBER = -2, -1


class TableFileError(GraftaxError, ValueError):
  """A file does not hold the table that the model describes."""


def read_table_file(
  node: Node, file: np.ndarray, dtypes: tuple[DType, DType], folder: ModelFolder
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the keys and values of a table in a text file.

  Args:
    node: the node that fills the table, with the columns of keys and values.
    file: the path of the file, a string scalar.
    dtypes: the dtypes of keys and values.
    folder: the files that may be read.

  Raises:
    TableFileError: the file cannot be read, is too short, or a line does not have the columns.
    UnsafeFileError: it is not one that may be read.
  """
  path = _path(file)
  size, offset = (_integer(node, name, default) for name, default in (("vocab_size", -1), ("offset", 0)))
  delimiter = node.attrs.get("delimiter", b"\t")
  if not isinstance(delimiter, bytes) or len(delimiter) != 1:
    raise TableFileError(f"attribute 'delimiter' of {node.op} node {node.name!r} is {delimiter!r}; expected one byte.")
  lines = _lines(path, size, offset, folder, f"{node.op} node {node.name!r}")
  keys, values = (
    _column(lines, _integer(node, f"{kind}_index", _WHOLE_LINE), delimiter, dtype, path)
    for kind, dtype in zip(("key", "value"), dtypes, strict=True)
  )
  _check_different(keys, values, path)
  return keys, values


def _path(file: np.ndarray) -> str:
  names = np.asarray(file, object).reshape(-1).tolist()
  if len(names) != 1 or not isinstance(names[0], bytes):
    raise TableFileError(f"the path of its file is {names[:5]!r}; expected one string.")
  return str(names[0].decode(errors="surrogateescape"))


def _integer(node: Node, name: str, default: int) -> int:
  value = node.attrs.get(name, default)
  if not isinstance(value, int):
    raise TableFileError(f"attribute {name!r} of {node.op} node {node.name!r} is {value!r}; expected an integer.")
  return value


def _lines(path: str, size: int, offset: int, folder: ModelFolder, what: str) -> list[bytes]:
  if size < -1 or size == 0:
    raise TableFileError(f"attribute 'vocab_size' of {what} is {size}; expected -1, for all lines, or at least 1.")
  if offset < 0:
    raise TableFileError(f"attribute 'offset' of {what} is {offset}; expected at least 0.")
  try:
    with folder.open(path, what) as file:
      stop = None if size < 0 else offset + size
      lines = [line.removesuffix(b"\n").replace(b"\r", b"") for line in itertools.islice(file, offset, stop)]
  except (FileNotFoundError, UnreadableFileError) as e:
    raise TableFileError(f"its file {path!r} cannot be read ({e.strerror or e}).") from e
  if len(lines) < size:
    raise TableFileError(f"its file {path!r} has {len(lines)} lines; expected {size}.")
  return lines


def _column(lines: Sequence[bytes], index: int, delimiter: bytes, dtype: DType, path: str) -> np.ndarray:
  if index == _LINE_NUMBER:
    return np.arange(len(lines)).astype(dtype.numpy)
  try:
    items = list(lines) if index == _WHOLE_LINE else [line.split(delimiter)[index] for line in lines]
    if dtype is not DType.STRING:
      return np.array([item.decode() for item in items]).astype(dtype.numpy)
  except (IndexError, ValueError) as e:
    raise TableFileError(f"its file {path!r} has a line without {dtype.tf_name} in column {index}: {e}") from e
  column = np.empty(len(items), object)
  column[:] = items
  return column


def _check_different(keys: np.ndarray, values: np.ndarray, path: str) -> None:
  seen: dict[object, object] = {}
  for key, value in zip(keys.tolist(), values.tolist(), strict=True):
    if seen.setdefault(key, value) != value:
      raise TableFileError(f"its file {path!r} has the key {key!r} twice, with {seen[key]!r} and {value!r}.")
