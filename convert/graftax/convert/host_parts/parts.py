"""Finds the parts of a function: the head on the host, the body of numbers, and the tail on the host.

The host runs nodes without a JAX lowering, nodes with strings, and what reads a table of strings. Those that do not
depend on weights are in the head, with all that they need, and the others in the tail. Weights are variables, and
constant matrices of floating-point numbers, as in a frozen graph. Nodes that depend on constants alone belong to every
part.
"""

import dataclasses
from collections.abc import Collection, Iterator

import numpy as np

from graftax.convert.errors import ConversionError
from graftax.convert.host_ops.registry import handles_strings
from graftax.convert.host_parts.min_vertex_cut import minimum_vertex_cut
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.program import Program, UnavailableCapture
from graftax.graphdef_ir import (
  DType,
  Function,
  GraftaxError,
  Node,
  OpSignatures,
  Tensor,
  TensorRef,
  ancestors,
  follow_calls,
  referenced_functions,
  topological_order,
  traits_of,
)
from graftax.ops_jax import LookupTable, ResourceHandle, lowering

__all__ = ["Parts", "find_parts", "holds_numbers", "static_refs"]

_NOT_NUMBERS = frozenset({DType.STRING, DType.RESOURCE, DType.VARIANT})
# Dtypes of indices, sizes and masks.
_COUNTING = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT64, DType.BOOL})
# Inputs on whose values sizes depend, besides those that lowerings mark as static.
_SIZE_INPUTS = {"RaggedTensorToTensor": ("row_partition_tensors",), "StridedSlice": ("begin", "end")}


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
  """Where a function is cut.

  Attributes:
    to_body: tensors that the head makes, or inputs of the function, that the body reads.
    known: those among them on whose values shapes in the body depend.
    past_body: tensors of the head, or inputs of the function, that the tail reads or that are results.
    to_tail: tensors of the body that the tail reads or that are results.
    in_tail: the nodes of the tail.
    on_host: the nodes that only the host runs.
  """

  to_body: tuple[TensorRef, ...]
  known: frozenset[TensorRef]
  past_body: tuple[TensorRef, ...]
  to_tail: tuple[TensorRef, ...]
  in_tail: frozenset[str]
  on_host: frozenset[str]


def find_parts(program: Program, function: Function) -> Parts:
  """Returns the parts of a function.

  Args:
    program: the program, for its captures and library.
    function: its function, with all calls inlined.

  Raises:
    ConversionError: the body reads what the host makes of numbers.
  """
  graph = _Graph(program, function)
  tail = graph.descendants(graph.on_host & graph.weighted) & graph.varying
  _check_order(graph, tail)
  head = graph.ancestors(graph.on_host - tail)
  head |= _needed_on_host(graph, head, tail)
  body = graph.varying - head - tail
  given = {*head, *graph.inputs}
  read = [ref for name in graph.order if name in body for ref in graph.nodes[name].inputs if ref.node in given]
  crossing = tuple(dict.fromkeys(read))
  known = graph.known_refs(body, set(crossing))
  to_body = (*(ref for ref in crossing if ref in known), *_narrowed(graph, crossing, known, body, tail))
  after = [ref for name in graph.order if name in tail for ref in graph.nodes[name].inputs]
  after += (result.ref for result in function.results)
  return Parts(
    to_body=to_body,
    known=graph.known_refs(body, set(to_body)),
    past_body=tuple(dict.fromkeys(ref for ref in after if ref.node in given)),
    to_tail=tuple(dict.fromkeys(ref for ref in after if ref.node in body)),
    in_tail=frozenset(tail),
    on_host=frozenset(graph.on_host),
  )


