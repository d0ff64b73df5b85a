"""Converts graphs and functions back to messages; the inverse of `graftax.graphdef_ir.parse`.

>>> node = Node("y", "Split", (TensorRef("axis"), TensorRef("x", 1)), ("c",), {"num_split": 2})
>>> list(node_to_proto(node).input)
['axis', 'x:1', '^c']
"""

from collections.abc import Callable

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import attr_to_proto
from graftax.graphdef_ir.errors import DanglingInputError, GraphError, OutputIndexError, UnknownOpError
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, Graph, Node, Parameter, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.shapes import shape_to_proto
from graftax.graphdef_ir.signatures import OpArg, OpAttr, OpSignature, OpSignatures

__all__ = ["function_to_proto", "graph_to_proto", "node_to_proto", "signature_to_proto"]


def graph_to_proto(graph: Graph) -> schema.GraphDef:
  """Returns the GraphDef of a graph, with all functions of its library.

  Unchanged functions are written as they were read.

  Raises:
    GraphError: for the reasons listed at `function_to_proto`.

  Example:
    >>> from graftax.graphdef_ir import parse_graph
    >>> message = graph_to_proto(parse_graph(b'node { name: "x" op: "NoOp" }'))
    >>> [node.name for node in message.node]
    ['x']
  """
  message = schema.GraphDef(node=[node_to_proto(node) for node in graph.nodes])
  message.versions.producer = graph.producer
  library = graph.library
  for name in library:
    stored = library.stored_message(name)
    if stored is None:
      stored = function_to_proto(library[name], library, signatures=graph.signatures)
    message.library.function.append(stored)
  for function, gradient in library.gradient_functions.items():
    message.library.gradient.add(function_name=function, gradient_func=gradient)
  for op_type, gradient in library.registered_gradients.items():
    message.library.registered_gradients.add(registered_op_type=op_type, gradient_func=gradient)
  return message


def node_to_proto(node: Node) -> schema.NodeDef:
  """Returns the NodeDef of a node in a graph. (In a function, inputs are written differently.)

  Example:
    >>> from graftax.graphdef_ir import Node, TensorRef
    >>> list(node_to_proto(Node("y", "Neg", (TensorRef("split", 1),), control_inputs=("init",))).input)
    ['split:1', '^init']
  """
  return _node_to_proto(node, [str(ref) for ref in node.inputs])


def function_to_proto(
  function: Function, library: FunctionLibrary | None = None, *, signatures: OpSignatures | None = None
) -> schema.FunctionDef:
  """Returns the FunctionDef of a function.

  Args:
    function: the function.
    library: the functions that it can call; needed if its body uses their names as ops.
    signatures: signatures of all ops; TensorFlow's if None.

  Raises:
    UnknownOpError: an input comes from an op of unknown signature, so the output's name is unknown.
    DanglingInputError: an input names a node that does not exist.
    OutputIndexError: an input names an output that its node does not have.

  Example:
    >>> from graftax.graphdef_ir import DType, Function, Node, Parameter, Result, TensorRef
    >>> node = Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT})
    >>> function = Function("f", (Parameter("x", DType.FLOAT),), (Result("out", TensorRef("y"), DType.FLOAT),), (node,))
    >>> dict(function_to_proto(function).ret)
    {'out': 'y:y:0'}
  """
  namer = _BodyNamer(function, _finder(library, signatures))
  message = schema.FunctionDef()
  message.signature.name = function.name
  message.signature.is_stateful = function.is_stateful
  for index, parameter in enumerate(function.parameters):
    _add_parameter(message, index, parameter)
  for result in function.results:
    dtype = 0 if result.type_attr else int(result.dtype)
    message.signature.output_arg.add(name=result.name, type=dtype, type_attr=result.type_attr or "")
    message.ret[result.name] = namer.name(result.ref)
  for name in function.control_results:
    message.signature.control_output.append(name)
    message.control_ret[name] = name
  for node in function.nodes:
    message.node_def.append(_node_to_proto(node, [namer.name(ref) for ref in node.inputs]))
  for name, value in function.attrs.items():
    message.attr[name].CopyFrom(attr_to_proto(value))
  return message


def _node_to_proto(node: Node, inputs: list[str]) -> schema.NodeDef:
  message = schema.NodeDef(name=node.name, op=node.op, device=node.device)
  message.input.extend([*inputs, *(f"^{name}" for name in node.control_inputs)])
  for name, value in node.attrs.items():
    message.attr[name].CopyFrom(attr_to_proto(value))
  if node.source is not None:
    message.experimental_debug_info.original_node_names.extend(node.source.node_names)
    message.experimental_debug_info.original_func_names.extend(node.source.function_names)
  return message


