"""GraphDef and FunctionDef messages to graphs.

    >>> graph = parse_graph(schema.GraphDef(node=[schema.NodeDef(name="x", op="NoOp")]).SerializeToString())
    >>> graph.nodes[0].name
    'x'

Parsing ignores problems that it can: unknown ops, missing functions and dangling inputs are reported by `validate`, or
when they are needed. Damaged bytes and contradictory values raise at once.
"""

import collections
import dataclasses
import functools
from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from graftax.graphdef_ir import schema
from graftax.graphdef_ir._function_names import BodyNames
from graftax.graphdef_ir.attributes import AttrDecoder, attrs_from_proto
from graftax.graphdef_ir.budget import Budget, Limits
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  DuplicateNameError,
  FunctionResultError,
  GraphError,
  ParseError,
  UnsupportedFunctionError,
)
from graftax.graphdef_ir.graph import Function, Graph, Node, NodeOrigin, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.op_traits import traits_of
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec, shape_from_proto
from graftax.graphdef_ir.signatures import OpSignature, OpSignatures
from graftax.graphdef_ir.text_form import is_text_form, parse_text_form

__all__ = [
  "SupportsSerialization",
  "function_from_proto",
  "graph_from_proto",
  "parse_function",
  "parse_graph",
  "parse_message",
]

# The pure-Python implementation of protobuf also raises the last two.
_DAMAGED = (schema.DecodeError, ValueError, RecursionError)

# TensorFlow's importer does the same: older producers wrote shape [] for a placeholder of unknown rank.
_FIRST_PRODUCER_WITH_SCALAR_PLACEHOLDERS = 24

_Message = TypeVar("_Message", bound=schema.Message)


class SupportsSerialization(Protocol):
  """Any protobuf message, in particular TensorFlow's own."""

  def SerializeToString(self) -> bytes: ...


def parse_graph(
  data: bytes, *, extra_ops: bytes | schema.OpList | None = None, limits: Limits | Budget | None = None
) -> Graph:
  """Returns the graph of a GraphDef, serialized or in text form.

  Args:
    data: the bytes, as in a frozen `.pb` or `.pbtxt` file.
    extra_ops: an OpList (serialized or not) that declares ops that TensorFlow does not have.
    limits: what constants that list few values may expand to; by default `Limits()`.

  Raises:
    LimitExceededError: they expand to more, here or when a function is first used.
    ParseError: the bytes are damaged, or are not a GraphDef.

  Example:
    >>> graph = parse_graph(b'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }')
    >>> graph.node("x").op
    'Placeholder'
  """
  return graph_from_proto(parse_message(schema.GraphDef, data), extra_ops=extra_ops, limits=limits)


def graph_from_proto(
  message: schema.GraphDef | SupportsSerialization,
  *,
  extra_ops: bytes | schema.OpList | None = None,
  limits: Limits | Budget | None = None,
) -> Graph:
  """Returns the graph of a GraphDef message, ours or TensorFlow's. Do not change it: functions are read later.

  Args:
    message: the graph.
    extra_ops: as in `parse_graph`.
    limits: as in `parse_graph`.

  Raises:
    LimitExceededError: constants expand to more than the limits allow.
    ParseError: the message contradicts itself.
    DuplicateNameError: two nodes have the same name.

  Example:
    >>> graph = graph_from_proto(schema.GraphDef(node=[schema.NodeDef(name="x", op="NoOp")]))
    >>> [node.op for node in graph.nodes]
    ['NoOp']
  """
  graph = _as_ours(schema.GraphDef, message)
  signatures = _signatures(extra_ops)

  _check_unique_names(graph.node)
  decoder = AttrDecoder(Budget.of(limits), functools.cache(graph.ByteSize))

  def parse_member(function: schema.FunctionDef) -> Function:
    return _parse_function(function, signatures, library, decoder)

  library = FunctionLibrary.from_protos(graph.library, parse_member)
  nodes, producer = _parse_nodes(graph.node, decoder), graph.versions.producer or graph.version
  if producer < _FIRST_PRODUCER_WITH_SCALAR_PLACEHOLDERS:
    nodes = tuple(map(_with_unknown_rank, nodes))
  return Graph(nodes=nodes, library=library, producer=producer, signatures=signatures)


def parse_function(
  data: bytes, library: FunctionLibrary | None = None, *, extra_ops: bytes | schema.OpList | None = None
) -> Function:
  """Returns the function of a serialized FunctionDef; see `function_from_proto`.

  Args:
    data: a FunctionDef, serialized or in text form.
    library: the functions that it can call; needed if its body uses their names as ops. None is an empty library.
    extra_ops: an OpList (serialized or not) that declares ops that TensorFlow does not have.

  Raises:
    ParseError: the bytes are damaged, are not a FunctionDef, or contradict themselves.
    OutputIndexError: an input names an output that its op does not have.
    UnsupportedFunctionError: a parameter or result is a list of variable length.

  Example:
    >>> parse_function(b'signature { name: "f" } node_def { name: "x" op: "NoOp" }').name
    'f'
  """
  return function_from_proto(parse_message(schema.FunctionDef, data), library, extra_ops=extra_ops)


