"""StableHLO as frozen Python data without references to MLIR objects, so that threads can share it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

__all__ = [
  "Attribute",
  "Attributes",
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


_T = TypeVar("_T")


class Attributes(dict[str, "Attribute"]):
  """Attributes by name: of an op, of a function or of a module, or the fields of a struct such as `#stablehlo.gather`.

  Each method returns an attribute of one kind. It raises TypeError if the attribute is of another kind, and KeyError if
  there is none and no default; lifting reports both with the op.

  Example:
    >>> Attributes(dimension=1, sizes=(2, 3)).integers("sizes")
    (2, 3)
  """

  __slots__ = ()

  def boolean(self, name: str, default: bool | None = None) -> bool:
    """Returns a boolean.

    Args:
      name: the name of the attribute.
      default: the result if there is no such attribute; None raises KeyError instead.
    """
    return self._one(name, bool, default)

  def integer(self, name: str, default: int | None = None) -> int:
    """Returns an integer; a boolean counts as one, as in Python.

    Args:
      name: the name of the attribute.
      default: the result if there is no such attribute; None raises KeyError instead.
    """
    return self._one(name, int, default)

  def real(self, name: str) -> float:
    return self._one(name, float, None)

  def text(self, name: str, default: str | None = None) -> str:
    """Returns a string, or the name of a function.

    Args:
      name: the name of the attribute.
      default: the result if there is no such attribute; None raises KeyError instead.
    """
    return self._one(name, str, default)

  def fields(self, name: str, default: "Attributes | None" = None) -> "Attributes":
    """Returns a struct or a dictionary.

    Args:
      name: the name of the attribute.
      default: the result if there is no such attribute; None raises KeyError instead.
    """
    return self._one(name, Attributes, default)

  def all_fields(self, name: str, num_missing: int = 0) -> tuple["Attributes", ...]:
    """Returns a list of structs or dictionaries; if there is none, empty ones of the given number.

    Args:
      name: the name of the attribute, a list.
      num_missing: how many empty structs to return if the attribute is missing or an empty list.
    """
    return self._several(name, Attributes, ()) or (Attributes(),) * num_missing

  def function(self, name: str) -> Callable[..., Any]:
    """Returns a function, which only ops that recognition of patterns makes have.

    Raises:
      TypeError: the attribute is of another kind.
      KeyError: there is no such attribute.
    """
    value = self[name]
    if not callable(value):
      raise self._other_kind(name, "a function")
    return value

  def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Returns a list of strings as a tuple.

    Args:
      name: the name of the attribute.
      default: the result if there is no such attribute; None raises KeyError instead.
    """
    return self._several(name, str, default)

  def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Returns a list of integers or of booleans, or the elements of an array of them in row-major order.

    Args:
      name: the name of the attribute.
      default: the result if there is no such attribute; None raises KeyError instead.
    """
    value = self[name] if default is None else self.get(name, default)
    if isinstance(value, np.ndarray) and (value.dtype.kind in "iub" or not value.size):
      return tuple(map(int, value.reshape(-1)))
    return self._several(name, int, default)

  def maybe_array(self, name: str) -> np.ndarray | None:
    """Returns an array; None for the constant of a type without a counterpart in NumPy.

    Raises:
      TypeError: the attribute is of another kind.
      KeyError: there is no such attribute.
    """
    value = self[name]
    if value is not None and not isinstance(value, np.ndarray):
      raise self._other_kind(name, "an array")
    return value

  def pairs(self, name: str, num_pairs: int) -> tuple[tuple[int, int], ...]:
    """Returns an array of two columns as pairs; as many pairs of zeros if there is none.

    Args:
      name: the name of the attribute, an integer array of shape `[num_pairs, 2]`, such as the (low, high) padding.
      num_pairs: how many pairs of zeros to return if the attribute is missing. The number of rows is not checked.

    Raises:
      TypeError: the attribute is not an array of two columns.
    """
    value = self.get(name)
    if value is None:
      return ((0, 0),) * num_pairs
    if not isinstance(value, np.ndarray) or value.shape[1:] != (2,):
      raise self._other_kind(name, "pairs of integers")
    return tuple((int(low), int(high)) for low, high in value)

  def _one(self, name: str, kind: type[_T], default: _T | None) -> _T:
    value = self[name] if default is None else self.get(name, default)
    if not isinstance(value, kind):
      raise self._other_kind(name, kind.__name__)
    return value

  def _several(self, name: str, kind: type[_T], default: tuple[_T, ...] | None) -> tuple[_T, ...]:
    values = self[name] if default is None else self.get(name, default)
    found = tuple([value for value in values if isinstance(value, kind)]) if isinstance(values, tuple) else ()
    if not isinstance(values, tuple) or len(found) != len(values):
      raise self._other_kind(name, f"a list of {kind.__name__}")
    return found

  def _other_kind(self, name: str, wanted: str) -> TypeError:
    return TypeError(f"attribute {name!r} is {str(self[name])[:100]!r}; expected {wanted}.")


# Dense elements are numpy arrays, structs and dictionaries are `Attributes`. The constant of a type without a
# counterpart in NumPy is None. Functions are only in ops that recognition of patterns makes.
Attribute: TypeAlias = (
  None
  | bool
  | int
  | float
  | complex
  | str
  | bytes
  | np.ndarray
  | np.dtype
  | Type
  | Callable[..., Any]
  | tuple["Attribute", ...]
  | Attributes
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Op:
  """One operation. Values are numbered, and each number is unique in its module."""

  name: str
  operands: tuple[int, ...]
  results: tuple[int, ...]
  types: _Types
  attrs: Attributes
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
  attrs: tuple[Attributes, ...]
  result_types: _Types
  result_attrs: tuple[Attributes, ...]
  is_public: bool

  @property
  def types(self) -> _Types:
    return self.body.types


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ModuleIR:
  """A decoded module: its functions by name, its attributes, and the meshes of its sharding annotations."""

  name: str
  functions: Mapping[str, Function]
  attrs: Attributes
  meshes: Mapping[str, Attribute]

  @property
  def main(self) -> Function:
    return self.functions["main"]


def walk(region: Region) -> Iterator[Op]:
  """Yields every op of a region in order, each before the ops of its own regions."""
  for op in region.ops:
    yield op
    for inner in op.regions:
      yield from walk(inner)
