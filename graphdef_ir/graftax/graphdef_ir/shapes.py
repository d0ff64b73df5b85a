"""Shapes in which some dimensions, or even the rank, may be unknown.

>>> shape = PartialShape((None, 3))
>>> str(shape), shape.rank, shape.is_static
('[?, 3]', 2, False)
>>> shape.is_compatible_with(PartialShape((8, 3)))
True
"""

from collections.abc import Iterable
from dataclasses import dataclass

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError, ParseError

__all__ = ["PartialShape", "TensorSpec", "shape_from_proto", "shape_to_proto"]


@dataclass(frozen=True, slots=True)
class PartialShape:
  """Dimensions, outermost first. A size of None is unknown; if `dims` is None, the rank is unknown.

  Example:
    >>> batch = PartialShape.of(None, 3)
    >>> batch.rank, batch.is_static, batch.is_compatible_with((5, 3))
    (2, False, True)
  """

  dims: tuple[int | None, ...] | None = None

  @classmethod
  def of(cls, *dims: int | None) -> "PartialShape":
    """Returns the shape with these sizes: `PartialShape.of(None, 3)` is `PartialShape((None, 3))`."""
    return cls(dims)

  @property
  def rank(self) -> int | None:
    return None if self.dims is None else len(self.dims)

  @property
  def is_static(self) -> bool:
    """Returns whether every dimension is known."""
    return self.dims is not None and None not in self.dims

  def as_tuple(self) -> tuple[int, ...]:
    """Returns all sizes.

    Raises:
      GraphError: a size or the rank is unknown.
    """
    if self.dims is None or any(size is None for size in self.dims):
      raise GraphError(f"shape {self} is not fully known; expected a size for every dimension.")
    return tuple(size for size in self.dims if size is not None)

  def is_compatible_with(self, other: "PartialShape | Iterable[int | None]") -> bool:
    """Returns whether some fully known shape fits both."""
    theirs = other.dims if isinstance(other, PartialShape) else tuple(other)
    if self.dims is None or theirs is None:
      return True
    return len(self.dims) == len(theirs) and all(
      a is None or b is None or a == b for a, b in zip(self.dims, theirs, strict=True)
    )

  def __str__(self) -> str:
    if self.dims is None:
      return "[unknown rank]"
    return "[" + ", ".join("?" if size is None else str(size) for size in self.dims) + "]"


@dataclass(frozen=True, slots=True)
class TensorSpec:
  """Shape and element type of a tensor, with its name if it has one."""

  shape: PartialShape
  dtype: DType
  name: str | None = None

  def __str__(self) -> str:
    return f"{self.dtype}{self.shape}"


_SCALAR = PartialShape(())
_UNKNOWN = PartialShape(None)


def shape_from_proto(message: schema.TensorShapeProto) -> PartialShape:
  """Returns the shape of a message; raises ParseError for sizes below -1."""
  if message.unknown_rank:
    return _UNKNOWN
  sizes = [dim.size for dim in message.dim]
  if not sizes:
    return _SCALAR
  if min(sizes) >= 0:
    return PartialShape(tuple(sizes))
  if min(sizes) < -1:
    raise ParseError(
      f"TensorShapeProto: size {min(sizes)!r} of dimension {sizes.index(min(sizes))}; expected -1 or more."
    )
  return PartialShape(tuple(None if size == -1 else size for size in sizes))


def shape_to_proto(shape: PartialShape | Iterable[int | None]) -> schema.TensorShapeProto:
  """Returns the message for a shape; unknown sizes become -1.

  Example:
    >>> [dim.size for dim in shape_to_proto((None, 3)).dim]
    [-1, 3]
  """
  dims = shape.dims if isinstance(shape, PartialShape) else tuple(shape)
  if dims is None:
    return schema.TensorShapeProto(unknown_rank=True)
  message = schema.TensorShapeProto()
  for size in dims:
    message.dim.add(size=-1 if size is None else size)
  return message
