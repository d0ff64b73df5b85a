"""Facts about traced integers: positions up to a traced base, and ranges of scalars.

TensorFlow computes sizes and positions with ordinary ops. Two facts keep many of them usable under `jit`:

- `x[:, t : t + 2]` reaches `StridedSlice` as two traced vectors, `[0, t]` and `[0, t + 2]`. Each entry is a traced
  scalar plus a known offset, so the extent of the slice is known.
- `tf.math.bincount` with a least and a largest size computes `min(5, max(5, n))`. The range of this scalar has one
  value, so the scalar is known. Without a largest size it computes `max(5, max(x) + 1)`, which is known if `x` was
  clipped to less than 5.

A range may also be that of all elements of an array. It bounds the longest of ragged rows: the splits lie between 0 and
the number of values, so the largest difference of two of them does, too.

An evaluation carries one `IntegerFacts`. A lowering that uses it has a keyword-only parameter
`facts: IntegerFacts = NO_FACTS`; the kernel fills it in.
"""

import dataclasses
import functools
import weakref
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Array, Value, dtype_of, is_known, is_symbolic, materialize

__all__ = ["NO_FACTS", "Affine", "IntegerFacts"]

_MAX_ENTRIES = 16


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Affine:
  """An integer `sum(factor * base for base, factor in terms) + offset`.

  Attributes:
    terms: traced scalars with their factors, which are not 0.
    offset: a known integer or symbolic dimension (which JAX's types, and so these, call an int as well).
  """

  terms: tuple[tuple[jax.Array, int], ...]
  offset: int

  @property
  def is_known(self) -> bool:
    """Whether the integer is known while tracing."""
    return not self.terms

  def value(self) -> int | jax.Array:
    """Returns the integer: known, or a traced scalar."""
    total: jax.Array | None = None
    for base, factor in self.terms:
      term = base if factor == 1 else base * factor
      total = term if total is None else total + term.astype(total.dtype)
    if total is None:
      return self.offset
    return total if isinstance(self.offset, int) and self.offset == 0 else total + self.offset

  def plus(self, other: "Affine", factor: int = 1) -> "Affine":
    """Returns the integer plus `factor` times another."""
    terms = [*self.terms]
    for base, own in other.terms:
      place = next((i for i, (known, _) in enumerate(terms) if known is base), None)
      if place is None:
        terms.append((base, factor * own))
      else:
        terms[place] = (base, terms[place][1] + factor * own)
    return Affine(tuple(term for term in terms if term[1]), self.offset + factor * other.offset)

  def distance(self, other: "Affine") -> int | None:
    """Returns `other - self`, or None if it is not known."""
    difference = other.plus(self, -1)
    return difference.offset if difference.is_known else None


@dataclasses.dataclass(frozen=True, slots=True)
class _Range:
  """An interval of integers, ends included; an infinite end means that no bound is known.

  Attributes:
    low: the least integer.
    high: the greatest integer.
    is_certain: whether it always holds. The bound of a size that the user gave holds unless a check fails.
  """

  low: float
  high: float
  is_certain: bool = True

  def union(self, other: "_Range") -> "_Range":
    """Returns the least interval that holds both."""
    return _Range(min(self.low, other.low), max(self.high, other.high), self.is_certain and other.is_certain)


_ANY = _Range(-np.inf, np.inf)

# Larger constants are not read for their range: they bound images and tables rather than sizes.
_MAX_EXAMINED = 4096