def function_from_proto(
  message: schema.FunctionDef | SupportsSerialization,
  library: FunctionLibrary | None = None,
  *,
  extra_ops: bytes | schema.OpList | None = None,
) -> Function:
  """Returns the function of a FunctionDef message, ours or TensorFlow's.

  Args:
    message: the function.
    library: the functions that it can call; needed if its body uses their names as ops.
    extra_ops: as in `parse_graph`.

  Raises:
    ParseError: the message contradicts itself.
    OutputIndexError: an input names an output that its op does not have.
    UnsupportedFunctionError: a parameter or result is a list of variable length.
  """
  function = _as_ours(schema.FunctionDef, message)
  library = FunctionLibrary() if library is None else library
  return _parse_function(function, _signatures(extra_ops), library, AttrDecoder(graph_bytes=function.ByteSize))


def parse_message(message_type: type[_Message], data: bytes) -> _Message:
  """Returns a message from bytes that may be damaged or hostile, serialized or in protobuf's text form.

  Args:
    message_type: the class of the message, of our schema.
    data: the bytes. Which of the two forms they have is found by looking at them.

  Raises:
    ParseError: the bytes are not a message of this type.

  Example:
    >>> parse_message(schema.NodeDef, b'name: "x" op: "Const"').op
    'Const'
  """
  if is_text_form(message_type, data):
    return parse_text_form(message_type, data)
  try:
    return message_type.FromString(data)
  except _DAMAGED as e:
    other = _other_message(message_type, data)
    what = "the data is damaged" if other is None else f"the data is a {other}"
    raise ParseError(f"{message_type.__name__}: {len(data)} bytes cannot be parsed ({e}); {what}.") from e


def _other_message(expected: type[_Message], data: bytes) -> str | None:
  """Returns what bytes are that were given in place of another message, and how to read them; None if unknown."""
  model = None if expected is schema.SavedModel else _maybe_message(schema.SavedModel, data)
  if model is not None and model.meta_graphs:
    return "SavedModel, as in saved_model.pb; load its folder with graftax.savedmodel_io.load"
  graph = None if expected is schema.MetaGraphDef else _maybe_message(schema.MetaGraphDef, data)
  if graph is not None and graph.HasField("meta_info_def") and graph.HasField("graph_def"):
    return "MetaGraphDef, as in .meta files; load it with graftax.savedmodel_io.load"
  return None


def _maybe_message(message_type: type[_Message], data: bytes) -> _Message | None:
  try:
    return parse_text_form(message_type, data) if is_text_form(message_type, data) else message_type.FromString(data)
  except (ParseError, *_DAMAGED):
    return None


def _as_ours(message_type: type[_Message], message: _Message | SupportsSerialization) -> _Message:
  if isinstance(message, message_type):
    return message
  return parse_message(message_type, message.SerializeToString())


def _signatures(extra_ops: bytes | schema.OpList | None) -> OpSignatures:
  if extra_ops is None:
    return OpSignatures()
  return OpSignatures.from_op_list(
    parse_message(schema.OpList, extra_ops) if isinstance(extra_ops, bytes) else extra_ops
  )


def _check_unique_names(messages: Collection[schema.NodeDef]) -> None:
  counts = collections.Counter(message.name for message in messages)
  if len(counts) < len(messages):
    name, count = counts.most_common(1)[0]
    raise DuplicateNameError(f"graph: {count} nodes are named {name!r}; expected unique names.")


def _parse_nodes(messages: Iterable[schema.NodeDef], decoder: AttrDecoder) -> tuple[Node, ...]:
  refs: dict[str, TensorRef] = {}
  return tuple(_parse_node(message, refs, decoder) for message in messages)


def _parse_node(message: schema.NodeDef, refs: dict[str, TensorRef], decoder: AttrDecoder) -> Node:
  inputs, control_inputs = [], []
  try:
    for text in message.input:
      ref = refs.get(text)
      if ref is not None:
        inputs.append(ref)
      elif text.startswith("^"):
        control_inputs.append(text[1:])
      else:
        ref = refs[text] = TensorRef.parse(text)
        inputs.append(ref)
    return _make_node(message, tuple(inputs), tuple(control_inputs), decoder)
  except ParseError as e:
    raise ParseError(f"node {message.name!r} ({message.op}): {e}") from e


def _with_unknown_rank(node: Node) -> Node:
  if traits_of(node.op).makes != "placeholder" or node.attrs.get("shape") != PartialShape(()):
    return node
  return dataclasses.replace(node, attrs={**node.attrs, "shape": PartialShape(None)})


