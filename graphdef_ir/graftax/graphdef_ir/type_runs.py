"""A sequence of element types that stores repetitions as counts.

    >>> types = TypeRuns(((DType.INT32, 1), (DType.FLOAT, 1000000)))
    >>> len(types), types[0], types[-1]
    (1000001, DType.INT32, DType.FLOAT)

An attribute such as `num_split=1000000` takes a few bytes in a file, and must not take more in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from graftax.graphdef_ir.dtypes import DType

__all__ = ["TypeRuns"]


@dataclass(frozen=True, slots=True, eq=False)
class TypeRuns(Sequence[DType]):
  """Element types, as (type, count) runs. Equal to any sequence with the same elements."""

  runs: tuple[tuple[DType, int], ...]

  def __len__(self) -> int:
    return sum(count for _, count in self.runs)

  @overload
  def __getitem__(self, index: int) -> DType: ...

  @overload
  def __getitem__(self, index: slice) -> tuple[DType, ...]: ...

  def __getitem__(self, index: int | slice) -> DType | tuple[DType, ...]:
    if isinstance(index, slice):
      return tuple(self[i] for i in range(*index.indices(len(self))))
    position = index + len(self) if index < 0 else index
    for dtype, count in self.runs:
      if 0 <= position < count:
        return dtype
      position -= count
    raise IndexError(f"index {index} is out of range for {len(self)} element types")

  def __iter__(self) -> Iterator[DType]:
    for dtype, count in self.runs:
      for _ in range(count):
        yield dtype

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, Sequence):
      return NotImplemented
    return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

  def __hash__(self) -> int:
    return hash(tuple(self))

  def __str__(self) -> str:
    return ", ".join(str(dtype) if count == 1 else f"{count} * {dtype}" for dtype, count in self.runs)