# Larger offsets and factors are those of hashes and limits, and what they make may wrap.
_MAX_OFFSET = 2**24


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
    # The greatest sum of the elements, none of which is negative.
    self._totals = _ByArray[int]()

  def __len__(self) -> int:
    """Returns the number of facts."""
    return len(self._entries) + len(self._ranges) + len(self._totals)

  def entries(self, vector: Array) -> tuple[Affine, ...]:
    """Returns one `Affine` for each element of a vector, or the only one of a scalar."""
    entries = self._find_entries(vector)
    return tuple(Affine(((vector[i], 1),), 0) for i in range(vector.shape[0])) if entries is None else entries

  def materialized(self, value: Value, dtype: Any = np.int32) -> Value:
    """Returns `materialize(value, dtype)`, and notes its dimensions, which can serve as positions in a slice.

    Args:
      value: any value; all but vectors and scalars of symbolic dimensions are returned unchanged.
      dtype: the integer dtype of the array.
    """
    result = materialize(value, dtype)
    if result is not value and _is_index(result):
      self._note_entries(result, self.entries(value))
    return result

  def note_concatenated(self, result: Array, values: Sequence[Array], max_rank: int = 1) -> Array:
    """Returns `result`, whose elements are those of `values` in the same order; known if its entries are.

    Args:
      result: a traced array of signed integers; of others nothing is noted.
      values: known or traced arrays of integers.
      max_rank: note no entries of a result of more dimensions.
    """
    if len(values) == 1:
      self._note_same_range(result, values[0])
      self._note_same_total(result, values[0])
    elif _is_integers(result) and not is_known(result) and all(map(_is_integers, values)):
      self._note_union(result, values)
    if not _is_index(result, max_rank):
      return result
    parts = [self._find_entries(value) for value in values]
    if any(part is None for part in parts):
      return result
    return self.with_entries(result, tuple(entry for part in parts if part is not None for entry in part))

  def note_interleaved(self, result: Array, values: Sequence[Array]) -> Array:
    """Returns the matrix `result`, whose columns are the vectors `values`; known if its entries are.

    Args:
      result: `[n, len(values)]`, signed integers.
      values: vectors of length `n`, known or traced.
    """
    if not _is_index(result, max_rank=2):
      return result
    parts = [self._find_entries(value) for value in values]
    if any(part is None for part in parts):
      return result
    columns = [part for part in parts if part is not None]
    return self.with_entries(result, tuple(entry for row in zip(*columns, strict=True) for entry in row))

  def combined(self, result: Array, x: Array, y: Array, sign: int = 1) -> Array:
    """Returns `result`, which is `x + sign * y`; known if its entries are.

    Args:
      result: signed integers of rank 0 or 1, the shape to which `x` and `y` broadcast; of others nothing is known.
      x: known or traced.
      y: known or traced.
      sign: 1 for a sum, -1 for a difference.
    """
    if _is_float(result):
      return result
    self._note_sum(result, x, y, sign)
    if not _is_index(result):
      return result
    first, second = self._broadcast_entries(x, result.shape), self._broadcast_entries(y, result.shape)
    if first is None or second is None:
      return result
    return self.with_entries(result, tuple(a.plus(b, sign) for a, b in zip(first, second, strict=True)))

  def scaled(self, result: Array, x: Array, y: Array) -> Array:
    """Returns `result`, which is `x * y`, and notes its entries if one factor is known.

    Args:
      result: signed integers of rank 0 or 1, the shape to which `x` and `y` broadcast; of others nothing is noted.
      x: known or traced.
      y: known or traced. If both factors are traced, nothing is noted.
    """
    if _is_float(result) or not _is_index(result):
      return result
    if is_known(x):
      x, y = y, x
    entries = self._broadcast_entries(x, result.shape)
    if entries is None or not is_known(y) or is_symbolic(y):
      return result
    factors = np.broadcast_to(np.asarray(y), result.shape).reshape(-1).tolist()
    zero = Affine((), 0)
    return self.with_entries(result, tuple(zero.plus(e, factor) for e, factor in zip(entries, factors, strict=True)))

  def product(self, result: Array, x: Array) -> Array:
    """Returns the scalar `result`, the product of the vector `x`, and notes its factors if at most one is traced.

    Args:
      result: a scalar of a signed integer dtype.
      x: a vector of dimensions, known or traced.
    """
    entries = self._find_entries(x) if _is_index(result) and result.ndim == 0 else None
    if entries is None or any(not isinstance(entry.offset, int) for entry in entries):
      return result
    traced = [entry for entry in entries if not entry.is_known]
    if len(traced) > 1:
      return result
    factor = int(np.prod([entry.offset for entry in entries if entry.is_known], dtype=np.int64))
    return self.with_entries(result, (Affine((), 0).plus(traced[0] if traced else Affine((), 1), factor),))

  def selected(self, result: Array, vector: Array, positions: "np.ndarray | Sequence[int]") -> Array:
    """Returns `result`, whose elements are those of a vector at known positions; known if these entries are.

    Args:
      result: the selected elements, as many as positions.
      vector: the vector that was indexed.
      positions: an index into `vector` for each element of the result, of any shape.
    """
    self._note_same_range(result, vector)
    entries = self._entries_by_array(vector)
    if entries is None or not _is_index(result):
      return result
    return self.with_entries(result, tuple(entries[position] for position in np.reshape(positions, -1).tolist()))

  def with_entries(self, result: Array, entries: tuple[Affine, ...]) -> Array:
    """Returns `result`, whose elements are `entries`; as a known array if they are.

    Args:
      result: an array of integers; returned unchanged if it is known.
      entries: what each element is, in row-major order.
    """
    if is_known(result):
      return result
    if all(entry.is_known and isinstance(entry.offset, int) for entry in entries):
      # Integers wrap, as in TensorFlow.
      wrapped = np.asarray([entry.offset % 2**64 for entry in entries], np.uint64)
      return wrapped.astype(result.dtype).reshape(result.shape)
    self._note_entries(result, entries)
    return result

  def note_range(self, x: Array, low: int, high: int, *, is_certain: bool = True) -> None:
    """Notes that all elements of a traced array lie between two integers, ends included.

    Args:
      x: an array of integers; of a known one nothing is noted.
      low: the least value that is possible.
      high: the greatest value that is possible; a symbolic dimension is not noted.
      is_certain: false if the bound is that of a size which the user gave, and which a check at run time compares.
    """
    if not is_known(x):
      # A symbolic size tells nothing in numbers.
      self._ranges.set(x, _Range(low, high if isinstance(high, int | np.integer) else np.inf, is_certain))

  def counts(self, result: Array, num_counted: int) -> Array:
    """Returns `result`, a vector that says how often each of some values occurs among `num_counted` ones.

    Args:
      result: `[num_values]`, of any dtype; known values and floats are returned unchanged.
      num_counted: an upper bound of the sum of `result`; if it is symbolic, nothing is noted.
    """
    if not is_known(result) and _is_integers(result) and isinstance(num_counted, int):
      self.note_range(result, 0, num_counted)
      self._totals.set(result, num_counted)
    return result

  def running_sum(self, result: Array, x: Array) -> Array:
    """Returns `result`, the sums of the first elements of the vector `x`, or of its last ones.

    Args:
      result: `[n]`, an integer dtype.
      x: `[n]`; sums of what `counts` noted are known to be at most its total.
    """
    total = None if is_known(x) else self._totals.get(x)
    if total is not None and x.ndim == 1:
      self.note_range(result, 0, total)
    return result

  def matrix_entries(self, matrix: Array) -> tuple[tuple[Affine, ...], ...]:
    """Returns one `Affine` for each element of a matrix, by row."""
    num_rows, num_columns = matrix.shape
    entries = self._find_entries(matrix)
    if entries is None:
      flat = matrix.reshape(-1)
      entries = tuple(Affine(((flat[i], 1),), 0) for i in range(num_rows * num_columns))
    return tuple(entries[i * num_columns : (i + 1) * num_columns] for i in range(num_rows))

  def is_never_negative(self, entry: Affine) -> bool:
    """Returns whether an integer is known to be at least 0."""
    range_ = self._range_of(entry)
    return range_.low >= 0 and range_.is_certain

  def greatest(self, entry: Affine) -> tuple[int, bool] | None:
    """Returns the greatest value that an integer can have, and whether that always holds; None if it is not known."""
    range_ = self._range_of(entry)
    return (int(range_.high), range_.is_certain) if np.isfinite(range_.high) else None

  def minimum(self, result: Array, x: Array, y: Array) -> Array:
    """Returns `result`, which is `min(x, y)`; a scalar as a known value if only one value is possible.

    Args:
      result: a traced array of an integer dtype; others are returned unchanged.
      x: an array that broadcasts to `result`.
      y: an array that broadcasts to `result`.
    """
    if is_known(result) or not all(map(_is_integers, (result, x, y))):
      return result
    a, b = self._range(x), self._range(y)
    return self._within(result, _Range(min(a.low, b.low), min(a.high, b.high), a.is_certain and b.is_certain))

  def maximum(self, result: Array, x: Array, y: Array) -> Array:
    """Returns `result`, which is `max(x, y)`; a scalar as a known value if only one value is possible.

    Args:
      result: a traced array of an integer dtype; others are returned unchanged.
      x: an array that broadcasts to `result`.
      y: an array that broadcasts to `result`.
    """
    if is_known(result) or not all(map(_is_integers, (result, x, y))):
      return result
    a, b = self._range(x), self._range(y)
    return self._within(result, _Range(max(a.low, b.low), max(a.high, b.high), a.is_certain and b.is_certain))

  def cast(self, result: Array, x: Array) -> Array:
    """Returns `result`, which is `x` in another dtype; as a known value if only one value is possible.

    Args:
      result: the array after the cast.
      x: the array before it. Its range holds for the result only if the dtype of the result holds all of the range.
    """
    if x.ndim:
      self._note_same_range(result, x)
      self._note_same_total(result, x)
    if _is_index(result) and jnp.issubdtype(x.dtype, jnp.signedinteger):
      result = self._cast_entries(result, x)
    if not (_is_integer_scalar(result) and _is_integer_scalar(x)):
      return result
    range_, limits = self._range(x), np.iinfo(result.dtype)
    # Outside of these limits the cast may wrap around.
    return self._within(result, range_) if limits.min <= range_.low <= range_.high <= limits.max else result

  def largest(self, result: Array, x: Array) -> Array:
    """Returns the scalar `result`, the largest element of `x`.

    Args:
      result: a traced scalar of an integer dtype; others are returned unchanged.
      x: an array of any rank, which may be empty.
    """
    range_ = None if is_known(x) else self._ranges.get(x)
    if range_ is None or not _is_integer_scalar(result):
      return result
    # The maximum of no elements is the least number of the dtype.
    return self._within(result, dataclasses.replace(range_, low=-np.inf))

  def _cast_entries(self, result: Array, x: Array) -> Array:
    """Notes the entries of `x` for `result`, which is `x` in another dtype, as far as the cast keeps their values.

    What is noted of a narrow array holds up to multiples of its range, because integers wrap. So a wider one has other
    values, unless they did not wrap before.
    """
    entries = self._find_entries(x)
    if entries is None or result.dtype.itemsize <= x.dtype.itemsize:
      return result if entries is None else self.with_entries(result, entries)
    kept = [_is_exact(entry, x.dtype) for entry in entries]
    if any(kept):
      own = self.entries(result)
      return self.with_entries(result, tuple(e if k else o for e, k, o in zip(entries, kept, own, strict=True)))
    return result

  def _note_same_range(self, result: Array, x: Array) -> None:
    """Notes the range of the elements of `x` for those of `result`, if these are integers whose dtype holds it."""
    if is_known(result) or is_known(x) or not _is_integers(result):
      return
    range_, limits = self._ranges.get(x), np.iinfo(result.dtype)
    if range_ is not None and limits.min <= range_.low <= range_.high <= limits.max:
      self._ranges.set(result, range_)

  def _note_same_total(self, result: Array, x: Array) -> None:
    """Notes the greatest sum of the elements of `x` for `result`, which holds the same numbers, if its dtype does."""
    total = None if is_known(x) or is_known(result) or not _is_integers(result) else self._totals.get(x)
    if total is not None and total <= np.iinfo(result.dtype).max:
      self._totals.set(result, total)

  def _note_union(self, result: Array, values: Sequence[Array]) -> None:
    """Notes the range of all elements of `values` for those of `result`, if each has one and the dtype has them all."""
    ranges = [self._range(value) for value in values if np.size(value)]
    if ranges and all(range_ != _ANY for range_ in ranges):
      union = functools.reduce(_Range.union, ranges)
      if _holds(result.dtype, union):
        self._ranges.set(result, union)

  def _note_sum(self, result: Array, x: Array, y: Array, sign: int) -> None:
    """Notes the range of `x + sign * y`, for arrays."""
    if is_known(result) or is_known(x) or is_known(y) or not result.ndim:
      return
    a, b = self._ranges.get(x), self._ranges.get(y)
    if a is None or b is None:
      return
    ends = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    range_ = _Range(a.low + ends[0], a.high + ends[1], a.is_certain and b.is_certain)
    limits = np.iinfo(result.dtype)
    # Outside of these limits the sum may wrap around.
    if limits.min <= range_.low <= range_.high <= limits.max:
      self._ranges.set(result, range_)

  def _find_entries(self, x: Array) -> tuple[Affine, ...] | None:
    if is_known(x):
      flat = np.asarray(x).reshape(-1)
      return tuple(Affine((), _known_offset(item)) for item in flat)
    entries = self._entries_by_array(x)
    if entries is None and x.ndim == 0:
      return (Affine(((x, 1),), 0),)
    return entries

  def _entries_by_array(self, x: Array) -> tuple[Affine, ...] | None:
    return self._entries.get(x)

  def _broadcast_entries(self, x: Array, shape: tuple[int, ...]) -> tuple[Affine, ...] | None:
    if is_known(x) and not jnp.issubdtype(x.dtype, jnp.integer) and not is_symbolic(x):
      return None
    entries = self._find_entries(x)
    count = shape[0] if shape else 1
    return entries * count if entries is not None and len(entries) == 1 else entries

  def _note_entries(self, result: Array, entries: tuple[Affine, ...]) -> None:
    self._entries.set(result, entries)

  def _range(self, x: Array) -> _Range:
    if is_known(x):
      return _Range(int(np.min(x)), int(np.max(x))) if 0 < x.size <= _MAX_EXAMINED else _ANY
    noted = self._ranges.get(x)
    if noted is not None:
      return noted
    entries = self._entries_by_array(x)
    range_ = functools.reduce(_Range.union, map(self._range_of, entries)) if entries else _ANY
    return range_ if _holds(x.dtype, range_) else _ANY

  def _range_of(self, entry: Affine) -> _Range:
    if not isinstance(entry.offset, int):
      return _ANY
    low = high = float(entry.offset)
    is_certain = True
    for base, factor in entry.terms:
      range_ = self._ranges.get(base) or _ANY
      ends = sorted((range_.low * factor, range_.high * factor))
      low, high, is_certain = low + ends[0], high + ends[1], is_certain and range_.is_certain
    is_hash = any(abs(number) > _MAX_OFFSET for number in (entry.offset, *(factor for _, factor in entry.terms)))
    return _ANY if is_hash and not np.isfinite(high - low) else _Range(low, high, is_certain)

  def _within(self, result: Array, range_: _Range) -> Array:
    if is_known(result):
      return result
    if range_.low == range_.high and range_.is_certain and not result.ndim:
      return np.asarray(range_.low, result.dtype)
    if range_ != _ANY:
      self._ranges.set(result, range_)
    return result


