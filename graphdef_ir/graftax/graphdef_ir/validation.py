"""Checks that graphs are well-formed.

    >>> validate(Graph((Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT}),)))
    Traceback (most recent call last):
    graftax.graphdef_ir.errors.DanglingInputError: graph, node 'y' (Neg): input 'x' names none of the 1 nodes.

Each check is a function of its own, below, in the order in which they run. Unknown ops are not checked (whoever runs
the graph reports them), unless a function body cannot be understood without their signature.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

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
from graftax.graphdef_ir.library import FunctionLibrary
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.signatures import OpAttr, OpSignature, OpSignatures
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.traverse import function_references, reachable_functions, topological_order
from graftax.graphdef_ir.type_runs import TypeRuns

__all__ = ["validate", "validate_function"]


def validate(graph: Graph) -> None:
  """Raises if the graph, or a function that it calls, is not well-formed.

  Raises:
    GraphError: the subclass says what is wrong, and the message says where.
  """
  _check_body(_Body.of_graph(graph))
  for name in reachable_functions(graph, graph.library):
    validate_function(graph.library[name], graph.library, graph.signatures)


def validate_function(
  function: Function, library: FunctionLibrary | None = None, signatures: OpSignatures | None = None
) -> None:
  """Raises if the body of a function is not well-formed. The functions it calls must exist but are not checked.

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

  @classmethod
  def of_graph(cls, graph: Graph) -> "_Body":
    nodes = {node.name: node for node in graph.nodes}
    return cls("graph", nodes, graph.nodes, {}, graph.library, graph.signatures, {})

  @classmethod
  def of_function(cls, function: Function, library: FunctionLibrary, signatures: OpSignatures) -> "_Body":
    nodes = {node.name: node for node in function.nodes}
    parameters = {parameter.name: parameter.dtype for parameter in function.parameters}
    _check_parameter_names(function)
    return cls(f"function {function.name!r}", nodes, function.nodes, parameters, library, signatures, {})

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
  _check_names(body)
  for node in body.sequence:
    signature = body.signature(node.op)
    _check_inputs_exist(node, body)
    _check_functions_exist(node, body)
    if signature is not None:
      _check_attributes(node, signature, body)
      _check_arity_and_types(node, signature, body)
  try:
    topological_order(body.sequence)
  except CycleError as e:
    raise CycleError(f"{body.where}: {e}") from e


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
    raise UnknownOpError(
      f"{where}: {role} from {ref.node!r}: the outputs of op {producer.op!r} are unknown. Pass its OpDef as an "
      "extra op."
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
