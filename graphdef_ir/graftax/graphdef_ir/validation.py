"""Checks that graphs are well-formed.

    >>> validate(Graph((Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT}),)))
    Traceback (most recent call last):
    graftax.graphdef_ir.errors.DanglingInputError: graph, node 'y' (Neg): input 'x' names none of the 1 nodes.

Each check is a function of its own, below, in the order in which they run. Unknown ops are not checked (whoever runs
the graph reports them), unless a function body cannot be understood without their signature.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from graftax.graphdef_ir._call_checks import check_call
from graftax.graphdef_ir._node_checks import doubtful_nodes
from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  ArityError,
  AttributeValueError,
  CycleError,
  DanglingInputError,
  DuplicateNameError,
  FunctionResultError,
  GraphError,
  MissingAttributeError,
  MissingFunctionError,
  OutputIndexError,
  TypeMismatchError,
  UnboundAttributeError,
  UnknownOpError,
)
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, Graph, Node, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.traverse import (
  follow_calls,
  function_references,
  reachable_functions,
  referenced_functions,
  topological_order,
)
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.signatures import OpAttr, OpSignature, OpSignatures
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.type_runs import TypeRuns

__all__ = ["validate", "validate_function", "validate_nodes", "validate_reachable"]


def validate(graph: Graph) -> None:
  """Raises if the graph, or a function that it calls, is not well-formed.

  Raises:
    GraphError: the subclass says what is wrong, and the message says where.

  Example:
    >>> from graftax.graphdef_ir import parse_graph
    >>> validate(parse_graph(b'node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }'))
    Traceback (most recent call last):
    graftax.graphdef_ir.errors.DanglingInputError: ...
  """
  _check_body(_Body.of_graph(graph))
  for name in reachable_functions(graph, graph.library):
    validate_function(graph.library[name], graph.library, graph.signatures)


def validate_reachable(
  function: Function, library: FunctionLibrary, signatures: OpSignatures, others: Iterable[str] = ()
) -> None:
  """Raises if the nodes of a function, or of one that it calls, are not well-formed.

  Cycles and unknown ops are left to the conversion: planning orders the nodes of each function, and one error lists all
  ops that have no lowering. The time is linear, about 2 us for each node.

  Args:
    function: the function.
    library: the functions that it calls.
    signatures: signatures of all ops.
    others: names of further functions to check.

  Raises:
    GraphError: the subclass says what is wrong, and the message says where.
  """
  body = _Body.of_function(function, library, signatures, allows_unknown_ops=True)
  called = _check_nodes(body)
  _check_results(function, body)
  _check_called([*called, *(name for name in others if name in library)], library, signatures)


def validate_nodes(graph: Graph) -> None:
  """Raises if the nodes of a graph, or of a function that it calls, are not well-formed; as `validate_reachable`.

  Cycles in the graph itself are found, too: nodes that only depend on each other are needed by no output, so planning
  would not see them.
  """
  body = _Body.of_graph(graph, allows_unknown_ops=True)
  called = _check_nodes(body)
  _check_order(body)
  _check_called(called, graph.library, graph.signatures)


def _check_called(names: Iterable[str], library: FunctionLibrary, signatures: OpSignatures) -> None:
  def callees(name: str) -> Iterator[str]:
    body = _Body.of_function(library[name], library, signatures, allows_unknown_ops=True)
    found = _check_nodes(body)
    _check_results(library[name], body)
    return found

  for _ in follow_calls(names, callees):
    pass


def validate_function(
  function: Function, library: FunctionLibrary | None = None, signatures: OpSignatures | None = None
) -> None:
  """Raises if the body of a function is not well-formed. The functions it calls must exist but are not checked.

  Args:
    function: the function.
    library: the functions that it calls; None is an empty library.
    signatures: signatures of all ops; TensorFlow's if None.

  Raises:
    GraphError: the subclass says what is wrong, and the message says where.
  """
  library = FunctionLibrary() if library is None else library
  body = _Body.of_function(function, library, OpSignatures() if signatures is None else signatures)
  _check_body(body)
  _check_results(function, body)


@dataclass(frozen=True, slots=True)
class _Body:
  """Nodes to check, and the names that they may refer to."""

  where: str
  nodes: Mapping[str, Node]
  sequence: tuple[Node, ...]
  parameters: Mapping[str, DType]
  library: FunctionLibrary
  signatures: OpSignatures
  output_types: dict[str, TypeRuns | None]
  allows_unknown_ops: bool

  @classmethod
  def of_graph(cls, graph: Graph, *, allows_unknown_ops: bool = False) -> "_Body":
    nodes = {node.name: node for node in graph.nodes}
    return cls("graph", nodes, graph.nodes, {}, graph.library, graph.signatures, {}, allows_unknown_ops)

  @classmethod
  def of_function(
    cls, function: Function, library: FunctionLibrary, signatures: OpSignatures, *, allows_unknown_ops: bool = False
  ) -> "_Body":
    nodes = {node.name: node for node in function.nodes}
    parameters = {parameter.name: parameter.dtype for parameter in function.parameters}
    _check_parameter_names(function)
    where = f"function {function.name!r}"
    return cls(where, nodes, function.nodes, parameters, library, signatures, {}, allows_unknown_ops)

  def signature(self, op: str) -> OpSignature | None:
    return self.library.signature(op) or self.signatures.get(op)

  def at(self, node: Node) -> str:
    return f"{self.where}, node {node.name!r} ({node.op})"

  def outputs_of(self, name: str) -> TypeRuns | None:
    """Returns the element types of a node's outputs, or None if they are unknown (unknown op, unbound attribute)."""
    if name not in self.output_types:
      node = self.nodes[name]
      signature = self.signature(node.op)
      try:
        self.output_types[name] = None if signature is None else signature.output_types(node.attrs)
      except (MissingAttributeError, AttributeValueError):
        self.output_types[name] = None  # an error, reported when that node is checked, or a placeholder
    return self.output_types[name]