class _NoFacts(IntegerFacts):
  """Records no facts."""

  def counts(self, result: Array, num_counted: int) -> Array:
    return result

  def with_entries(self, result: Array, entries: tuple[Affine, ...]) -> Array:
    return result

  def note_range(self, x: Array, low: int, high: int, *, is_certain: bool = True) -> None:
    pass

  def _note_entries(self, result: Array, entries: tuple[Affine, ...]) -> None:
    pass

  def _within(self, result: Array, range_: _Range) -> Array:
    return result


NO_FACTS: IntegerFacts = _NoFacts()
"""For lowerings that are called outside an evaluation."""


def _is_exact(entry: Affine, dtype: np.dtype) -> bool:
  """Returns whether an integer in an array of a dtype is its entry, and not only up to multiples of the dtype's range.

  It is if the entry is known to be in the range, or is a base that was not narrowed. In 32 bits and more, a base plus
  an offset is a position or a size, which does not wrap, unless the offset is as large as those of hashes are.
  """
  if entry.is_known:
    return not isinstance(entry.offset, int) or _holds(dtype, _Range(entry.offset, entry.offset))
  (base, factor), *others = entry.terms
  is_sum = not others and factor == 1 and base.dtype.itemsize <= dtype.itemsize
  if not is_sum or not isinstance(entry.offset, int):
    return is_sum and not _is_narrow(dtype)
  return abs(entry.offset) <= (0 if _is_narrow(dtype) else _MAX_OFFSET)


