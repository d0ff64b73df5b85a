"""Facts about traced integers: positions up to a traced base, and ranges of scalars.

TensorFlow computes sizes and positions with ordinary ops. Two facts keep many of them usable under `jit`:

- `x[:, t : t + 2]` reaches `StridedSlice` as two traced vectors, `[0, t]` and `[0, t + 2]`. Each entry is a traced
  scalar plus a known offset, so the extent of the slice is known.
- `tf.math.bincount` with a least and a largest size computes `min(5, max(5, n))`. The range of this scalar has one
  value, so the scalar is known.

An evaluation carries one `IntegerFacts`. A lowering that uses it has a keyword-only parameter
`facts: IntegerFacts = NO_FACTS`; the kernel fills it in.
"""

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Array, Value, is_known, is_symbolic, materialize

__all__ = ["NO_FACTS", "Affine", "IntegerFacts"]

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
    """Returns the integer: known, or a traced scalar."""
    if self.base is None:
      return self.offset
    return self.base if isinstance(self.offset, int) and self.offset == 0 else self.base + self.offset

  def shifted(self, offset: Any) -> "Affine":
    """Returns the integer plus a known one."""
    return Affine(self.base, self.offset + offset)

  def distance(self, other: "Affine") -> Any | None:
    """Returns `other - self`, or None if it is not known."""
    return other.offset - self.offset if self.base is other.base else None


@dataclasses.dataclass(frozen=True, slots=True)
class _Range:
  """An interval of integers, ends included; an infinite end means that no bound is known."""

  low: float
  high: float


_ANY = _Range(-np.inf, np.inf)


_Fact = TypeVar("_Fact")


class _ByArray(Generic[_Fact]):
  """Maps arrays to facts, for as long as the arrays exist."""

  __slots__ = ("__weakref__", "_facts")

  def __init__(self) -> None:
    # Keys are ids: arrays have no hash, and compare elementwise.
    self._facts: dict[int, tuple[weakref.ref[Any], _Fact]] = {}

  def __len__(self) -> int:
    return len(self._facts)

  def get(self, array: Array) -> _Fact | None:
    reference, fact = self._facts.get(id(array), (None, None))
    return fact if reference is not None and reference() is array else None

  def set(self, array: Array, fact: _Fact) -> None:
    key, facts = id(array), weakref.ref(self)

    def forget(_: Any) -> None:
      table = facts()
      if table is not None:
        table._facts.pop(key, None)

    self._facts[key] = (weakref.ref(array, forget), fact)


class IntegerFacts:
  """Facts that lowerings noted about the traced integers of one evaluation.

  A fact belongs to one traced array and is dropped with it.
  """

  def __init__(self) -> None:
    self._entries = _ByArray[tuple[Affine, ...]]()
    self._ranges = _ByArray[_Range]()

  def __len__(self) -> int:
    """Returns the number of facts."""
    return len(self._entries) + len(self._ranges)

  def entries(self, vector: Array) -> tuple[Affine, ...]:
    """Returns one `Affine` for each element of a vector, or the only one of a scalar."""
    entries = self._find_entries(vector)
    return tuple(Affine(vector[i], 0) for i in range(vector.shape[0])) if entries is None else entries

  def materialized(self, value: Value, dtype: Any = np.int32) -> Value:
    """Returns `materialize(value, dtype)`, and notes its dimensions, which can serve as positions in a slice."""
    result = materialize(value, dtype)
    if result is not value and _is_index(result):
      self._note_entries(result, self.entries(value))
    return result

  def note_concatenated(self, result: Array, values: Sequence[Array]) -> None:
    """Notes that the vector `result` consists of the vectors or scalars `values`."""
    if not _is_index(result):
      return
    parts = [self._find_entries(value) for value in values]
    if all(part is not None for part in parts):
      self._note_entries(result, tuple(entry for part in parts if part is not None for entry in part))

  def note_shifted(self, result: Array, x: Array, y: Array, sign: int = 1) -> None:
    """Notes that `result` is `x + sign * y`, if one of these is known."""
    if not _is_index(result):
      return
    if is_known(x) and not is_known(y) and sign == 1:
      x, y = y, x
    if is_known(x) or not is_known(y) or x.shape != result.shape:
      return
    entries = self._find_entries(x)
    if entries is not None:
      offsets = np.broadcast_to(np.asarray(y), result.shape).reshape(-1)
      shifts = [o if jax.export.is_symbolic_dim(o) else int(o) for o in offsets]
      self._note_entries(result, tuple(e.shifted(sign * shift) for e, shift in zip(entries, shifts, strict=True)))

  def minimum(self, result: Array, x: Array, y: Array) -> Array:
    """Returns `result`, which is `min(x, y)`; as a known value if only one value is possible."""
    if not all(map(_is_integer_scalar, (result, x, y))):
      return result
    a, b = self._range(x), self._range(y)
    return self._within(result, _Range(min(a.low, b.low), min(a.high, b.high)))

  def maximum(self, result: Array, x: Array, y: Array) -> Array:
    """Returns `result`, which is `max(x, y)`; as a known value if only one value is possible."""
    if not all(map(_is_integer_scalar, (result, x, y))):
      return result
    a, b = self._range(x), self._range(y)
    return self._within(result, _Range(max(a.low, b.low), max(a.high, b.high)))

  def cast(self, result: Array, x: Array) -> Array:
    """Returns `result`, which is `x` in another dtype; as a known value if only one value is possible."""
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
      self.note_concatenated(result, [x])
    if not (_is_integer_scalar(result) and _is_integer_scalar(x)):
      return result
    range_, limits = self._range(x), np.iinfo(result.dtype)
    # Outside of these limits the cast may wrap around.
    return self._within(result, range_) if limits.min <= range_.low <= range_.high <= limits.max else result

  def _find_entries(self, x: Array) -> tuple[Affine, ...] | None:
    if is_known(x):
      flat = np.asarray(x).reshape(-1)
      return tuple(Affine(None, item if jax.export.is_symbolic_dim(item) else int(item)) for item in flat)
    entries = self._entries.get(x)
    if entries is None and x.ndim == 0:
      return (Affine(x, 0),)
    return entries

  def _note_entries(self, result: Array, entries: tuple[Affine, ...]) -> None:
    self._entries.set(result, entries)

  def _range(self, x: Array) -> _Range:
    if is_known(x):
      return _Range(int(x), int(x))
    return self._ranges.get(x) or _ANY

  def _within(self, result: Array, range_: _Range) -> Array:
    if is_known(result):
      return result
    if range_.low == range_.high:
      return np.asarray(range_.low, result.dtype)
    if range_ != _ANY:
      self._ranges.set(result, range_)
    return result


class _NoFacts(IntegerFacts):
  """Records no facts."""

  def _note_entries(self, result: Array, entries: tuple[Affine, ...]) -> None:
    pass

  def _within(self, result: Array, range_: _Range) -> Array:
    return result


NO_FACTS: IntegerFacts = _NoFacts()
"""For lowerings that are called outside an evaluation."""


def _is_index(x: Value) -> bool:
  if is_known(x) or x.ndim > 1 or not jnp.issubdtype(x.dtype, jnp.signedinteger):
    return False
  return all(isinstance(size, int) and size <= _MAX_ENTRIES for size in x.shape)


def _is_integer_scalar(value: Value) -> bool:
  return getattr(value, "shape", None) == () and np.issubdtype(value.dtype, np.integer) and not is_symbolic(value)