class _Graph:
  """The nodes of a function that a call must run, and what is known of them.

  Attributes:
    program: the program.
    results: the tensors that are results.
    nodes: the nodes by name.
    order: their names, each after those that it reads.
    inputs: names of the function's own inputs.
    on_host: nodes that only the host runs.
    varying: nodes that depend on more than constants.
    weighted: nodes that depend on weights.
    variables: nodes that read variables.
  """

  def __init__(self, program: Program, function: Function):
    self.program = program
    self.results = {result.ref for result in function.results}
    needed = EffectAnalysis(program.library, program.signatures).needed_nodes(function)
    self.nodes = {node.name: node for node in function.nodes if node.name in needed}
    self.order = [node.name for node in topological_order(function.nodes) if node.name in self.nodes]
    start = len(function.parameters) - len(program.captures)
    self.inputs = {parameter.name for parameter in function.parameters[:start]}
    self._captures = {p.name: c for p, c in zip(function.parameters[start:], program.captures, strict=True)}
    self._readers: dict[str, list[str]] = {}
    for node in self.nodes.values():
      for ref in node.inputs:
        self._readers.setdefault(ref.node, []).append(node.name)
    self._host_functions: dict[str, bool] = {}
    unavailable = {name for name, capture in self._captures.items() if isinstance(capture, UnavailableCapture)}
    handles = {name for name, capture in self._captures.items() if _is_variable(capture)}
    self.variables = {name for name, node in self.nodes.items() if handles & {ref.node for ref in node.inputs}}
    self.variables |= {name for name, node in self.nodes.items() if traits_of(node.op).makes == "variable"}
    roots = {name for name in self.nodes if self._starts_varying(self.nodes[name], unavailable)} | self.variables
    self.varying = self.descendants(roots)
    self.on_host = {name for name in self.varying if self._is_host(self.nodes[name], unavailable)}
    self.weighted = self.descendants(self.variables | self._readers_of_matrices())
    self._valued = self._depending_on_values()

  def _starts_varying(self, node: Node, unavailable: Collection[str]) -> bool:
    if any(ref.node in self.inputs or ref.node in unavailable for ref in node.inputs):
      return True
    signature = self.program.signatures.get(node.op)
    return traits_of(node.op).effect == "fresh" or (signature is None and node.op not in self.program.library)

  def _is_host(self, node: Node, unavailable: Collection[str] = ()) -> bool:
    if any(ref.node in unavailable for ref in node.inputs) or node.op == "DecodeRaw":
      return True
    if node.op in self.program.library:
      return self._runs_on_host(node.op)
    if node.op == "Const":
      return False
    if lowering(node.op) is None or handles_strings(node, self.program.signatures.get(node.op)):
      return True
    return any(self._runs_on_host(name) for name in referenced_functions(node, self.program.library))

  def _runs_on_host(self, function: str) -> bool:
    """Returns whether a library function, or one that it calls, has nodes for the host."""
    if function not in self._host_functions:
      self._host_functions[function] = False
      library = self.program.library
      reached = follow_calls(
        [function],
        lambda name: (called for node in library[name].nodes for called in referenced_functions(node, library)),
      )
      self._host_functions[function] = any(self._is_host(node) for name in reached for node in library[name].nodes)
    return self._host_functions[function]

  def _readers_of_matrices(self) -> set[str]:
    """Returns the varying nodes that read constant matrices of floating-point numbers."""
    weights = {name for name, capture in self._captures.items() if _is_matrix(capture)}
    for name in self.order:
      node = self.nodes[name]
      value = node.attrs.get("value")
      is_weight = node.op == "Const" and isinstance(value, Tensor) and _is_matrix(value.numpy())
      if name not in self.varying and (is_weight or any(ref.node in weights for ref in node.inputs)):
        weights.add(name)
    return {name for name in self.varying if weights & {ref.node for ref in self.nodes[name].inputs}}

  def descendants(self, names: Collection[str]) -> set[str]:
    """Returns nodes and all that read them, directly or through others."""
    seen: set[str] = set()
    stack = list(names)
    while stack:
      name = stack.pop()
      if name not in seen:
        seen.add(name)
        stack += self._readers.get(name, ())
    return seen

  def ancestors(self, names: Collection[str]) -> set[str]:
    """Returns nodes and all varying nodes that they need."""
    return ancestors(self.nodes, names, control=False) & self.varying

  def output_types(self, node: Node) -> tuple[DType, ...]:
    """Returns the element types of a node's outputs, or `()` if they are unknown."""
    return _output_types(node, self.program.signatures)

  def is_number(self, ref: TensorRef) -> bool:
    """Returns whether a tensor of a node holds numbers, as far as its element type is known."""
    return holds_numbers(ref, self.nodes[ref.node], self.program.signatures)

  def depends_on_values(self, ref: TensorRef) -> bool:
    """Returns whether a tensor depends on values of inputs or on the host's results, and not just on their shapes."""
    return ref.node in self.inputs or ref.node in self._valued

  def _depending_on_values(self) -> set[str]:
    found: set[str] = set()
    for name in self.order:
      node = self.nodes[name]
      reads = any(ref.node in self.inputs or ref.node in found for ref in node.inputs)
      if name in self.on_host or (reads and not traits_of(node.op).reads_shapes):
        found.add(name)
    return found

  def known_refs(self, body: Collection[str], given: Collection[TensorRef]) -> frozenset[TensorRef]:
    """Returns the tensors among `given` on whose values static inputs in the body depend."""
    found: set[TensorRef] = set()
    seen: set[TensorRef] = set()
    stack = [ref for name in body for ref in static_refs(self.nodes[name], self.program.signatures)]
    while stack:
      ref = stack.pop()
      if ref in given:
        found.add(ref)
      elif ref not in seen and ref.node in body and not traits_of(self.nodes[ref.node].op).reads_shapes:
        stack += self.nodes[ref.node].inputs
      seen.add(ref)
    return frozenset(found)


