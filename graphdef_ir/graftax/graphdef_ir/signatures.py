"""Signatures of ops: arguments, element types, attributes and their defaults.

    >>> signature = op_signature("Split")
    >>> [str(arg) for arg in signature.inputs], [str(arg) for arg in signature.outputs]
    (['split_dim: int32', 'value: T'], ['output: num_split * T'])
    >>> signature.output_sizes({"num_split": 3})
    (3,)

The signatures of all ops that TensorFlow registers come from `op_signatures.txt`, which
graftax/tools/codegen/generate_op_table.py writes. A line is parsed when its op is first looked up.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from graftax.graphdef_ir import _op_table, schema
from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, attr_from_proto
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  AttributeValueError,
  MissingAttributeError,
  ParseError,
  UnboundAttributeError,
  UnknownOpError,
)
from graftax.graphdef_ir.type_runs import TypeRuns

__all__ = ["OpArg", "OpAttr", "OpSignature", "OpSignatures", "op_signature", "signature_from_op_def", "table_signature"]

# Far more tensors than any op has. Attributes such as num_split=2**40 must not be trusted.
_MAX_FLAT_TENSORS = 1 << 20


@dataclass(frozen=True, slots=True)
class OpArg:
  """An input or output argument. Exactly one of `dtype`, `type_attr` and `type_list_attr` gives its element type."""

  name: str
  dtype: DType | None = None
  type_attr: str | None = None
  number_attr: str | None = None
  type_list_attr: str | None = None
  is_ref: bool = False

  @property
  def is_list(self) -> bool:
    """Returns whether the argument is a list of tensors."""
    return self.number_attr is not None or self.type_list_attr is not None

  def __str__(self) -> str:
    kind = self.type_list_attr or self.type_attr or str(self.dtype)
    kind = f"Ref({kind})" if self.is_ref else kind
    return f"{self.name}: {self.number_attr} * {kind}" if self.number_attr else f"{self.name}: {kind}"


@dataclass(frozen=True, slots=True)
class OpAttr:
  """An attribute: its `type` as in OpDefs (`"int"`, `"list(type)"`), default, allowed values and minimum.

  `default` is None if there is none (no attribute value is None). `minimum` applies to the number, or to the
  length of a list.
  """

  name: str
  type: str
  default: AttrValue | None = None
  allowed: tuple[AttrValue, ...] | None = None
  minimum: int | None = None


@dataclass(frozen=True, slots=True)
class OpSignature:
  """The declaration of one op."""

  name: str
  inputs: tuple[OpArg, ...] = ()
  outputs: tuple[OpArg, ...] = ()
  attrs: Mapping[str, OpAttr] = field(default_factory=dict)
  is_stateful: bool = False
  is_commutative: bool = False

  def __hash__(self) -> int:
    return hash(self.name)

  def with_defaults(self, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """Returns `attrs`, completed with the defaults of those that are missing."""
    defaults = {name: attr.default for name, attr in self.attrs.items() if attr.default is not None}
    return {**defaults, **attrs}

  def input_sizes(self, attrs: Mapping[str, AttrValue]) -> tuple[int, ...]:
    """Returns the number of tensors of each input argument: 1, or what the attributes say if `is_list`.

    Raises:
      MissingAttributeError: an attribute that gives a length is missing.
      AttributeValueError: such an attribute is not a length.
      UnboundAttributeError: such an attribute refers to one of the enclosing function and has no value yet.
    """
    return tuple(self._size(arg, attrs) for arg in self.inputs)

  def output_sizes(self, attrs: Mapping[str, AttrValue]) -> tuple[int, ...]:
    """Returns the number of tensors of each output argument; raises as `input_sizes` does."""
    return tuple(self._size(arg, attrs) for arg in self.outputs)

  def num_outputs(self, attrs: Mapping[str, AttrValue]) -> int:
    """Returns the number of flat outputs; raises as `input_sizes` does."""
    return sum(self._size(arg, attrs) for arg in self.outputs)

  def input_types(self, attrs: Mapping[str, AttrValue]) -> TypeRuns:
    """Returns the element type of each flat input, without reference marks; raises as `input_sizes` does."""
    return self._types(self.inputs, attrs)

  def output_types(self, attrs: Mapping[str, AttrValue]) -> TypeRuns:
    """Returns the element type of each flat output; raises as `input_sizes` does."""
    return self._types(self.outputs, attrs)

  def output_offsets(self, attrs: Mapping[str, AttrValue]) -> dict[str, tuple[int, int]]:
    """Returns, for each output argument by name, the flat index of its first tensor and the number of its tensors."""
    offsets, start = {}, 0
    for arg, size in zip(self.outputs, self.output_sizes(attrs), strict=True):
      offsets[arg.name] = (start, size)
      start += size
    return offsets

  def _size(self, arg: OpArg, attrs: Mapping[str, AttrValue]) -> int:
    if arg.number_attr is not None:
      size = self._attr(arg.number_attr, attrs)
    elif arg.type_list_attr is not None:
      types = self._attr(arg.type_list_attr, attrs)
      size = len(types) if isinstance(types, tuple) else -1
    else:
      return 1
    if not isinstance(size, int) or not 0 <= size <= _MAX_FLAT_TENSORS:
      attr = arg.number_attr or arg.type_list_attr
      raise AttributeValueError(
        f"{self.name}: attribute {attr!r} is {attrs.get(attr or '')!r}; expected the number of tensors of "
        f"argument {arg.name!r}, 0 to {_MAX_FLAT_TENSORS}."
      )
    return size

  def _types(self, args: Iterable[OpArg], attrs: Mapping[str, AttrValue]) -> TypeRuns:
    runs: list[tuple[DType, int]] = []
    for arg in args:
      size = self._size(arg, attrs)
      if arg.type_list_attr is not None:
        types = self._attr(arg.type_list_attr, attrs)
        runs += [
          (self._as_dtype(dtype, arg.type_list_attr), 1) for dtype in (types if isinstance(types, tuple) else ())
        ]
      elif arg.dtype is not None:
        runs.append((arg.dtype.base, size))
      else:
        runs.append((self._as_dtype(self._attr(arg.type_attr or "", attrs), arg.type_attr or ""), size))
    return TypeRuns(tuple(runs))

  def _as_dtype(self, value: AttrValue, attr: str) -> DType:
    if not isinstance(value, DType):
      raise AttributeValueError(f"{self.name}: attribute {attr!r} is {value!r}; expected an element type.")
    return value.base

  def _attr(self, name: str, attrs: Mapping[str, AttrValue]) -> AttrValue:
    value = attrs.get(name)
    if value is None and name in self.attrs:
      value = self.attrs[name].default
    if value is None:
      raise MissingAttributeError(f"{self.name}: attribute {name!r} is missing and has no default.")
    if isinstance(value, AttrPlaceholder):
      raise UnboundAttributeError(
        f"{self.name}: attribute {name!r} is the placeholder ${value.name}; bind the function's attributes first."
      )
    return value


class OpSignatures(Mapping[str, OpSignature]):
  """Signatures by op name: TensorFlow's own, plus `extra` ones for ops that TensorFlow does not have.

  The table has precedence over `extra`, as in TensorFlow the installed op has precedence over a SavedModel's.
  """

  __slots__ = ("_extra",)

  def __init__(self, extra: Iterable[OpSignature] = ()) -> None:
    self._extra = {signature.name: signature for signature in extra}

  @classmethod
  def from_op_list(cls, message: schema.OpList) -> "OpSignatures":
    """Returns the table plus the ops of an OpList, such as a SavedModel's `stripped_op_list`.

    Raises:
      ParseError: an OpDef is malformed.
    """
    return cls(signature_from_op_def(op) for op in message.op if not _op_table.has(op.name))

  def __getitem__(self, name: str) -> OpSignature:
    found = self.get(name)
    if found is None:
      raise _unknown(name, [*_op_table.names(), *self._extra])
    return found

  def get(self, name: str, default: OpSignature | None = None) -> OpSignature | None:  # type: ignore[override]
    """Returns the signature, or `default` if the op is unknown.

    Args:
      name: the name of an op of TensorFlow, or of one that was declared besides.
      default: what to return if neither knows the op.
    """
    return table_signature(name) or self._extra.get(name, default)

  def __contains__(self, name: object) -> bool:
    return isinstance(name, str) and (name in self._extra or _op_table.has(name))

  def __iter__(self) -> Iterator[str]:
    yield from _op_table.names()
    yield from (name for name in self._extra if not _op_table.has(name))

  def __len__(self) -> int:
    return sum(1 for _ in self)

  def __repr__(self) -> str:
    return f"OpSignatures({len(_op_table.names())} of TensorFlow, {len(self._extra)} extra)"

  def __reduce__(self) -> tuple[type["OpSignatures"], tuple[tuple[OpSignature, ...]]]:
    return OpSignatures, (tuple(self._extra.values()),)


def op_signature(name: str) -> OpSignature:
  """Returns the signature of one of TensorFlow's ops.

  Raises:
    UnknownOpError: TensorFlow has no op of that name; the message suggests similar names.

  Example:
    >>> [argument.name for argument in op_signature("MatMul").inputs]
    ['a', 'b']
  """
  found = table_signature(name)
  if found is None:
    raise _unknown(name, list(_op_table.names()))
  return found


def signature_from_op_def(message: schema.OpDef) -> OpSignature:
  """Returns the signature that an OpDef declares, of an op or of a function.

  Raises:
    ParseError: an argument has no element type, or a default is malformed.
  """
  try:
    return OpSignature(
      name=message.name,
      inputs=tuple(_arg_from_proto(arg) for arg in message.input_arg),
      outputs=tuple(_arg_from_proto(arg) for arg in message.output_arg),
      attrs={attr.name: _attr_def_from_proto(attr) for attr in message.attr},
      is_stateful=message.is_stateful,
      is_commutative=message.is_commutative,
    )
  except ParseError as e:
    raise ParseError(f"signature of {message.name!r}: {e}") from e


def _arg_from_proto(message: "schema.OpDef.ArgDef") -> OpArg:
  if not (message.type or message.type_attr or message.type_list_attr):
    raise ParseError(f"argument {message.name!r} has no type; expected type, type_attr or type_list_attr.")
  try:
    dtype = DType(message.type) if message.type else None
  except ValueError:
    raise ParseError(f"argument {message.name!r}: dtype number {message.type} is unknown.") from None
  return OpArg(
    name=message.name,
    dtype=dtype,
    type_attr=message.type_attr or None,
    number_attr=message.number_attr or None,
    type_list_attr=message.type_list_attr or None,
    is_ref=message.is_ref,
  )


def _attr_def_from_proto(message: "schema.OpDef.AttrDef") -> OpAttr:
  allowed = attr_from_proto(message.allowed_values) if message.HasField("allowed_values") else None
  return OpAttr(
    name=message.name,
    type=message.type,
    default=attr_from_proto(message.default_value) if message.HasField("default_value") else None,
    allowed=allowed if isinstance(allowed, tuple) else None,
    minimum=message.minimum if message.has_minimum else None,
  )


@functools.cache
def table_signature(name: str) -> OpSignature | None:
  """Returns the signature of one of TensorFlow's ops, always the same object; None if it has no such op."""
  entry = _op_table.entry(name)
  if entry is None:
    return None
  return OpSignature(
    name=name,
    inputs=tuple(OpArg(**arg) for arg in entry["inputs"]),
    outputs=tuple(OpArg(**arg) for arg in entry["outputs"]),
    attrs={attr["name"]: OpAttr(**attr) for attr in entry["attrs"]},
    is_stateful=entry["is_stateful"],
    is_commutative=entry["is_commutative"],
  )


def _unknown(name: str, known: list[str]) -> UnknownOpError:
  import difflib

  similar = difflib.get_close_matches(name, known, n=3)
  hint = (
    f"Did you mean {', '.join(similar)}?"
    if similar
    else "Pass the op's OpDef, as in parse_graph(data, extra_ops=OpList)."
  )
  return UnknownOpError(f"op {name!r} has no known signature. {hint}")
