"""StableHLO as frozen Python data without references to MLIR objects, so that threads can share it."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = [
  "Function",
  "ModuleIR",
  "Op",
  "OpaqueType",
  "Region",
  "Symbol",
  "TensorType",
  "TokenType",
  "TupleType",
  "Type",
  "TypedFloat",
  "TypedInt",
  "walk",
]


@dataclasses.dataclass(frozen=True, slots=True)
class TensorType:
  """Shape and dtype of a tensor; an unknown dimension is None."""

  shape: tuple[int | None, ...]
  dtype: np.dtype

  @property
  def rank(self) -> int:
    return len(self.shape)

  @property
  def static_shape(self) -> tuple[int, ...]:
    """The shape of a type that is known to be static."""
    shape: tuple[Any, ...] = self.shape
    return shape

  @property
  def is_static(self) -> bool:
    return None not in self.shape

  def __str__(self) -> str:
    dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
    return f"{self.dtype.name}[{dims}]"


@dataclasses.dataclass(frozen=True, slots=True)
class TokenType:
  """The type of a value that only orders effects."""

  def __str__(self) -> str:
    return "token"


@dataclasses.dataclass(frozen=True, slots=True)
class TupleType:
  """The type of an HLO tuple."""

  elements: tuple["Type", ...]

  def __str__(self) -> str:
    return f"({', '.join(map(str, self.elements))})"


@dataclasses.dataclass(frozen=True, slots=True)
class OpaqueType:
  """A type without a counterpart in JAX (quantized, dynamic rank), kept as its text for the error."""

  text: str

  def __str__(self) -> str:
    return self.text


Type = TensorType | TokenType | TupleType | OpaqueType
# Fields of ops, regions and functions are annotated `TensorType` instead of `Type`. Nearly all of them are one; on any
# other, `.shape` and `.dtype` raise AttributeError, so that no explicit check is needed at each use.
_Types = tuple[TensorType, ...]


class TypedInt(int):
  """An integer in a dictionary attribute, such as a setting of a custom call. `spelling` is its MLIR type: "ui8"."""

  spelling: str


class TypedFloat(float):
  """A float in a dictionary attribute; see `TypedInt`."""

  spelling: str


class Symbol(str):
  """A function name in an attribute."""

  __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Op:
  """One operation. Values are numbered, and each number is unique in its module.

  `attrs` holds decoded Python values: numbers, strings, tuples, dicts, `Symbol`s, and numpy arrays for dense elements.
  """

  name: str
  operands: tuple[int, ...]
  results: tuple[int, ...]
  types: _Types
  attrs: Mapping[str, Any]
  regions: tuple["Region", ...]
  location: str

  @property
  def type(self) -> TensorType:
    return self.types[0]

  @property
  def place(self) -> str:
    """The op's name, and its source location if known; used at the beginning of error messages."""
    return f"{self.name} at {self.location}" if self.location else self.name


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Region:
  """A region of one block: its arguments, its ops in order, the returned values, and the captured outer values."""

  args: tuple[int, ...]
  types: _Types
  ops: tuple[Op, ...]
  returns: tuple[int, ...]
  captures: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Function:
  """A `func.func`; `types` and `attrs` are per argument, `result_types` and `result_attrs` per result."""

  name: str
  body: Region
  attrs: tuple[Mapping[str, Any], ...]
  result_types: _Types
  result_attrs: tuple[Mapping[str, Any], ...]
  is_public: bool

  @property
  def types(self) -> _Types:
    return self.body.types


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ModuleIR:
  """A decoded module: its functions by name, its attributes, and the meshes of its sharding annotations."""

  name: str
  functions: Mapping[str, Function]
  attrs: Mapping[str, Any]
  meshes: Mapping[str, Any]

  @property
  def main(self) -> Function:
    return self.functions["main"]


def walk(region: Region) -> Iterator[Op]:
  """Yields every op of a region in order, each before the ops of its own regions."""
  for op in region.ops:
    yield op
    for inner in op.regions:
      yield from walk(inner)