def _is_variable(capture: object) -> bool:
  return isinstance(capture, ResourceHandle) and not isinstance(capture, LookupTable)


def _is_matrix(value: object) -> bool:
  """Returns whether a value is an array of floating-point numbers with two dimensions that are larger than 1."""
  return isinstance(value, np.ndarray) and value.dtype.kind in "fVc" and sum(size > 1 for size in value.shape) > 1


def _output_types(node: Node, signatures: OpSignatures) -> tuple[DType, ...]:
  signature = signatures.get(node.op)
  try:
    return () if signature is None else tuple(signature.output_types(signature.with_defaults(node.attrs)))
  except GraftaxError:
    return ()


def holds_numbers(ref: TensorRef, node: Node, signatures: OpSignatures) -> bool:
  """Returns whether an output of a node holds numbers, as far as its element type is known."""
  types = _output_types(node, signatures)
  return ref.index >= len(types) or types[ref.index] not in _NOT_NUMBERS


def static_refs(node: Node, signatures: OpSignatures) -> Iterator[TensorRef]:
  """Yields the inputs of a node on whose values the shapes of its results depend."""
  entry, signature = lowering(node.op), signatures.get(node.op)
  if entry is None or signature is None or len(signature.inputs) != len(entry.inputs):
    return
  named = _SIZE_INPUTS.get(node.op, ())
  if node.op == "StridedSlice" and node.attrs.get("shrink_axis_mask"):
    # An index, at which a slice of constant size starts.
    named = ()
  start = 0
  sizes = signature.input_sizes(signature.with_defaults(node.attrs))
  for parameter, argument, size in zip(entry.inputs, signature.inputs, sizes, strict=True):
    if parameter.static_type is not None or argument.name in named:
      yield from node.inputs[start : start + size]
    start += size


def _check_order(graph: _Graph, tail: Collection[str]) -> None:
  reading = sorted(graph.variables & set(tail))
  if reading:
    makers = [graph.nodes[name].op for name in graph.order if name in tail and name in graph.on_host]
    raise ConversionError(
      f"{graph.program.name}: cannot be split into head, body and tail: {reading[:3]!r} read variables and depend on "
      f"host ops ({', '.join(dict.fromkeys(makers))}) that depend on variables themselves. Run these ops in "
      f"TensorFlow, and convert the numbers before and after them, each with graftax.convert.convert_subgraph."
    )


def _needed_on_host(graph: _Graph, head: Collection[str], tail: Collection[str]) -> set[str]:
  """Returns nodes that the host runs because shapes depend on their values, or because they read no numbers."""
  moved: set[str] = set()
  for name in graph.order:
    if name not in graph.varying or name in head or name in tail:
      continue
    node = graph.nodes[name]
    reads = [ref for ref in node.inputs if ref.node in head or ref.node in moved]
    sizes = [ref for ref in static_refs(node, graph.program.signatures) if graph.depends_on_values(ref)]
    if name not in graph.weighted:
      if sizes or not all(map(graph.is_number, reads)):
        moved |= graph.ancestors([name])
    else:
      moved |= graph.ancestors([ref.node for ref in sizes if ref.node in graph.nodes.keys() - graph.weighted])
  return moved


def _narrowed(
  graph: _Graph,
  crossing: tuple[TensorRef, ...],
  known: Collection[TensorRef],
  body: Collection[str],
  tail: Collection[str],
) -> tuple[TensorRef, ...]:
  """Returns as few tensors as possible, if the host also combines the integers that it computes.

  For example, the index of a word in a vocabulary combines a look-up, a hash and the size of the table.
  """
  starts = tuple(ref for ref in crossing if ref not in known)
  movable = tuple(ref for ref in starts if ref.node not in graph.inputs)
  made = dict.fromkeys(movable)
  following: dict[TensorRef, list[TensorRef]] = {ref: [] for ref in movable}
  combining: set[str] = set()
  for name in graph.order:
    node = graph.nodes[name]
    if name not in body or name in graph.weighted or not any(ref in made for ref in node.inputs):
      continue
    types = graph.output_types(node)
    refs = [TensorRef(name, i) for i in range(len(types))]
    is_known = all(ref in made or ref.node not in graph.varying | graph.inputs for ref in node.inputs)
    if is_known and refs and _COUNTING.issuperset(types):
      combining.add(name)
      made.update(dict.fromkeys(refs))
      for ref in node.inputs:
        if ref in made:
          following.setdefault(ref, []).extend(refs)
  outside = [name for name in graph.nodes if name in body and name not in combining]
  outside += tail
  read = {ref for name in outside for ref in graph.nodes[name].inputs} | graph.results
  cut = minimum_vertex_cut(movable, following, read & set(made))
  return (*cut, *(ref for ref in starts if ref.node in graph.inputs))