def _holds(dtype: np.dtype, range_: _Range) -> bool:
  """Returns whether integers of a range do not wrap in a dtype; a missing bound is within 32 bits and more."""
  limits = np.iinfo(dtype)
  ends = [end for end in (range_.low, range_.high) if np.isfinite(end) or _is_narrow(dtype)]
  return all(limits.min <= end <= limits.max for end in ends)


def _is_narrow(dtype: np.dtype) -> bool:
  return dtype.itemsize < 4


def _known_offset(item: Any) -> int:
  is_symbolic: bool = jax.export.is_symbolic_dim(item)
  return item if is_symbolic else int(item)


def _is_float(x: Value) -> bool:
  return getattr(dtype_of(x), "kind", None) == "f"


def _is_index(x: Value, max_rank: int = 1) -> bool:
  if is_known(x) or x.ndim > max_rank or not jnp.issubdtype(x.dtype, jnp.signedinteger):
    return False
  return all(isinstance(size, int) and size <= _MAX_ENTRIES for size in x.shape)


def _is_integer_scalar(value: Value) -> bool:
  return getattr(value, "shape", None) == () and _is_integers(value)


def _is_integers(value: Value) -> bool:
  return getattr(dtype_of(value), "kind", None) in ("i", "u") and not is_symbolic(value)