def _check_body(body: _Body) -> None:
  _check_nodes(body)
  _check_order(body)


def _check_order(body: _Body) -> None:
  try:
    topological_order(body.sequence)
  except CycleError as e:
    raise CycleError(f"{body.where}: {e}") from e


def _check_nodes(body: _Body) -> Iterator[str]:
  """Raises if a node is not well-formed; returns the names of the functions that nodes call."""
  if len(body.nodes) < len(body.sequence) or "" in body.nodes or any(name in body.nodes for name in body.parameters):
    _check_names(body)
  called: dict[str, None] = {}
  for node in doubtful_nodes(body.sequence, body.nodes, body.parameters, body.signature, _has_valid_attributes):
    signature = body.signature(node.op)
    _check_inputs_exist(node, body)
    _check_functions_exist(node, body)
    if signature is not None:
      _check_attributes(node, signature, body)
      _check_arity_and_types(node, signature, body)
    check_call(node, body.library, body.at(node))
    called.update(dict.fromkeys(referenced_functions(node, body.library)))
  return iter(called)


def _has_valid_attributes(node: Node, signature: OpSignature) -> bool:
  try:
    for attr in signature.attrs.values():
      value = node.attrs.get(attr.name, attr.default)
      if value is None or isinstance(value, AttrPlaceholder):
        return False
      _check_attribute_value(value, attr, "")
  except AttributeValueError:
    return False
  return True


def _check_names(body: _Body) -> None:
  seen = set(body.parameters)
  for node in body.sequence:
    if not node.name:
      raise GraphError(f"{body.where}: a {node.op} node has no name.")
    if node.name in seen:
      what = "a parameter" if node.name in body.parameters else "another node"
      raise DuplicateNameError(f"{body.at(node)}: has the same name as {what}; expected unique names.")
    seen.add(node.name)


def _check_parameter_names(function: Function) -> None:
  seen = set()
  for parameter in function.parameters:
    if parameter.name in seen:
      raise DuplicateNameError(f"function {function.name!r}: two parameters are named {parameter.name!r}.")
    seen.add(parameter.name)


def _check_inputs_exist(node: Node, body: _Body) -> None:
  for ref in node.inputs:
    _check_ref(ref, body, body.at(node), "input")
  for name in node.control_inputs:
    if name not in body.nodes and name not in body.parameters:
      raise DanglingInputError(f"{body.at(node)}: control input {name!r} is not the name of a node.")


def _check_ref(ref: TensorRef, body: _Body, where: str, role: str) -> None:
  if ref.node in body.parameters:
    if ref.index:
      raise OutputIndexError(f"{where}: {role} {str(ref)!r}: parameter {ref.node!r} is one tensor.")
    return
  if ref.node not in body.nodes:
    raise DanglingInputError(f"{where}: {role} {str(ref)!r} names none of the {len(body.nodes)} nodes.")
  producer = body.nodes[ref.node]
  if ref.index == UNRESOLVED_OUTPUT:
    if body.allows_unknown_ops:
      return
    raise UnknownOpError(
      f"{where}: {role} from {ref.node!r}: the outputs of op {producer.op!r} are unknown. Pass its OpDef, as in "
      "parse_graph(data, extra_ops=OpList)."
    )
  types = body.outputs_of(ref.node)
  if ref.index < 0 or (types is not None and ref.index >= len(types)):
    raise OutputIndexError(
      f"{where}: {role} {str(ref)!r}: {producer.op!r} has {len(types or ())} outputs; expected an index below that."
    )


