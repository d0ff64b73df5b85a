"""Lookup tables with strings: LookupTableFind, LookupTableSize, LookupTableExport."""

import functools
import math
from collections.abc import Hashable, Iterator

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import ITEM_BYTES, as_strings
from graftax.convert.program import StringTable
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, LookupTable

__all__ = ["Table", "lookup_table_export", "lookup_table_find", "lookup_table_size", "longest_key", "table_values"]

Table = StringTable | LookupTable

# Keys that are looked up together.
_PART = 1 << 14


@host_op("LookupTableFind", "LookupTableFindV2", ignores=("Tin", "Tout"), always=True)
def lookup_table_find(
  table_handle: Table, keys: np.ndarray, default_value: np.ndarray, *, budget: Budget = NO_BUDGET
) -> np.ndarray:
  """Returns the value of each key, or the default value if the table does not have it.

  Raises:
    LimitExceededError: the values of all keys take more memory than the limits of the call allow.
  """
  values = table_handle.values
  key_rank = table_handle.keys.ndim - 1
  keys = np.asarray(keys)
  batch = keys.shape[: keys.ndim - key_rank]
  shape = (*batch, *values.shape[1:])
  budget.check_array(shape, values.itemsize, "LookupTableFind")
  if values.dtype == object:
    budget.check_text(math.prod(shape) * ITEM_BYTES, "LookupTableFind")
  found = _positions(table_handle, keys).reshape(batch)
  default = np.asarray(as_strings(default_value) if values.dtype == object else default_value, values.dtype)
  result = np.array(np.broadcast_to(default, shape))
  result[found >= 0] = values[found[found >= 0]]
  return result


@host_op("LookupTableSize", "LookupTableSizeV2", always=True)
def lookup_table_size(table_handle: Table) -> np.ndarray:
  """Returns the number of keys, an int64 scalar."""
  return np.asarray(len(table_handle.keys), np.int64)


@host_op("LookupTableExport", "LookupTableExportV2", ignores=("Tkeys", "Tvalues"), always=True)
def lookup_table_export(table_handle: Table) -> tuple[np.ndarray, np.ndarray]:
  """Returns all keys and their values, in the order in which the table was filled."""
  return table_handle.keys, table_handle.values


def table_values(table: Table) -> dict[Hashable, int]:
  """Returns the values of a table of integers by key."""
  return _values(_Identified(table))


def _positions(table: Table, keys: np.ndarray) -> np.ndarray:
  """Returns the position of each key in the table, a vector; -1 for keys that it does not have."""
  if table.keys.ndim > 1 or table.keys.dtype == object:
    index = _index(_Identified(table))
    return np.fromiter((index.get(key, -1) for key in _items(keys, table.keys.shape[1:])), np.int64)
  flat = keys.reshape(-1)
  ordered, first = _ordered(_Identified(table))
  if not ordered.size:
    return np.full(flat.size, -1)
  nearest = np.minimum(np.searchsorted(ordered, flat), ordered.size - 1)
  return np.where(ordered[nearest] == flat, first[nearest], -1)


@functools.lru_cache(maxsize=32)
def _ordered(table: "_Identified") -> tuple[np.ndarray, np.ndarray]:
  """Returns the numbers that are keys, sorted, and the first position of each."""
  return np.unique(table.table.keys, return_index=True)


def _items(keys: np.ndarray, key_shape: tuple[int, ...]) -> Iterator[Hashable]:
  """Yields keys one by one, as a list of all takes several times the memory of the array."""
  rows = keys.reshape(-1, *key_shape)
  for start in range(0, len(rows), _PART):
    part = rows[start : start + _PART]
    yield from map(_hashable, part) if key_shape else part.tolist()


@functools.lru_cache(maxsize=32)
def _longest_key(table: "_Identified") -> int:
  return max((len(key) for key in table.table.keys.reshape(-1).tolist() if isinstance(key, bytes)), default=0)


def longest_key(table: Table) -> int:
  """Returns the length of the longest key of a table of strings, in bytes."""
  return _longest_key(_Identified(table))


class _Identified:
  """A table, compared by identity: a `LookupTable` is compared by its name."""

  def __init__(self, table: Table):
    self.table = table

  def __hash__(self) -> int:
    return id(self.table)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, _Identified) and other.table is self.table


@functools.lru_cache(maxsize=32)
def _index(table: _Identified) -> dict[Hashable, int]:
  """Returns key -> position. If a key occurs twice, as it cannot in TensorFlow, the first one counts."""
  keys, index = table.table.keys, dict[Hashable, int]()
  for position, key in enumerate(_items(keys, keys.shape[1:])):
    index.setdefault(key, position)
  return index


def _hashable(key: np.ndarray) -> Hashable:
  return tuple(key.reshape(-1).tolist())


@functools.lru_cache(maxsize=32)
def _values(table: _Identified) -> dict[Hashable, int]:
  values = table.table.values.tolist()
  return {key: values[position] for key, position in _index(table).items()}
