"""HDF5 files that may be damaged or hostile: opened, walked and read within limits.

Only what lies in the file itself is read. HDF5 also has links to other files, datasets whose values are in other files,
and datasets that claim to be large but hold nothing.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from graftax.graphdef_ir import Budget, DType, LimitExceededError, optional_library
from graftax.savedmodel_io.errors import DamagedWeightsError, UnsafeWeightsError
from graftax.savedmodel_io.keras_files.h5_chunks import Dataset, read_chunks

__all__ = ["Group", "Walk", "attribute_texts", "child", "name_attribute", "open_h5", "require_h5py"]

Group: TypeAlias = Any
"""A group of h5py, which ships no type information; its elements are groups and datasets."""

# What h5py raises for damaged files, and what the objects raise that it makes of their damaged parts.
_DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, AttributeError, MemoryError)
_MOST_DEPTH = 64
_MOST_GROUPS = 1 << 16
# Groups and datasets that are opened, most of which are children of those that are entered.
_MOST_OPENED = 1 << 17
# Of one list of names.
_MOST_TEXT_BYTES = 1 << 26
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
    LimitExceededError: the block raises it.
  """
  try:
    with contextlib.ExitStack() as files:
      yield [files.enter_context(_opened(source, path)) for source in sources]
  except (DamagedWeightsError, UnsafeWeightsError) as e:
    raise type(e)(f"{path}: {e}") from e
  except LimitExceededError:  # it names the file
    raise
  except _DAMAGED as e:
    raise DamagedWeightsError(f"{path}: damaged, or not an HDF5 file ({type(e).__name__}: {e})") from e


def _opened(source: str | BinaryIO, path: str) -> Group:
  import h5py

  try:
    return h5py.File(source, "r")
  except _DAMAGED as e:
    if not isinstance(source, str) or source == path:
      raise
    name = os.path.basename(source)
    raise DamagedWeightsError(f"{name}: damaged, or not an HDF5 file ({type(e).__name__}: {e})") from e


def child(group: Group, name: str) -> Group:
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


class Walk:
  """Reads the datasets of one load, and limits how far its groups are walked: a group may lie inside itself.

  Args:
    path: the file, for messages.
    file_bytes: the size of all files of the load.
    h5_bytes: the size of their HDF5 files, which is larger if they are compressed.
    budget: limits what compressed datasets may unpack to.
  """

  def __init__(self, path: str, file_bytes: int, h5_bytes: int, budget: Budget) -> None:
    self._path = path
    self._file_bytes = file_bytes
    self._h5_bytes = h5_bytes
    self._budget = budget
    self._num_groups = self._num_opened = self._stored_bytes = 0
    self._read: set[int] = set()

  def enter(self, group: Group, depth: int) -> None:
    """Raises if the walk is too deep or too long to be that of a file of weights."""
    self._num_groups += 1
    if depth > _MOST_DEPTH or self._num_groups > _MOST_GROUPS:
      raise UnsafeWeightsError(
        f"{group.name[:200]!r}: {self._num_groups} groups, {depth} deep; expected at most {_MOST_GROUPS}, "
        f"{_MOST_DEPTH} deep"
      )

  def children(self, group: Group) -> Iterator[tuple[str, Group | Dataset]]:
    """Yields the groups and datasets in a group, in the order of their names."""
    self._num_opened += len(group)
    if self._num_opened > _MOST_OPENED:
      raise UnsafeWeightsError(
        f"{group.name[:200]!r}: {self._num_opened} groups and datasets with those before; expected at most "
        f"{_MOST_OPENED}"
      )
    for name in sorted(group):
      yield name, child(group, name)

  def read(self, dataset: Dataset) -> np.ndarray:
    """Returns the values of a dataset, numbers or booleans.

    Raises:
      DamagedWeightsError: it is not a dataset of numbers, or a part of it is not stored or does not unpack to its size.
      UnsafeWeightsError: its values are in other files, or are more than the file can hold.
      LimitExceededError: it unpacks to more than the budget allows.
    """
    if not hasattr(dataset, "shape") or not hasattr(dataset, "dtype"):
      raise DamagedWeightsError(f"{dataset.name!r} is a group; expected a dataset")
    if dataset.external or dataset.is_virtual:
      raise UnsafeWeightsError(f"the values of {dataset.name!r} are in another file")
    if hash(dataset.id) in self._read:  # that of its place in the file
      raise UnsafeWeightsError(f"{dataset.name!r} has several names; its values would be read several times")
    self._read.add(hash(dataset.id))
    dtype = _dtype(dataset)
    self._check_size(dataset)
    array = np.empty(dataset.shape, dataset.dtype)
    if array.size and dataset.chunks is not None:
      read_chunks(dataset, array, self._h5_bytes)
    elif array.size:
      dataset.read_direct(array) if array.ndim else array.__setitem__((), dataset[()])
    return array if dtype is None else array.view(dtype)

  def _check_size(self, dataset: Dataset) -> None:
    wanted, stored = dataset.size * dataset.dtype.itemsize, dataset.id.get_storage_size()
    self._stored_bytes += stored
    if self._stored_bytes > self._h5_bytes:
      raise UnsafeWeightsError(
        f"{dataset.name!r} has {stored} bytes, {self._stored_bytes} with the datasets before it, but the file only "
        f"{self._h5_bytes}: they share bytes"
      )
    if dataset.chunks is not None and stored:
      where = f"{self._path}: {dataset.name!r}, of {wanted} bytes,"
      self._budget.spend_unpacked_bytes(max(wanted - stored, 0), self._file_bytes, where)
    elif wanted > stored:
      raise UnsafeWeightsError(f"{dataset.name!r} claims to hold {wanted} bytes, of which the file has {stored}")


def attribute_texts(group: Group, name: str) -> list[str] | None:
  """Returns an attribute that is a list of texts, which Keras splits into `name0`, `name1`, ... if it is long."""
  if name in group.attrs:
    return _texts(group, name)
  parts: list[list[str]] = []
  text_bytes = 0
  while f"{name}{len(parts)}" in group.attrs:
    parts.append(_texts(group, f"{name}{len(parts)}"))
    text_bytes += sum(map(len, parts[-1]))
    if text_bytes > _MOST_TEXT_BYTES:
      raise UnsafeWeightsError(f"attributes {name!r} of {group.name!r} hold more than {_MOST_TEXT_BYTES} bytes of text")
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


def _text(value: object, name: str) -> str:
  if isinstance(value, bytes):
    try:
      return value.decode()
    except UnicodeDecodeError as e:
      raise DamagedWeightsError(f"attribute {name!r} is not text: {e}") from e
  if not isinstance(value, str):
    raise DamagedWeightsError(f"attribute {name!r} holds {value!r}; expected text")
  return value


def _dtype(dataset: Dataset) -> np.dtype | None:
  """Returns the type to view the bytes as, None if it is the stored one."""
  # HDF5 has no bfloat16: Keras writes it as two opaque bytes, and nothing else so.
  if dataset.dtype == np.dtype("V2"):
    return DType.BFLOAT16.numpy
  if dataset.dtype.kind not in "fiubc" or dataset.dtype.hasobject:
    raise DamagedWeightsError(f"{dataset.name!r} has elements of type {dataset.dtype}; expected numbers")
  if dataset.chunks is not None and not dataset.id.get_type().equal(_h5_type(dataset.dtype)):
    raise DamagedWeightsError(f"{dataset.name!r} has elements of an unusual type, which is stored like {dataset.dtype}")
  return None


def _h5_type(dtype: np.dtype) -> Any:
  import h5py

  return h5py.h5t.py_create(dtype, logical=True)
