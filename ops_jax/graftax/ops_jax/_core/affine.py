"""What is known about traced positions: each is some traced scalar plus a known offset.

`x[:, t : t + 2]` reaches `StridedSlice` as two traced vectors, `[0, t]` and `[0, t + 2]`. Taken alone they say nothing
about the extent of the result; but `Pack` and `AddV2` knew, and leave a note here. A note belongs to one traced array
and goes away with it.
"""

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Array, Value, is_known, materialize

__all__ = [
  "Affine",
  "affine_entries",
  "materialize_noted",
  "note_concatenated",
  "note_same",
  "note_shifted",
  "note_stacked",
]

_MAX_ENTRIES = 16


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Affine:
  """An integer `base + offset`.

  Attributes:
    base: a traced scalar, or None for a known integer.
    offset: a known integer or symbolic dimension.
  """

  base: jax.Array | None
  offset: Any

  def value(self) -> Any:
    """The integer: known, or a traced scalar."""
    if self.base is None:
      return self.offset
    return self.base if isinstance(self.offset, int) and self.offset == 0 else self.base + self.offset

  def shifted(self, offset: Any) -> "Affine":
    """The integer plus a known one."""
    return Affine(self.base, self.offset + offset)

  def distance(self, other: "Affine") -> Any | None:
    """`other - self` if it is known."""
    return other.offset - self.offset if self.base is other.base else None


# id of a traced array -> (the array, what is known about its entries). Arrays compare elementwise, hence the id.
_NOTES: dict[int, tuple[weakref.ref[Any], tuple[Affine, ...]]] = {}


def affine_entries(vector: Array) -> tuple[Affine, ...]:
  """One `Affine` for each element of a vector (or for a scalar, the only one)."""
  entries = _entries(vector)
  if entries is None:
    entries = tuple(Affine(vector[i], 0) for i in range(vector.shape[0]))
  return entries


def materialize_noted(value: Value, dtype: Any = np.int32) -> Value:
  """`materialize(value, dtype)`, with a note of the dimensions: as positions in a slice they are as good as known."""
  result = materialize(value, dtype)
  if result is not value and _is_index(result):
    _note(result, affine_entries(value))
  return result


def note_stacked(result: Array, values: Sequence[Array]) -> None:
  """Notes that `result` is the vector of the scalars `values`."""
  if _is_index(result):
    note_concatenated(result, values)


def note_concatenated(result: Array, values: Sequence[Array]) -> None:
  """Notes that the vector `result` is made of the vectors or scalars `values`."""
  if not _is_index(result):
    return
  parts = [_entries(value) for value in values]
  if all(part is not None for part in parts):
    _note(result, tuple(entry for part in parts if part is not None for entry in part))


def note_same(result: Array, value: Array) -> None:
  """Notes that two arrays hold the same integers, as after a cast."""
  note_concatenated(result, [value])


def note_shifted(result: Array, x: Array, y: Array, sign: int = 1) -> None:
  """Notes that `result` is `x + sign * y`, if one of these is known."""
  if not _is_index(result):
    return
  if is_known(x) and not is_known(y) and sign == 1:
    x, y = y, x
  if is_known(x) or not is_known(y) or x.shape != result.shape:
    return
  entries = _entries(x)
  if entries is not None:
    offsets = np.broadcast_to(np.asarray(y), result.shape).reshape(-1)
    shifts = [o if jax.export.is_symbolic_dim(o) else int(o) for o in offsets]
    _note(result, tuple(entry.shifted(sign * shift) for entry, shift in zip(entries, shifts, strict=True)))


def _is_index(x: Value) -> bool:
  if is_known(x) or x.ndim > 1 or not jnp.issubdtype(x.dtype, jnp.signedinteger):
    return False
  return all(isinstance(size, int) and size <= _MAX_ENTRIES for size in x.shape)


def _entries(x: Array) -> tuple[Affine, ...] | None:
  if is_known(x):
    flat = np.asarray(x).reshape(-1)
    return tuple(Affine(None, item if jax.export.is_symbolic_dim(item) else int(item)) for item in flat)
  reference, entries = _NOTES.get(id(x), (None, ()))
  if reference is not None and reference() is x:
    return entries
  return (Affine(x, 0),) if x.ndim == 0 else None


def _note(result: Array, entries: tuple[Affine, ...]) -> None:
  key = id(result)
  _NOTES[key] = (weakref.ref(result, lambda _: _NOTES.pop(key, None)), entries)