def _check_functions_exist(node: Node, body: _Body) -> None:
  for reference in function_references(node.attrs):
    # TensorFlow writes "no function" into an optional attribute as an empty name.
    if reference.name and reference.name not in body.library:
      raise MissingFunctionError(
        f"{body.at(node)}: calls {reference.name!r}, which is not among the library's {len(body.library)} functions."
      )


def _check_attributes(node: Node, signature: OpSignature, body: _Body) -> None:
  for attr in signature.attrs.values():
    value = node.attrs.get(attr.name)
    if value is None:
      if attr.default is None:
        raise MissingAttributeError(
          f"{body.at(node)}: attribute {attr.name!r} ({attr.type}) is missing and has no default."
        )
    elif not isinstance(value, AttrPlaceholder):
      _check_attribute_value(value, attr, body.at(node))


def _check_attribute_value(value: AttrValue, attr: OpAttr, where: str) -> None:
  if attr.type.startswith("list("):
    fits = isinstance(value, tuple) and _all_fit(value, attr.type[5:-1])
    measured = len(value) if isinstance(value, tuple) else 0
  else:
    fits = _fits(value, attr.type)
    measured = value if isinstance(value, int) else 0
  if not fits:
    raise AttributeValueError(f"{where}: attribute {attr.name!r} is {value!r}; expected a value of type {attr.type}.")
  if attr.minimum is not None and measured < attr.minimum:
    raise AttributeValueError(f"{where}: attribute {attr.name!r} is {value!r}; expected at least {attr.minimum}.")
  if attr.allowed is not None:
    for item in value if isinstance(value, tuple) else (value,):
      if item not in attr.allowed:
        raise AttributeValueError(
          f"{where}: attribute {attr.name!r} is {value!r}; expected one of {', '.join(map(_shown, attr.allowed))}."
        )


def _shown(value: AttrValue) -> str:
  return str(value) if isinstance(value, DType) else repr(value)


def _all_fit(values: Iterable[AttrValue], type_: str) -> bool:
  return all(_fits(value, type_) for value in values)


def _fits(value: AttrValue, type_: str) -> bool:
  check = _ATTR_TYPE_CHECKS.get(type_)
  return check is None or check(value)


_ATTR_TYPE_CHECKS: dict[str, Callable[[AttrValue], bool]] = {
  "int": lambda value: isinstance(value, int) and not isinstance(value, (bool, DType)),
  "float": lambda value: isinstance(value, float),
  "bool": lambda value: isinstance(value, bool),
  "string": lambda value: isinstance(value, bytes),
  "type": lambda value: isinstance(value, DType),
  "shape": lambda value: isinstance(value, PartialShape),
  "tensor": lambda value: isinstance(value, Tensor),
  "func": lambda value: isinstance(value, FunctionRef),
}


def _check_arity_and_types(node: Node, signature: OpSignature, body: _Body) -> None:
  try:
    signature.output_sizes(node.attrs)
    expected = signature.input_types(node.attrs)
  except UnboundAttributeError:
    return  # known only once the function's attributes are bound
  except AttributeValueError as e:
    raise AttributeValueError(f"{body.at(node)}: {e}") from e
  if len(node.inputs) != len(expected):  # compared first: `expected` may be far longer
    args = ", ".join(str(arg) for arg in signature.inputs)
    raise ArityError(f"{body.at(node)}: has {len(node.inputs)} inputs; expected {len(expected)} for ({args}).")
  for position, (ref, dtype) in enumerate(zip(node.inputs, expected, strict=True)):
    actual = _type_of(ref, body)
    if actual is not None and actual != dtype:
      raise TypeMismatchError(f"{body.at(node)}: input {position} ({str(ref)!r}) is {actual}; expected {dtype}.")


def _type_of(ref: TensorRef, body: _Body) -> DType | None:
  if ref.node in body.parameters:
    dtype = body.parameters[ref.node].base
    return None if dtype == DType.INVALID else dtype
  types = body.outputs_of(ref.node)
  return None if types is None else types[ref.index]


def _check_results(function: Function, body: _Body) -> None:
  for result in function.results:
    where = f"{body.where}, result {result.name!r}"
    try:
      _check_ref(result.ref, body, where, "tensor")
    except (DanglingInputError, OutputIndexError) as e:
      raise FunctionResultError(str(e)) from e
    actual = _type_of(result.ref, body)
    if actual is not None and result.dtype.base not in (DType.INVALID, actual):
      raise TypeMismatchError(f"{where}: tensor {str(result.ref)!r} is {actual}; the function declares {result.dtype}.")
  for name in function.control_results:
    if name not in body.nodes:
      raise FunctionResultError(f"{body.where}: control result {name!r} is not the name of a node.")
