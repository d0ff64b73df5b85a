"""Cuts the part of a graph or function that lies between some tensors.

>>> from graftax.graphdef_ir import DType
>>> x = Node("x", "Placeholder", attrs={"dtype": DType.FLOAT})
>>> y = Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT})
>>> print(extract_subgraph(Graph((x, y)), ["x:0"], ["y:0"], name="negate"))
function negate(x: float32[unknown rank]) -> (y: float32)
  y = Neg(x) {T=float32}
  return y
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.errors import GraphError, NoSuchNodeError, OutputIndexError, UnknownOpError
from graftax.graphdef_ir.graph.graph import Graph
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.nodes import Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.op_traits import traits_of
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec
from graftax.graphdef_ir.signatures import OpSignatures

__all__ = ["cut_function", "extract_subgraph", "tensor_spec"]


def extract_subgraph(
  graph: Graph,
  inputs: Sequence[TensorRef | str],
  outputs: Sequence[TensorRef | str],
  *,
  targets: Sequence[str] = (),
  name: str = "subgraph",
) -> Function:
  """Returns the function that takes `inputs`, returns `outputs`, and runs `targets` for their effects.

  This is what `Session.run(outputs + targets, feed_dict=inputs)` computes: any tensor can be fed, not only
  placeholders, and nodes that only fed tensors need are left out.

  Args:
    graph: the whole graph; its library is also the function's library.
    inputs: tensors to feed, as refs or as text (`"x"`, `"split:1"`); the function's parameters, in this order.
    outputs: tensors to return, in this order; can repeat, and can be inputs.
    targets: names of nodes to run; the function's control results.
    name: the function's name.

  Raises:
    NoSuchNodeError: the graph has no such node.
    OutputIndexError: a node has no such output.
    UnknownOpError: the op of an input or output is unknown, so its element type is too.
    GraphError: an input is given twice, or a placeholder is needed that is not an input.

  Example:
    >>> from graftax.graphdef_ir import DType, Graph, Node
    >>> x = Node("x", "Placeholder", attrs={"dtype": DType.FLOAT})
    >>> y, z = (Node(name, "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT}) for name in ("y", "z"))
    >>> [node.name for node in extract_subgraph(Graph((x, y, z)), ["x"], ["z"]).nodes]
    ['z']
  """
  fed, fetched = ([_as_ref(ref) for ref in refs] for refs in (inputs, outputs))
  specs = {ref: tensor_spec(ref, graph.node(ref.node), graph.library, graph.signatures) for ref in [*fed, *fetched]}
  names = _result_names(fetched)
  results = tuple(Result(result, ref, specs[ref].dtype) for result, ref in zip(names, fetched, strict=True))
  whole = Function(name, (), results, graph.nodes, tuple(dict.fromkeys(targets)))
  part = cut_function(whole, {ref: specs[ref] for ref in _unique(fed)}, lambda _: _needed(graph, fetched, targets, fed))
  missing = [node.name for node in part.nodes if _is_placeholder(node)]
  if missing:
    raise GraphError(
      f"subgraph: outputs {[str(ref) for ref in fetched]} need placeholders {missing}, which are not among the inputs."
    )
  return Function(
    name=name,
    parameters=part.parameters,
    results=part.results,
    nodes=part.nodes,
    control_results=part.control_results,
    is_stateful=any(_is_stateful(node, graph) for node in part.nodes),
  )


def cut_function(
  function: Function, feeds: Mapping[TensorRef, TensorSpec], needed: Callable[[Function], Collection[str]]
) -> Function:
  """Returns a function whose first parameters replace the tensors `feeds`.

  A fed tensor is named after its node if the node is left out. The function's own parameters follow if they are still
  read.

  Args:
    function: the whole function, with the results of the part.
    feeds: tensors to feed, with shape and dtype; in the order of the parameters.
    needed: given the function with the fed tensors cut off, returns the names of the nodes to keep.
  """
  # A node name has no colon, so nothing computes these.
  cut_off = _rewired_function(function, {ref: TensorRef(f"{ref.node}:{ref.index}") for ref in feeds})
  kept = set(needed(cut_off))
  names = _parameter_names(function, list(feeds), kept)
  renamed = {ref: TensorRef(parameter) for ref, parameter in names.items()}
  nodes = tuple(_rewired(node, renamed, kept) for node in function.nodes if node.name in kept)
  results = _rewired_results(function, renamed)
  read = {ref.node for node in nodes for ref in node.inputs} | {result.ref.node for result in results}
  parameters = [Parameter(names[ref], spec.dtype, spec.shape) for ref, spec in feeds.items()]
  fed = {ref.node for ref in feeds}
  parameters += (p for p in function.parameters if p.name in read and p.name not in fed)
  controls = tuple(name for name in function.control_results if name in kept)
  return dataclasses.replace(
    function, parameters=tuple(parameters), results=results, nodes=nodes, control_results=controls
  )


def tensor_spec(ref: TensorRef, node: Node, library: FunctionLibrary, signatures: OpSignatures) -> TensorSpec:
  """Returns shape and dtype of a tensor, as far as its node gives them.

  Args:
    ref: the tensor.
    node: the node that computes it.
    library: the functions that it can call.
    signatures: signatures of all ops.

  Raises:
    OutputIndexError: the node has no such output.
    UnknownOpError: the node's op is unknown.
  """
  signature = library.signature(node.op) or signatures.get(node.op)
  if signature is None:
    raise UnknownOpError(
      f"subgraph: element type of {str(ref)!r}: op {node.op!r} has no known signature. Pass its OpDef, as in "
      "parse_graph(data, extra_ops=OpList)."
    )
  types = signature.output_types(node.attrs)
  if not 0 <= ref.index < len(types):
    raise OutputIndexError(f"subgraph: {str(ref)!r}: node {node.name!r} ({node.op}) has {len(types)} outputs.")
  return TensorSpec(_shape_of(node, ref.index), types[ref.index], ref.node)


def _as_ref(ref: TensorRef | str) -> TensorRef:
  return TensorRef.parse(ref) if isinstance(ref, str) else ref


def _unique(fed: Sequence[TensorRef]) -> Sequence[TensorRef]:
  seen: set[TensorRef] = set()
  for ref in fed:
    if ref in seen:
      raise GraphError(f"subgraph: input {str(ref)!r} is given twice; expected each tensor once.")
    seen.add(ref)
  return fed


def _is_placeholder(node: Node) -> bool:
  return traits_of(node.op).makes == "placeholder"


def _shape_of(node: Node, index: int) -> PartialShape:
  shape = node.attrs.get("shape") if _is_placeholder(node) else None
  shapes = node.attrs.get("_output_shapes")
  if shape is None and isinstance(shapes, tuple) and index < len(shapes):
    shape = shapes[index]
  return shape if isinstance(shape, PartialShape) else PartialShape(None)


def _needed(graph: Graph, fetched: Sequence[TensorRef], targets: Sequence[str], fed: Collection[TensorRef]) -> set[str]:
  """Returns the names of the nodes that `Session.run` would run."""
  cut_off = set(fed)
  fed_placeholders = {ref.node for ref in cut_off if _is_placeholder(graph.node(ref.node))}
  pending = [ref.node for ref in fetched if ref not in cut_off] + list(targets)
  kept: set[str] = set()
  while pending:
    name = pending.pop()
    if name in kept:
      continue
    kept.add(name)
    try:
      node = graph.node(name)
    except NoSuchNodeError as e:
      raise NoSuchNodeError(f"subgraph: {e}") from e
    pending += [ref.node for ref in node.inputs if ref not in cut_off]
    # Nothing can wait for a fed placeholder; any other fed node may have effects and still runs.
    pending += [control for control in node.control_inputs if control not in fed_placeholders]
  return kept


def _parameter_names(function: Function, feeds: Sequence[TensorRef], kept: Collection[str]) -> dict[TensorRef, str]:
  """Returns the fed node's name if that node is gone, otherwise a new name."""
  names: dict[TensorRef, str] = {}
  taken = {node.name for node in function.nodes} | {parameter.name for parameter in function.parameters}
  free = {ref.node for ref in feeds if ref.node not in kept}
  for ref in feeds:
    if ref.node in free:
      free.remove(ref.node)
      names[ref] = ref.node
    else:
      names[ref] = unique_name(f"{ref.node}_{ref.index}", taken)
  return names


def _result_names(fetched: Sequence[TensorRef]) -> list[str]:
  taken: set[str] = set()
  return [unique_name(f"{ref.node}_{ref.index}" if ref.index else ref.node, taken) for ref in fetched]


def _rewired_function(function: Function, renamed: Mapping[TensorRef, TensorRef]) -> Function:
  nodes = tuple(_rewired(node, renamed) for node in function.nodes)
  return dataclasses.replace(function, nodes=nodes, results=_rewired_results(function, renamed))


def _rewired_results(function: Function, renamed: Mapping[TensorRef, TensorRef]) -> tuple[Result, ...]:
  return tuple(dataclasses.replace(result, ref=renamed.get(result.ref, result.ref)) for result in function.results)


def _rewired(node: Node, renamed: Mapping[TensorRef, TensorRef], kept: Collection[str] | None = None) -> Node:
  """Returns a node with other inputs that waits for `kept` nodes only, or for all if None."""
  inputs = tuple(renamed.get(ref, ref) for ref in node.inputs)
  control_inputs = tuple(name for name in node.control_inputs if kept is None or name in kept)
  if inputs == node.inputs and control_inputs == node.control_inputs:
    return node
  return dataclasses.replace(node, inputs=inputs, control_inputs=control_inputs)


def _is_stateful(node: Node, graph: Graph) -> bool:
  signature = graph.library.signature(node.op) or graph.signatures.get(node.op)
  return signature is None or signature.is_stateful
