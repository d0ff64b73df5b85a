"""Shared by the stages of control flow raising: regions, element types, effects, and functions made of regions."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.budget import Budget
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import UnknownOpError
from graftax.graphdef_ir.graph import Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.op_traits import ops_with_traits, traits_of
from graftax.graphdef_ir.signatures import OpArg, OpSignature, OpSignatures

__all__ = ["OPS_WITH_ROLES", "Region", "Workspace", "rewired", "role"]

OPS_WITH_ROLES = frozenset(op for op in ops_with_traits() if traits_of(op).control_flow_v1 is not None)
"""The ops of TF1 control flow."""


def role(node: Node) -> str | None:
  """Returns the node's role in TF1 control flow (`enter`, `merge` ...), or None if it has none."""
  return traits_of(node.op).control_flow_v1


@dataclasses.dataclass(slots=True)
class Region:
  """A part of a function: nodes in an order in which they can run, with the results and effects needed of them.

  Tensors that its nodes read but do not compute are free. They become parameters when the region becomes a function.

  Attributes:
    nodes: by name.
    results: tensors to return, computed here or free.
    roots: names of nodes that must run for their effects.
  """

  nodes: dict[str, Node]
  results: list[TensorRef]
  roots: list[str]

  def free(self) -> Iterator[TensorRef]:
    """Yields the tensors computed elsewhere, with repetitions."""
    for node in self.nodes.values():
      yield from (ref for ref in node.inputs if ref.node not in self.nodes)
    yield from (ref for ref in self.results if ref.node not in self.nodes)


class Workspace:
  """One function while its control flow is raised, and the functions that this creates."""

  def __init__(self, function: Function, library: FunctionLibrary, signatures: OpSignatures, budget: Budget) -> None:
    self.function = function
    self.library = library
    self.budget = budget
    self.functions: dict[str, Function] = {}
    self._function_names = set(library)
    self._numbers: dict[str, int] = {}
    self._function_numbers: dict[str, int] = {}
    self._signatures = signatures
    self._parameters = {parameter.name: parameter for parameter in function.parameters}
    self._nodes = {node.name: node for node in function.nodes}
    self._taken = set(self._nodes) | set(self._parameters)

  def new_node(self, wanted_name: str, op: str, inputs: Sequence[TensorRef], **attrs: object) -> Node:
    """Returns a new node with a unique name."""
    node = Node(unique_name(wanted_name, self._taken, self._numbers), op, tuple(inputs), attrs=attrs)  # type: ignore[arg-type]
    self._nodes[node.name] = node
    return node

  def dtype(self, ref: TensorRef) -> DType:
    """Returns the element type of a tensor, with the reference mark if it is a TF1 reference.

    Raises:
      UnknownOpError: the op that computes it is unknown.
    """
    if ref.node in self._parameters:
      return self._parameters[ref.node].dtype
    node = self._nodes[ref.node]
    reference = traits_of(node.op).reference
    if reference == "forwarded":
      return self.dtype(node.inputs[0])
    signature = self._signature(node)
    if signature is None:
      raise UnknownOpError(
        f"function {self.function.name!r}, node {node.name!r}: op {node.op!r} has no known signature, so the type of "
        f"{str(ref)!r}, which enters or leaves a conditional or loop, is unknown. Pass its OpDef, as in "
        "parse_graph(data, extra_ops=OpList)."
      )
    dtype = signature.output_types(node.attrs)[ref.index]
    makes_ref = reference != "read" and any(arg.is_ref for arg in signature.outputs)
    is_ref = makes_ref and list(_spread(signature, node))[ref.index].is_ref
    return DType[f"{dtype.name}_REF"] if is_ref else dtype

  def has_effect(self, node: Node) -> bool:
    """Returns whether it matters that, or how often, a node runs."""
    traits = traits_of(node.op)
    if traits.effect == "reads" or traits.control_flow_v1 is not None or traits.reference == "forwarded":
      return False
    signature = self._signature(node)
    return signature is None or signature.is_stateful or any(arg.is_ref for arg in signature.inputs)

  def add_function(
    self,
    name: str,
    region: Region,
    parameters: Mapping[TensorRef, Parameter],
    passes_through: Sequence[TensorRef] = (),
  ) -> str:
    """Adds a function with the nodes of a region, and returns its name.

    Args:
      name: its name within the function being raised.
      region: the nodes, and the tensors to return as values.
      parameters: of the function; all free tensors are among them.
      passes_through: parameters to return after the region's results, references as references.
    """
    renamed = {ref: TensorRef(parameter.name) for ref, parameter in parameters.items()}
    nodes = tuple(rewired(node, renamed, region.nodes) for node in region.nodes.values())
    returned = [(renamed.get(ref, ref), self.dtype(ref).base) for ref in region.results]
    returned += [(renamed[ref], parameters[ref].dtype) for ref in passes_through]
    results = [Result(f"result_{position}", ref, dtype) for position, (ref, dtype) in enumerate(returned)]
    roots = tuple(dict.fromkeys(name for name in region.roots if name in region.nodes))
    is_stateful = any(map(self.has_effect, nodes))
    unique = unique_name(f"{self.function.name}/{name}", self._function_names, self._function_numbers)
    self.functions[unique] = Function(
      unique, tuple(parameters.values()), tuple(results), nodes, roots, is_stateful=is_stateful
    )
    return unique

  def parameters(
    self, refs: Iterable[TensorRef], regions: Sequence[Region], values: Collection[TensorRef] = ()
  ) -> dict[TensorRef, Parameter]:
    """Returns a parameter for each tensor, with names that no region uses. `values` are never references."""
    taken = {name for region in regions for name in region.nodes}
    parameters: dict[TensorRef, Parameter] = {}
    for ref in dict.fromkeys(refs):
      stem = f"{ref.node}_{ref.index}" if ref.index else ref.node
      dtype = self.dtype(ref)
      name = unique_name(re.sub(r"[^A-Za-z0-9_]", "_", stem), taken)
      parameters[ref] = Parameter(name, dtype.base if ref in values else dtype)
    return parameters

  def _signature(self, node: Node) -> OpSignature | None:
    return self.library.signature(node.op) or self._signatures.get(node.op)


def rewired(node: Node, renamed: Mapping[TensorRef, TensorRef], kept: Collection[str]) -> Node:
  """Returns the node with renamed inputs and without control inputs other than `kept` nodes."""
  inputs = tuple(renamed.get(ref, ref) for ref in node.inputs)
  control_inputs = tuple(dict.fromkeys(name for name in node.control_inputs if name in kept))
  # The renamed input is a value and no longer a reference.
  op = "Identity" if node.op == "RefIdentity" else node.op
  if (inputs, control_inputs, op) == (node.inputs, node.control_inputs, node.op):
    return node
  return dataclasses.replace(node, op=op, inputs=inputs, control_inputs=control_inputs)


def _spread(signature: OpSignature, node: Node) -> Iterator[OpArg]:
  for arg, size in zip(signature.outputs, signature.output_sizes(node.attrs), strict=True):
    for _ in range(size):
      yield arg
