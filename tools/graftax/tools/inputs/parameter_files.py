"""Reads nested parameters from .npz and .safetensors files."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from graftax.savedmodel_io import read_safetensors
from graftax.savedmodel_io.errors import ParameterFileError
from graftax.tools.errors import ArrayFileError
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["SUFFIXES", "nested", "read_parameters"]

SUFFIXES = (".npz", ".safetensors")
_SEPARATOR = "/"


def read_parameters(path: Path) -> dict[str, PyTree]:
  """Returns the arrays of a .npz or .safetensors file; `encoder/kernel` is `["encoder"]["kernel"]`.

  Raises:
    ArrayFileError: there is no such file, it holds something else, or names contradict each other.
  """
  if not path.is_file():
    raise ArrayFileError(f"--params {path}: no such file.")
  return nested(_read_safetensors(path) if path.suffix == ".safetensors" else _read_npz(path), str(path))


def nested(arrays: Mapping[str, Leaf], where: str) -> dict[str, PyTree]:
  """Returns arrays nested by the parts of their names.

  Raises:
    ArrayFileError: a name is both an array and a group.

  Example:
    >>> nested({"dense/kernel": 1, "dense/bias": 2, "scale": 3}, "params.npz")
    {'dense': {'kernel': 1, 'bias': 2}, 'scale': 3}
  """
  tree: dict[str, PyTree] = {}
  for name, array in arrays.items():
    *groups, last = name.split(_SEPARATOR)
    node = tree
    for group in groups:
      node = node.setdefault(group, {})
      if not isinstance(node, dict):
        raise ArrayFileError(f"{where}: {name!r} lies in {group!r}, which is an array itself.")
    if last in node:
      raise ArrayFileError(f"{where}: {name!r} is an array, and a group of others.")
    node[last] = array
  return tree


def _read_npz(path: Path) -> dict[str, Leaf]:
  try:
    # Pickled arrays would run code from the file.
    with np.load(path, allow_pickle=False) as archive:
      return dict(archive)
  except (ValueError, OSError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as e:
    raise ArrayFileError(f"--params {path}: not a .npz file of numbers, as numpy.savez writes it ({e}).") from e


def _read_safetensors(path: Path) -> dict[str, Leaf]:
  try:
    return read_safetensors(path)
  except ParameterFileError as e:
    raise ArrayFileError(f"--params {e}") from e
