"""Helpers for arrays of strings: dtype object with `bytes` as elements."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jax.typing import ArrayLike, DTypeLike

from graftax.graphdef_ir import Budget
from graftax.ops_jax import InvalidInputError

__all__ = [
  "ITEM_BYTES",
  "TextMeter",
  "as_strings",
  "check_splits",
  "map_strings",
  "num_bytes",
  "scalar_string",
  "string_array",
]

# What a string takes besides its bytes.
ITEM_BYTES = 8

# Counting each piece of a text in the budget takes longer than finding it.
_COUNTED_TOGETHER_BYTES = 1 << 14


class TextMeter:
  """Counts the bytes of strings that one op makes, and passes them on to the budget when many have come together."""

  __slots__ = ("_budget", "_counted", "_where")

  def __init__(self, budget: Budget, where: str) -> None:
    self._budget, self._where, self._counted = budget, where, 0

  def count(self, num_bytes: int) -> None:
    """Counts bytes.

    Raises:
      LimitExceededError: the sum is above the limit `text_bytes` of the call.
    """
    self._counted += num_bytes
    if self._counted > _COUNTED_TOGETHER_BYTES:
      self.finish()

  def finish(self) -> None:
    """Passes on the bytes that were counted; raises as `count` does."""
    self._budget.spend_text_bytes(self._counted, self._where)
    self._counted = 0


def num_bytes(array: ArrayLike) -> int:
  """Returns the size of all strings of an array."""
  return sum(map(len, as_strings(array).reshape(-1).tolist()))


def check_splits(splits: np.ndarray, num_values: int, op: str) -> None:
  """Raises if row splits do not divide so many values.

  Raises:
    InvalidInputError: they do not begin with 0, fall, or do not end with the number of values.
  """
  if splits.size == 0 or splits[0] != 0 or np.any(splits[1:] < splits[:-1]) or splits[-1] != num_values:
    raise InvalidInputError(f"{op}: the row splits {splits} do not divide {num_values} values.")


def string_array(items: Iterable[bytes], shape: tuple[int, ...] | None = None) -> np.ndarray:
  """Returns an array of strings; a vector if no shape is given."""
  flat = list(items)
  array = np.empty(len(flat), object)
  array[:] = flat
  return array if shape is None else array.reshape(shape)


def map_strings(function: Callable[[bytes], Any], array: np.ndarray, dtype: DTypeLike = object) -> np.ndarray:
  """Returns the results of a function for all elements, in an array of the same shape."""
  flat = [function(item) for item in array.reshape(-1).tolist()]
  if dtype is object:
    return string_array(flat, array.shape)
  return np.array(flat, dtype).reshape(array.shape)


def as_strings(value: Any) -> np.ndarray:
  """Returns a value as an array of strings; a scalar of NumPy's dtype object is a bare `bytes`."""
  if isinstance(value, bytes):
    array = np.empty((), object)
    array[()] = value
    return array
  return np.asarray(value, object)


def scalar_string(value: np.ndarray, what: str) -> bytes:
  """Returns the element of an array with one string.

  Raises:
    InvalidInputError: it has more or fewer elements, or is not a string.
  """
  if np.size(value) != 1:
    raise InvalidInputError(f"{what} has shape {list(np.shape(value))}; expected a scalar.")
  item = as_strings(value).reshape(-1)[0]
  if not isinstance(item, bytes):
    raise InvalidInputError(f"{what} is {type(item).__name__}; expected a string.")
  return item
