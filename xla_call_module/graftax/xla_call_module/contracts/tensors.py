"""Types of operands and results as patterns such as "T[m,n]", and their comparison with the types of a custom call.

A pattern is an element type and dimensions, which follow the batch dimensions that all patterns of a contract share.
Element types: "T" is the type of the routine, "R" and "C" its real and complex counterparts, "I" is the type
of indices, and others are names of dtypes. A dimension is a name, a name minus a number ("n-1"), or "min(m,n)". A name
has the same size wherever it occurs.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

__all__ = ["Kind", "Matcher", "Mismatch", "Pattern", "Sizes", "as_kind", "patterns"]


class Mismatch(Exception):
  """A type does not fit its pattern; the message says which and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
  """The type of an operand or a result; sizes that are not known are None."""

  shape: tuple[int | None, ...]
  dtype: np.dtype

  def __str__(self) -> str:
    return f"{self.dtype.name}[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
  """One pattern: an element type and the dimensions after the batch dimensions."""

  element: str
  dims: tuple[str, ...]

  def __str__(self) -> str:
    return f"{self.element}[{','.join(self.dims)}]"

  @property
  def is_matrix(self) -> bool:
    return len(self.dims) == 2


Sizes = dict[str, int | None]
_PATTERN = re.compile(r"(\w+)\[([^\]]*)\]")
_DIM = re.compile(r"[^,(]+\([^)]*\)|[^,]+")


def patterns(text: str) -> tuple[Pattern, ...]:
  """Returns the patterns of a text such as "T[m,n] int32[min(m,n)]"."""
  return tuple(Pattern(element, tuple(_DIM.findall(dims))) for element, dims in _PATTERN.findall(text))


@dataclasses.dataclass(slots=True)
class Matcher:
  """Compares types with patterns one after the other.

  Attributes:
    elements: the dtypes that each element type may have; one that was found is the only one from then on.
    batch: the batch dimensions; None before the first type.
    sizes: the sizes of names that are known so far.
  """

  elements: dict[str, tuple[np.dtype, ...]]
  batch: tuple[int | None, ...] | None = None
  sizes: Sizes = dataclasses.field(default_factory=dict)

  def match(self, what: str, wanted: Sequence[Pattern], given: Sequence[Kind]) -> None:
    """Compares all operands or all results.

    Raises:
      Mismatch: a type does not fit.
    """
    if len(wanted) != len(given):
      raise Mismatch(f"it has {len(given)} {what}s; expected {len(wanted)}: {' '.join(map(str, wanted)) or 'none'}")
    for position, (pattern, kind) in enumerate(zip(wanted, given, strict=True)):
      try:
        self._match_one(pattern, kind)
      except Mismatch as error:
        raise Mismatch(f"{what} {position} is {kind}; {error}") from None

  def _match_one(self, pattern: Pattern, kind: Kind) -> None:
    allowed = self.elements.get(pattern.element) or (np.dtype(pattern.element),)
    if kind.dtype not in allowed:
      raise Mismatch(f"expected elements of type {' or '.join(dtype.name for dtype in allowed)}")
    self.elements[pattern.element] = (kind.dtype,)
    num_batch = len(kind.shape) - len(pattern.dims)
    if num_batch < 0 or (self.batch is not None and num_batch != len(self.batch)):
      rank = f"{len(pattern.dims)} or more" if self.batch is None else str(len(pattern.dims) + len(self.batch))
      raise Mismatch(f"expected rank {rank}: {pattern} for each element of the batch")
    own = kind.shape[:num_batch]
    batch = own if self.batch is None else self.batch
    if not all(_agree(x, y) for x, y in zip(own, batch, strict=True)):
      raise Mismatch(f"expected batch dimensions {list(batch)}")
    for text, dim in zip(pattern.dims, kind.shape[num_batch:], strict=True):
      self._match_dim(text, dim)
    self.batch = tuple(x if x is not None else y for x, y in zip(own, batch, strict=True))

  def _match_dim(self, text: str, dim: int | None) -> None:
    if text.isidentifier():
      if self.sizes.get(text) is None:
        self.sizes[text] = dim
      expected = self.sizes[text]
    else:
      expected = _evaluate(text, self.sizes)
    if not _agree(dim, expected):
      raise Mismatch(f"expected {text}={expected} in place of {dim}")


def _agree(x: int | None, y: int | None) -> bool:
  return x is None or y is None or x == y


def _evaluate(text: str, sizes: Sizes) -> int | None:
  parts = re.findall(r"\w+", text)
  values = [int(part) if part.isdigit() else sizes.get(part) for part in parts if part != "min"]
  known = [value for value in values if value is not None]
  if len(known) < len(values):
    return None
  return min(known) if parts[0] == "min" else known[0] - known[1]


def as_kind(value: object) -> Kind | None:
  """Returns the type of an array, a tracer or a declared tensor; None for tokens and other values."""
  shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
  if not isinstance(shape, tuple) or dtype is None:
    return None
  return Kind(tuple(int(dim) if isinstance(dim, (int, np.integer)) else None for dim in shape), np.dtype(dtype))
