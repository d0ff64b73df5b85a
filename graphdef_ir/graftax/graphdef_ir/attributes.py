"""Attribute values of nodes, functions and function arguments.

`AttrValue` is the union of everything an attribute can be. Lists are tuples, strings are bytes, types are `DType`.

    >>> attr_from_proto(schema.AttrValue(list=schema.AttrValue.ListValue(i=[1, 2])))
    (1, 2)
    >>> attr_from_proto(schema.AttrValue(placeholder="T"))
    AttrPlaceholder(name='T')
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.budget import Budget
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import ParseError
from graftax.graphdef_ir.shapes import PartialShape, shape_from_proto, shape_to_proto
from graftax.graphdef_ir.tensors import Tensor

__all__ = [
  "AttrDecoder",
  "AttrPlaceholder",
  "AttrValue",
  "FunctionRef",
  "attr_from_proto",
  "attr_to_proto",
  "attrs_from_proto",
]

# Function attributes can hold function attributes. Real graphs nest them two or three deep.
_MAX_DEPTH = 32

_MAX_REMEMBERED_BYTES = 256


@dataclass(frozen=True, slots=True)
class FunctionRef:
  """A function by name, with the attributes it is called with."""

  name: str
  attrs: "Mapping[str, AttrValue]" = field(default_factory=dict)

  def __hash__(self) -> int:
    return hash(self.name)


@dataclass(frozen=True, slots=True)
class AttrPlaceholder:
  """Placeholder for the attribute `name` of the enclosing function (written `$name`)."""

  name: str


AttrValue: TypeAlias = (
  bytes | int | float | bool | DType | PartialShape | Tensor | FunctionRef | AttrPlaceholder | tuple["AttrValue", ...]
)
"""The value of an attribute of a node. A string is `bytes`, as in the file, and a list is a tuple."""


class AttrDecoder:
  """Decodes attributes, and returns the same object for equal ones.

  A model with thousands of nodes has a few dozen different types, shapes and flags; looking the encoded value up is
  several times faster than decoding it, and keeps the garbage collector quiet.
  """

  __slots__ = ("_budget", "_graph_bytes", "_known", "_known_notes")

  def __init__(self, budget: Budget | None = None, graph_bytes: Callable[[], int] = lambda: 0) -> None:
    """Creates a decoder.

    Args:
      budget: limits what constants of few values expand to.
      graph_bytes: returns the size of the graph, which takes time.
    """
    self._known: dict[bytes, AttrValue | None] = {}
    self._known_notes: dict[bytes, AttrValue | None] = {}
    self._budget = Budget.of(budget)
    self._graph_bytes = graph_bytes

  def attrs(self, messages: Mapping[str, schema.AttrValue]) -> dict[str, AttrValue]:
    """Returns what `attrs_from_proto` returns, with shared values.

    Raises:
      ParseError: an attribute cannot be decoded; the message names it.
      LimitExceededError: constants expand to more than the budget allows.
    """
    decoded = {}
    for name in sorted(messages):
      message = messages[name]
      # Other dicts for notes, because the same value counts under another name.
      known = self._known_notes if name[:1] == "_" else self._known
      try:
        size = message.ByteSize()
        if size > _MAX_REMEMBERED_BYTES:
          value = _decoded(name, message)
        else:
          key = message.SerializeToString()
          try:
            value = known[key]
          except KeyError:
            value = known[key] = _decoded(name, message)
        if value is None:
          continue
        decoded[name] = value
        if value.__class__ is Tensor and (expanded := value.expanded_bytes(size)):
          where = f"{value!r} of few values, one of the graph's constants,"
          self._budget.spend_unpacked_bytes(expanded, self._graph_bytes(), where)
      except ParseError as e:
        raise ParseError(f"attribute {name!r}: {e}") from e
    return decoded


def attrs_from_proto(messages: Mapping[str, schema.AttrValue], depth: int = 0) -> dict[str, AttrValue]:
  """Returns a dict of decoded values, sorted by name, since a message map is not ordered.

  Raises:
    ParseError: an attribute cannot be decoded; the message names it.
  """
  decoded = {}
  for name in sorted(messages):
    try:
      value = _decoded(name, messages[name], depth)
    except ParseError as e:
      raise ParseError(f"attribute {name!r}: {e}") from e
    if value is not None:
      decoded[name] = value
  return decoded


def _decoded(name: str, message: schema.AttrValue, depth: int = 0) -> AttrValue | None:
  """Returns the value of an attribute, or None if it is a note without meaning here."""
  return None if name[:1] == "_" and _is_empty_note(message) else attr_from_proto(message, depth)


def _is_empty_note(message: schema.AttrValue) -> bool:
  """Returns whether an attribute whose name begins with "_" is a note of TensorFlow without meaning here.

  It is an empty `_input_shapes`, as of functions without parameters, or one with the numbers below -1 by which Grappler
  tells unknown sizes that are equal.
  """
  kind = message.WhichOneof("value")
  shapes = message.list.shape if kind == "list" else [message.shape] if kind == "shape" else ()
  # Not a generator: most functions have such notes, and most of these are long.
  for shape in shapes:
    for dim in shape.dim:
      if dim.size < -1:
        return True
  return kind is None


def attr_from_proto(message: schema.AttrValue, depth: int = 0) -> AttrValue:
  """Returns one decoded value.

  Raises:
    ParseError: no value is set, a list mixes kinds, or a value is not valid.
  """
  kind = message.WhichOneof("value")
  if kind in _PLAIN_KINDS:
    value: AttrValue = getattr(message, kind)
    return value
  if kind == "type":
    return _dtype(message.type)
  if kind == "list":
    return _list_from_proto(message.list, depth)
  if kind == "placeholder":
    return AttrPlaceholder(message.placeholder)
  if kind == "func":
    return _function_ref(message.func, depth)
  if kind is None:
    raise ParseError("has no value; expected one of s, i, f, b, type, shape, tensor, list, func, placeholder.")
  return _ELEMENT_DECODERS[kind](getattr(message, kind))


def attr_to_proto(value: AttrValue) -> schema.AttrValue:
  """Returns the message for a value; the inverse of `attr_from_proto`.

  Raises:
    TypeError: `value` is not an AttrValue.
  """
  if isinstance(value, tuple):
    lists = schema.AttrValue.ListValue()
    for element in value:
      kind, encoded = _encode(element)
      getattr(lists, kind).append(encoded)
    return schema.AttrValue(list=lists)
  kind, encoded = _encode(value)
  return schema.AttrValue(**{kind: encoded})


def _dtype(number: int) -> DType:
  try:
    return _DTYPES[number]
  except KeyError:
    raise ParseError(f"dtype number {number} is unknown.") from None


def _function_ref(message: schema.NameAttrList, depth: int) -> FunctionRef:
  if depth > _MAX_DEPTH:
    raise ParseError(f"functions with attributes are nested more than {_MAX_DEPTH} deep.")
  return FunctionRef(message.name, attrs_from_proto(message.attr, depth + 1))


def _list_from_proto(message: schema.AttrValue.ListValue, depth: int) -> tuple[AttrValue, ...]:
  fields = message.ListFields()
  if not fields:
    return ()
  if len(fields) > 1:
    raise ParseError(f"list mixes {sorted(descriptor.name for descriptor, _ in fields)}; expected one kind.")
  descriptor, elements = fields[0]
  kind = descriptor.name
  if kind in _PLAIN_KINDS:
    return tuple(elements)
  if kind == "func":
    return tuple(_function_ref(element, depth) for element in elements)
  return tuple(map(_ELEMENT_DECODERS[kind], elements))


def _encode(value: AttrValue) -> tuple[str, Any]:
  match value:
    case bool():
      return "b", value
    case DType():
      return "type", int(value)
    case int():
      return "i", value
    case float():
      return "f", value
    case bytes():
      return "s", value
    case PartialShape():
      return "shape", shape_to_proto(value)
    case Tensor():
      return "tensor", value.to_proto()
    case AttrPlaceholder():
      return "placeholder", value.name
    case FunctionRef():
      message = schema.NameAttrList(name=value.name)
      for name, attr in value.attrs.items():
        message.attr[name].CopyFrom(attr_to_proto(attr))
      return "func", message
  raise TypeError(f"attribute value {value!r} of type {type(value).__name__}; expected one of the AttrValue types.")


_PLAIN_KINDS = frozenset("sifb")
_DTYPES = {int(dtype): dtype for dtype in DType}
_ELEMENT_DECODERS: dict[str, Callable[[Any], AttrValue]] = {
  "type": _dtype,
  "shape": shape_from_proto,
  "tensor": Tensor.from_proto,
}
