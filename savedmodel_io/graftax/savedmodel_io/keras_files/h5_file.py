"""HDF5 files that may be damaged or hostile: opened, walked and read within limits.

Only what lies in the file itself is read. HDF5 also has links to other files, datasets whose values are in other files,
and datasets that claim to be large but hold nothing.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from graftax.graphdef_ir import DType, optional_library
from graftax.savedmodel_io.errors import DamagedWeightsError, UnsafeWeightsError

__all__ = ["Group", "Walk", "attribute_texts", "child", "children", "name_attribute", "open_h5", "require_h5py"]

# Any in this module: h5py ships no type information.
Group = Any

# What h5py raises for damaged files, and what the objects raise that it makes of their damaged parts.
_DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, AttributeError, MemoryError)
_MOST_DEPTH = 64
_MOST_GROUPS = 1 << 16
# Compressed datasets of more than _FREE_BYTES may be at most _MOST_RATIO times as large as their stored bytes.
_MOST_RATIO = 100
_FREE_BYTES = 1 << 28
# HDF5 keeps attributes of up to 64 KiB beside their object, and so Keras writes no longer ones.
_MOST_ATTRIBUTE_BYTES = 1 << 20


def require_h5py(path: str) -> None:
  """Raises LibraryNotFoundError, which names the file, if h5py is not installed."""
  with optional_library(f"{path}: reading HDF5 files", "graftax-savedmodel-io[keras]"):
    import h5py  # noqa: F401


@contextlib.contextmanager
def open_h5(sources: Sequence[str | BinaryIO], path: str) -> Iterator[list[Group]]:
  """Opens files for reading. What h5py raises inside the block becomes a typed error.

  Args:
    sources: the files, or their paths.
    path: what to call them in errors.

  Raises:
    DamagedWeightsError: the file is damaged, or not an HDF5 file.
    UnsafeWeightsError: it refers to other files, or claims to hold more than it does.
  """
  try:
    with contextlib.ExitStack() as files:
      yield [files.enter_context(_opened(source, path)) for source in sources]
  except (DamagedWeightsError, UnsafeWeightsError) as e:
    raise type(e)(f"{path}: {e}") from e
  except _DAMAGED as e:
    raise DamagedWeightsError(f"{path}: damaged, or not an HDF5 file ({type(e).__name__}: {e})") from e


def _opened(source: str | BinaryIO, path: str) -> Any:
  import h5py

  try:
    return h5py.File(source, "r")
  except _DAMAGED as e:
    if not isinstance(source, str) or source == path:
      raise
    name = os.path.basename(source)
    raise DamagedWeightsError(f"{name}: damaged, or not an HDF5 file ({type(e).__name__}: {e})") from e


def child(group: Group, name: str) -> Any:
  """Returns what is at a path below a group, without following links.

  Raises:
    DamagedWeightsError: there is nothing.
    UnsafeWeightsError: it is a link.
  """
  found = group
  for part in name.split("/"):
    link = found.get(part, getlink=True)
    if link is None:
      raise DamagedWeightsError(f"{found.name!r} has no {part!r}")
    if type(link).__name__ != "HardLink":
      raise UnsafeWeightsError(f"{part!r} in {found.name!r} is a {type(link).__name__}; expected groups and datasets")
    found = found[part]
  return found


def children(group: Group) -> Iterator[tuple[str, Any]]:
  """Yields the groups and datasets in a group, in the order of their names."""
  for name in sorted(group):
    yield name, child(group, name)


class Walk:
  """Reads the datasets of one file, and limits how far its groups are walked: a group may lie inside itself."""

  def __init__(self) -> None:
    self._num_groups = 0
    self._read: set[int] = set()

  def enter(self, group: Group, depth: int) -> None:
    """Raises if the walk is too deep or too long to be that of a file of weights."""
    self._num_groups += 1
    if depth > _MOST_DEPTH or self._num_groups > _MOST_GROUPS:
      raise UnsafeWeightsError(
        f"{group.name[:200]!r}: {self._num_groups} groups, {depth} deep; expected at most {_MOST_GROUPS}, "
        f"{_MOST_DEPTH} deep"
      )

  def read(self, dataset: Any) -> np.ndarray:
    """Returns the values of a dataset, numbers or booleans.

    Raises:
      DamagedWeightsError: it is not a dataset of numbers, or nothing of it is stored.
      UnsafeWeightsError: its values are in other files, or are more than the file can hold.
    """
    if not hasattr(dataset, "shape") or not hasattr(dataset, "dtype"):
      raise DamagedWeightsError(f"{dataset.name!r} is a group; expected a dataset")
    if dataset.external or dataset.is_virtual:
      raise UnsafeWeightsError(f"the values of {dataset.name!r} are in another file")
    if hash(dataset.id) in self._read:  # that of its place in the file
      raise UnsafeWeightsError(f"{dataset.name!r} has several names; its values would be read several times")
    self._read.add(hash(dataset.id))
    return _read_array(dataset)


def attribute_texts(group: Group, name: str) -> list[str] | None:
  """Returns an attribute that is a list of texts, which Keras splits into `name0`, `name1`, ... if it is long."""
  if name in group.attrs:
    return _texts(group, name)
  parts: list[list[str]] = []
  while f"{name}{len(parts)}" in group.attrs:
    parts.append(_texts(group, f"{name}{len(parts)}"))
  return [text for part in parts for text in part] if parts else None


def name_attribute(group: Group) -> str | None:
  """Returns the attribute `name`, or None."""
  return _text(_attribute(group, "name"), "name") if "name" in group.attrs else None


def _attribute(group: Group, name: str) -> Any:
  record = group.attrs.get_id(name)
  size = math.prod(record.shape or ()) * record.dtype.itemsize
  if size > _MOST_ATTRIBUTE_BYTES:
    raise UnsafeWeightsError(
      f"attribute {name!r} claims to hold {size} bytes; expected at most {_MOST_ATTRIBUTE_BYTES}"
    )
  return group.attrs[name]


def _texts(group: Group, name: str) -> list[str]:
  return [_text(item, name) for item in np.atleast_1d(_attribute(group, name)).tolist()]


def _text(value: Any, name: str) -> str:
  if isinstance(value, bytes):
    try:
      return value.decode()
    except UnicodeDecodeError as e:
      raise DamagedWeightsError(f"attribute {name!r} is not text: {e}") from e
  if not isinstance(value, str):
    raise DamagedWeightsError(f"attribute {name!r} holds {value!r}; expected text")
  return value


def _read_array(dataset: Any) -> np.ndarray:
  dtype = _dtype(dataset)
  _check_size(dataset)
  array = np.empty(dataset.shape, dataset.dtype)
  if array.size:
    dataset.read_direct(array) if array.ndim else array.__setitem__((), dataset[()])
  return array if dtype is None else array.view(dtype)


def _dtype(dataset: Any) -> np.dtype | None:
  """Returns the type to view the bytes as, None if it is the stored one."""
  # HDF5 has no bfloat16: Keras writes it as two opaque bytes, and nothing else so.
  if dataset.dtype == np.dtype("V2"):
    return DType.BFLOAT16.numpy
  if dataset.dtype.kind not in "fiubc" or dataset.dtype.hasobject:
    raise DamagedWeightsError(f"{dataset.name!r} has elements of type {dataset.dtype}; expected numbers")
  return None


def _check_size(dataset: Any) -> None:
  wanted, stored = dataset.size * dataset.dtype.itemsize, dataset.id.get_storage_size()
  is_compressed = dataset.id.get_create_plist().get_nfilters() > 0
  most = max(_FREE_BYTES, _MOST_RATIO * stored) if is_compressed and stored else stored
  if wanted > most:
    raise UnsafeWeightsError(f"{dataset.name!r} claims to hold {wanted} bytes, of which the file has {stored}")