def _add_parameter(message: schema.FunctionDef, index: int, parameter: Parameter) -> None:
  dtype = 0 if parameter.type_attr else int(parameter.dtype)
  arg = message.signature.input_arg.add(name=parameter.name, type=dtype, type_attr=parameter.type_attr or "")
  if parameter.handle_spec is not None:
    spec = parameter.handle_spec
    arg.handle_data.add(dtype=int(spec.dtype), shape=shape_to_proto(spec.shape))
  for name, value in parameter.attrs.items():
    message.arg_attr[index].attr[name].CopyFrom(attr_to_proto(value))
  if parameter.shape.dims is not None and "_output_shapes" not in parameter.attrs:
    message.arg_attr[index].attr["_output_shapes"].list.shape.append(shape_to_proto(parameter.shape))


def _finder(library: FunctionLibrary | None, signatures: OpSignatures | None) -> Callable[[str], OpSignature | None]:
  known = OpSignatures() if signatures is None else signatures

  def find(op: str) -> OpSignature | None:
    return (library.signature(op) if library is not None else None) or known.get(op)

  return find


class _BodyNamer:
  """Writes refs as in a FunctionDef: "argument" or "node:output_arg:index"."""

  def __init__(self, function: Function, find_signature: Callable[[str], OpSignature | None]) -> None:
    self._where = f"function {function.name!r}"
    self._parameters = {parameter.name for parameter in function.parameters}
    self._nodes = {node.name: node for node in function.nodes}
    self._find_signature = find_signature
    self._names: dict[TensorRef, str] = {}

  def name(self, ref: TensorRef) -> str:
    if ref not in self._names:
      self._names[ref] = self._spell(ref)
    return self._names[ref]

  def _spell(self, ref: TensorRef) -> str:
    if ref.node in self._parameters and ref.index == 0:
      return ref.node
    node = self._nodes.get(ref.node)
    if node is None:
      raise DanglingInputError(f"{self._where}: {str(ref)!r} names none of the {len(self._nodes)} nodes.")
    signature = self._find_signature(node.op)
    if signature is None or ref.index == UNRESOLVED_OUTPUT:
      raise UnknownOpError(
        f"{self._where}: the outputs of node {node.name!r} are unknown, because op {node.op!r} has no known signature."
      )
    try:
      offsets = signature.output_offsets(node.attrs)
    except GraphError as e:
      raise type(e)(f"{self._where}, node {node.name!r}: {e}") from e
    for argument, (start, size) in offsets.items():
      if start <= ref.index < start + size:
        return f"{ref.node}:{argument}:{ref.index - start}"
    raise OutputIndexError(f"{self._where}: {str(ref)!r}: op {node.op!r} has no such output.")


def signature_to_proto(signature: OpSignature) -> schema.OpDef:
  """Returns the OpDef of an op, from which `signature_from_op_def` reads the signature again.

  Example:
    >>> from graftax.graphdef_ir import op_signature
    >>> [argument.name for argument in signature_to_proto(op_signature("MatMul")).input_arg]
    ['a', 'b']
  """
  return schema.OpDef(
    name=signature.name,
    input_arg=[_arg_to_proto(arg) for arg in signature.inputs],
    output_arg=[_arg_to_proto(arg) for arg in signature.outputs],
    attr=[_attr_def_to_proto(attr) for attr in signature.attrs.values()],
    is_stateful=signature.is_stateful,
    is_commutative=signature.is_commutative,
  )


def _arg_to_proto(arg: OpArg) -> "schema.OpDef.ArgDef":
  return schema.OpDef.ArgDef(
    name=arg.name,
    type=0 if arg.dtype is None else arg.dtype.value,
    type_attr=arg.type_attr or "",
    number_attr=arg.number_attr or "",
    type_list_attr=arg.type_list_attr or "",
    is_ref=arg.is_ref,
  )


def _attr_def_to_proto(attr: OpAttr) -> "schema.OpDef.AttrDef":
  message = schema.OpDef.AttrDef(name=attr.name, type=attr.type)
  if attr.default is not None:
    message.default_value.CopyFrom(attr_to_proto(attr.default))
  if attr.allowed is not None:
    message.allowed_values.CopyFrom(attr_to_proto(attr.allowed))
  if attr.minimum is not None:
    message.has_minimum, message.minimum = True, attr.minimum
  return message