def _make_node(
  message: schema.NodeDef, inputs: tuple[TensorRef, ...], control_inputs: tuple[str, ...], decoder: AttrDecoder
) -> Node:
  source = None
  if message.HasField("experimental_debug_info"):
    info = message.experimental_debug_info
    source = NodeOrigin(tuple(info.original_node_names), tuple(info.original_func_names))
  return Node(message.name, message.op, inputs, control_inputs, decoder.attrs(message.attr), message.device, source)


def _parse_function(
  message: schema.FunctionDef, signatures: OpSignatures, library: FunctionLibrary, decoder: AttrDecoder
) -> Function:
  def find_signature(op: str) -> OpSignature | None:
    return library.signature(op) or signatures.get(op)

  name = message.signature.name
  try:
    parameters = tuple(_parse_parameter(message, index) for index in range(len(message.signature.input_arg)))
    names = BodyNames(message, find_signature)
    nodes = tuple(_parse_body_node(node, names, decoder) for node in message.node_def)
    return Function(
      name=name,
      parameters=parameters,
      results=_parse_results(message, names),
      nodes=nodes,
      control_results=_parse_control_results(message),
      attrs=attrs_from_proto(message.attr),
      is_stateful=message.signature.is_stateful,
    )
  except (GraphError, UnsupportedFunctionError) as e:
    raise type(e)(f"function {name!r}: {e}") from e


def _parse_body_node(message: schema.NodeDef, names: BodyNames, decoder: AttrDecoder) -> Node:
  inputs: list[TensorRef] = []
  control_inputs = []
  try:
    for text in message.input:
      if text.startswith("^"):
        control_inputs.append(text[1:])
      else:
        inputs.extend(names.resolve(text))
    return _make_node(message, tuple(inputs), tuple(control_inputs), decoder)
  except GraphError as e:
    raise type(e)(f"node {message.name!r} ({message.op}): {e}") from e


def _parse_parameter(message: schema.FunctionDef, index: int) -> Parameter:
  arg = message.signature.input_arg[index]
  _refuse_list(arg, "parameter")
  attrs = attrs_from_proto(message.arg_attr[index].attr) if index in message.arg_attr else {}
  shapes = attrs.get("_output_shapes")
  shape = shapes[0] if isinstance(shapes, tuple) and shapes else None
  spec = None
  if arg.handle_data:
    recorded = arg.handle_data[0]
    spec = TensorSpec(shape_from_proto(recorded.shape), _dtype(recorded.dtype))
  elif (types := attrs.get("_handle_dtypes")) and (handle_shapes := attrs.get("_handle_shapes")):
    spec = _old_handle_spec(types, handle_shapes)
  return Parameter(
    name=arg.name,
    dtype=_dtype(arg.type),
    shape=shape if isinstance(shape, PartialShape) else PartialShape(None),
    attrs=attrs,
    handle_spec=spec,
    type_attr=arg.type_attr or None,
  )


def _old_handle_spec(types: object, shapes: object) -> TensorSpec | None:
  """Returns the spec from the two argument attributes that older producers wrote instead of handle_data."""
  match types, shapes:
    case (DType() as dtype, *_), (PartialShape() as shape, *_):
      return TensorSpec(shape, dtype)
  return None


def _parse_results(message: schema.FunctionDef, names: BodyNames) -> tuple[Result, ...]:
  results = []
  for arg in message.signature.output_arg:
    _refuse_list(arg, "result")
    if arg.name not in message.ret:
      raise FunctionResultError(
        f"result {arg.name!r} has no tensor; expected an entry in ret, which has {sorted(message.ret)}."
      )
    refs = names.resolve(message.ret[arg.name])
    if len(refs) != 1:
      raise FunctionResultError(
        f"result {arg.name!r} names {len(refs)} tensors ({message.ret[arg.name]!r}); expected one."
      )
    results.append(Result(arg.name, refs[0], _dtype(arg.type), arg.type_attr or None))
  return tuple(results)


def _parse_control_results(message: schema.FunctionDef) -> tuple[str, ...]:
  """Returns the nodes of control_ret, in the order of the signature if it lists them."""
  declared = [name for name in message.signature.control_output if name in message.control_ret]
  others = sorted(name for name in message.control_ret if name not in declared)
  return tuple(dict.fromkeys(message.control_ret[name] for name in [*declared, *others]))


def _refuse_list(arg: "schema.OpDef.ArgDef", role: str) -> None:
  if arg.number_attr or arg.type_list_attr:
    raise UnsupportedFunctionError(
      f"{role} {arg.name!r} is a list whose length is attribute {arg.number_attr or arg.type_list_attr!r}; "
      "expected one tensor for each parameter and result."
    )


def _dtype(number: int) -> DType:
  try:
    return DType(number)
  except ValueError:
    raise ParseError(f"dtype number {number} is unknown.") from None
