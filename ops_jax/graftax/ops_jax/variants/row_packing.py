"""Rows of different lengths, padded to one length, from and to one array without padding between them."""

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.numeric import search_sorted
from graftax.ops_jax._core.result_sizes import check_known
from graftax.ops_jax._core.values import Array, is_known
from graftax.ops_jax.variants.padded_value import PaddedElement, as_leaf, zeros

__all__ = ["known_if_concrete", "packed_rows", "padded_rows", "row_starts", "rows_and_places", "with_any_length"]


def with_any_length(array: Array, length: Array | np.integer | None = None) -> PaddedElement:
  """Returns an array whose first size differs from that of others; `length` of its elements are valid, or all."""
  array = _known_indices(array)
  if not array.ndim:
    return PaddedElement(array, ())
  size = array.shape[0] if length is None else length
  first = size if isinstance(size, jax.Array) else np.asarray(size, np.int32)
  return PaddedElement(array, (first, *[None] * (array.ndim - 1)))


def _known_indices(array: Array) -> Array:
  """Returns integers that are known in the dtype that JAX has for them, and all else as a JAX array."""
  if array.dtype.kind == "O":  # strings
    return array
  dtype = canonical_dtype(array.dtype)
  if not is_known(array) or dtype.kind not in "iu" or not np.array_equal(array.astype(dtype), array):
    return jnp.asarray(array)
  return array.astype(dtype)


def packed_rows(rows: Array, counts: Array, budget: Budget, what: str) -> PaddedElement:
  """Returns the first elements of each row, one row after the other, with zeros after them if `counts` is traced.

  Args:
    rows: `[n, bound, ...]`.
    counts: `[n]`, the number of elements of each row, at most `bound`.
    budget: is asked for memory.
    what: description of the op, for messages.

  Returns:
    `[total, ...]`, or if `counts` is traced, `[n * bound, ...]` with that length.

  Raises:
    LimitExceededError: the result needs too much memory.
  """
  total = counts.sum(dtype=np.int32)
  size = int(total) if is_known(counts) else counts.shape[0] * rows.shape[1]
  check_known((size, *rows.shape[2:]), budget, what, rows.dtype.itemsize)
  if is_known(counts) and is_known(rows):
    parts = [row[:count] for row, count in zip(rows, counts, strict=True)]
    return with_any_length(np.concatenate([np.zeros((0, *rows.shape[2:]), rows.dtype), *parts]))
  if not size:
    # JAX gathers nothing from an array without elements, not even what fills the result.
    return with_any_length(jnp.zeros((0, *rows.shape[2:]), rows.dtype))
  row, place = rows_and_places(row_starts(counts), size)
  place = jnp.where(place < jnp.asarray(counts)[row], place, rows.shape[1])
  return with_any_length(jnp.asarray(rows).at[row, place].get(mode="fill", fill_value=0), total)


def padded_rows(values: Array, starts: Array, ends: Array, bound: int, budget: Budget, what: str) -> PaddedElement:
  """Returns `[n, bound, ...]`, the pieces of an array between positions, each with zeros after it.

  Args:
    values: `[total, ...]`.
    starts: `[n]`, the position of the first element of each piece.
    ends: `[n]`, the position after the last one.
    bound: the most elements that a piece may have.
    budget: is asked for memory.
    what: description of the op, for messages.

  Raises:
    LimitExceededError: the result needs too much memory.
  """
  check_known((starts.shape[0], bound, *values.shape[1:]), budget, what, values.dtype.itemsize)
  lengths = ((ends - starts).astype(np.int32), *[None] * (values.ndim - 1))
  are_known = is_known(starts) and is_known(ends)
  xp = np if are_known else jnp
  steps = np.arange(bound)
  places = xp.where(steps < (ends - starts)[:, None], starts[:, None] + steps, values.shape[0])
  if is_known(values) and are_known:
    filled = np.concatenate([values, zeros((1, *values.shape[1:]), values.dtype)])
    return PaddedElement(as_leaf(filled[places], values.dtype), lengths)
  if not values.shape[0]:
    # JAX gathers nothing from an array without elements, not even what fills the result.
    return PaddedElement(jnp.zeros((*places.shape, *values.shape[1:]), values.dtype), lengths)
  return PaddedElement(jnp.asarray(values).at[places].get(mode="fill", fill_value=0), lengths)


def rows_and_places(starts: Array, size: int) -> tuple[jax.Array, jax.Array]:
  """Returns for each of `size` positions its row, and the position in the row, of rows that begin at `starts`."""
  position = jnp.arange(size, dtype=np.int32)
  row = jnp.maximum(search_sorted(starts, position, "right") - 1, 0)
  return row, position - jnp.asarray(starts)[row].astype(np.int32)


def row_starts(counts: Array) -> Array:
  """Returns the position of the first element of each row, int32."""
  return (counts.cumsum() - counts).astype(np.int32)


def known_if_concrete(value: Array) -> Array:
  """Returns an array in NumPy unless it is traced."""
  return value if isinstance(value, jax.core.Tracer) else np.asarray(value)
