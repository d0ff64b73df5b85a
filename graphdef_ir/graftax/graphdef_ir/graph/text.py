"""Graphs as text, for people and for golden tests.

    >>> node = Node("y", "Mul", (TensorRef("x"), TensorRef("x")), attrs={"T": DType.FLOAT})
    >>> print(Function("square", (Parameter("x", DType.FLOAT),), (Result("y", TensorRef("y"), DType.FLOAT),), (node,)))
    function square(x: float32[unknown rank]) -> (y: float32)
      y = Mul(x, x) {T=float32}
      return y

Nodes keep their order and attributes are sorted by name, so equal graphs give equal text. What differs between
two runs of the same program (attributes that start with an underscore, large values) is left out.
"""

from collections.abc import Iterator, Mapping

from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraftaxError
from graftax.graphdef_ir.graph.graph import Graph
from graftax.graphdef_ir.graph.nodes import UNRESOLVED_OUTPUT, Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.traverse import reachable_functions
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.tensors import Tensor

__all__ = ["format_function", "format_graph", "format_node"]

_MAX_SHOWN_ELEMENTS = 8
_MAX_SHOWN_BYTES = 40


def format_function(function: Function, *, show_private: bool = False) -> str:
  """Returns the text of a function: its signature, a line per node, and what it returns.

  Args:
    function: the function; functions that it calls are not written.
    show_private: include attributes whose name begins with an underscore, such as `_output_shapes`.

  Example:
    >>> from graftax.graphdef_ir import DType, Function, Node, Parameter, Result, TensorRef
    >>> node = Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT})
    >>> result = Result("out", TensorRef("y"), DType.FLOAT)
    >>> print(format_function(Function("negative", (Parameter("x", DType.FLOAT),), (result,), (node,))))
    function negative(x: float32[unknown rank]) -> (out: float32)
      y = Neg(x) {T=float32}
      return y
  """
  parameters = ", ".join(_format_parameter(parameter) for parameter in function.parameters)
  results = ", ".join(_format_result(result) for result in function.results)
  marks = " stateful" if function.is_stateful else ""
  lines = [f"function {function.name}({parameters}) -> ({results}){marks}"]
  attrs = _format_attrs(function.attrs, show_private)
  if attrs:
    lines.append(f"  with {attrs}")
  lines += [f"  {format_node(node, show_private=show_private)}" for node in function.nodes]
  if function.control_results:
    lines.append(f"  run {', '.join(function.control_results)}")
  lines.append(("  return " + ", ".join(_format_ref(result.ref) for result in function.results)).rstrip())
  return "\n".join(lines)


def format_graph(graph: Graph, *, functions: bool = False, show_private: bool = False) -> str:
  """Returns the text of a graph: a line per node.

  Args:
    graph: the graph.
    functions: append every function that the graph calls, directly or indirectly.
    show_private: include attributes whose name begins with an underscore, such as `_output_shapes`.

  Example:
    >>> from graftax.graphdef_ir import DType, Graph, Node
    >>> print(format_graph(Graph((Node("x", "Placeholder", attrs={"dtype": DType.FLOAT}),))))
    graph of 1 nodes, 0 functions
      x = Placeholder() {dtype=float32}
  """
  blocks = [f"graph of {len(graph.nodes)} nodes, {len(graph.library)} functions"]
  blocks += [f"  {format_node(node, show_private=show_private)}" for node in graph.nodes]
  if functions:
    for name in reachable_functions(graph, graph.library):
      blocks += ["", format_function(graph.library[name], show_private=show_private)]
  return "\n".join(blocks)


def format_node(node: Node, *, show_private: bool = False) -> str:
  """Returns one line: `name = Op(input, input:1, ^control) {attr=value} on device`.

  Args:
    node: a node of a graph or of a function.
    show_private: include attributes whose name begins with an underscore, such as `_output_shapes`.

  Example:
    >>> from graftax.graphdef_ir import Node, TensorRef
    >>> format_node(Node("y", "Add", (TensorRef("x"), TensorRef("split", 1)), control_inputs=("init",)))
    'y = Add(x, split:1, ^init)'
  """
  inputs = [*map(_format_ref, node.inputs), *(f"^{name}" for name in node.control_inputs)]
  attrs = _format_attrs(node.attrs, show_private)
  device = f" on {node.device}" if node.device else ""
  return f"{node.name} = {node.op}({', '.join(inputs)})" + (f" {attrs}" if attrs else "") + device


def _format_ref(ref: TensorRef) -> str:
  return f"{ref.node}:unresolved" if ref.index == UNRESOLVED_OUTPUT else str(ref)


def _format_parameter(parameter: Parameter) -> str:
  dtype = f"${parameter.type_attr}" if parameter.type_attr else str(parameter.dtype)
  if parameter.handle_spec is not None:
    return f"{parameter.name}: {dtype}<{parameter.handle_spec}>"
  if parameter.dtype == DType.RESOURCE:
    return f"{parameter.name}: {dtype}"
  return f"{parameter.name}: {dtype}{parameter.shape}"


def _format_result(result: Result) -> str:
  return f"{result.name}: ${result.type_attr}" if result.type_attr else f"{result.name}: {result.dtype}"


def _format_attrs(attrs: Mapping[str, AttrValue], show_private: bool) -> str:
  shown = [
    f"{name}={_format_value(attrs[name], show_private)}"
    for name in sorted(attrs)
    if show_private or not name.startswith("_")
  ]
  return "{" + ", ".join(shown) + "}" if shown else ""


def _format_value(value: AttrValue, show_private: bool) -> str:
  match value:
    case DType() | PartialShape():
      return str(value)
    case bool() | int():
      return str(value).lower()
    case float():
      return repr(value)
    case bytes():
      return _format_bytes(value)
    case Tensor():
      return _format_tensor(value)
    case AttrPlaceholder(name):
      return f"${name}"
    case FunctionRef(name, attrs):
      return f"@{name}{_format_attrs(attrs, show_private)}"
    case tuple():
      return "[" + ", ".join(_format_value(element, show_private) for element in value) + "]"
  raise AssertionError(f"internal: no text form for attribute value {value!r}")


def _format_bytes(value: bytes) -> str:
  shown = repr(value[:_MAX_SHOWN_BYTES])[1:]
  return shown if len(value) <= _MAX_SHOWN_BYTES else f"{shown}... {len(value)} bytes"


def _format_tensor(tensor: Tensor) -> str:
  kind = f"{tensor.dtype}{list(tensor.shape)}"
  if tensor.size > _MAX_SHOWN_ELEMENTS:
    return f"{kind}(...)"
  try:
    elements = ", ".join(_format_elements(tensor))
  except GraftaxError as e:
    return f"{kind}({type(e).__name__})"
  return f"{kind}({elements})"


def _format_elements(tensor: Tensor) -> Iterator[str]:
  for element in tensor.numpy().ravel():
    yield _format_bytes(element) if isinstance(element, bytes) else str(element)
