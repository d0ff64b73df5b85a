"""Rectangular parts of a tensor, as partitioned variables are stored and named in checkpoints."""

from collections.abc import Iterable
from dataclasses import dataclass

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint import ordered_code

__all__ = ["TensorSlice", "parse_slice_spec", "slice_key"]

_FULL = -1


@dataclass(frozen=True, slots=True)
class TensorSlice:
  """A part of a tensor: one (start, length) per dimension; length None means the whole dimension.

  Example:
      >>> part = TensorSlice(((2, 2), (0, None)))
      >>> part.bounds((4, 3))
      ((2, 4), (0, 3))
  """

  extents: tuple[tuple[int, int | None], ...]

  @classmethod
  def from_proto(cls, proto: schema.TensorSliceProto) -> "TensorSlice":
    """Returns the slice a checkpoint entry describes."""
    return cls(tuple((e.start, e.length if e.HasField("length") else None) for e in proto.extent))

  @property
  def is_full(self) -> bool:
    """Whether every dimension is taken whole."""
    return all(length is None for _, length in self.extents)

  def bounds(self, shape: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Returns (start, stop) per dimension within a tensor of that shape.

    Raises:
      ValueError: the slice has another rank, is empty where it may not be, or leaves the shape.
    """
    dims = tuple(shape)
    if len(dims) != len(self.extents):
      raise ValueError(f"slice {self} has {len(self.extents)} dimensions, the tensor has shape {dims}")
    bounds = []
    for (start, length), dim in zip(self.extents, dims, strict=True):
      stop = dim if length is None else start + length
      if not 0 <= start <= stop <= dim or (length is None and start != 0):
        raise ValueError(f"slice {self} leaves shape {dims}")
      bounds.append((start, stop))
    return tuple(bounds)

  def __str__(self) -> str:
    return ":".join("-" if length is None else f"{start},{length}" for start, length in self.extents)


def parse_slice_spec(spec: str) -> tuple[tuple[int, ...], TensorSlice] | None:
  """Returns the full shape and the part in a `shape_and_slices` entry of a save or restore op, or None if it is empty.

  Example:
      >>> parse_slice_spec("4 3 2,2:-")
      ((4, 3), TensorSlice(extents=((2, 2), (0, None))))

  Raises:
    ValueError: `spec` is not of the form "dim dim ... start,length:-:...".
  """
  if not spec:
    return None
  *dims, extents = spec.split(" ")
  try:
    shape = tuple(int(dim) for dim in dims)
    part = TensorSlice(tuple(_parse_extent(extent) for extent in extents.split(":")) if extents else ())
    part.bounds(shape)
  except ValueError as e:
    raise ValueError(f"shape_and_slices entry {spec!r} is not 'dim dim ... start,length:-:...': {e}") from e
  return shape, part


def _parse_extent(text: str) -> tuple[int, int | None]:
  if text == "-":
    return (0, None)
  start, length = text.split(",")
  return (int(start), int(length))


def slice_key(name: str, part: TensorSlice) -> bytes:
  """Returns the table key of a slice of tensor `name`. It begins with 0x00, which no tensor name does."""
  parts = [ordered_code.encode_unsigned(0), ordered_code.encode_bytes(name.encode())]
  parts.append(ordered_code.encode_unsigned(len(part.extents)))
  for start, length in part.extents:
    parts.append(ordered_code.encode_signed(start))
    parts.append(ordered_code.encode_signed(_FULL if length is None else length))
  return b"".join(parts)
