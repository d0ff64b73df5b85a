"""The part of a graph between some tensors, as a function.

>>> x = Node("x", "Placeholder", attrs={"dtype": DType.FLOAT})
>>> y = Node("y", "Neg", (TensorRef("x"),), attrs={"T": DType.FLOAT})
>>> print(extract_subgraph(Graph((x, y)), ["x:0"], ["y:0"], name="negate"))
function negate(x: float32[unknown rank]) -> (y: float32)
  y = Neg(x) {T=float32}
  return y
"""

from collections.abc import Collection, Mapping, Sequence

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import GraphError, NoSuchNodeError, OutputIndexError, UnknownOpError
from graftax.graphdef_ir.graph import Function, Graph, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.op_traits import traits_of
from graftax.graphdef_ir.shapes import PartialShape

__all__ = ["extract_subgraph"]

# Graphs of older producers write shape [] into a Placeholder of unknown rank.
_FIRST_PRODUCER_WITH_SCALAR_PLACEHOLDERS = 24


def extract_subgraph(
  graph: Graph,
  inputs: Sequence[TensorRef | str],
  outputs: Sequence[TensorRef | str],
  *,
  targets: Sequence[str] = (),
  name: str = "subgraph",
) -> Function:
  """The function that takes `inputs`, returns `outputs`, and runs `targets` for their effects.

  This is what `Session.run(outputs + targets, feed_dict=inputs)` computes: any tensor can be fed, not only
  placeholders, and what only fed tensors need is left out.

  Args:
    graph: where to look; its library is the function's library too.
    inputs: tensors to feed, as refs or as text (`"x"`, `"split:1"`); the function's parameters, in this order.
    outputs: tensors to return, in this order; may repeat, and may be inputs.
    targets: names of nodes to run; the function's control results.
    name: the function's name.

  Raises:
    NoSuchNodeError: the graph has no such node.
    OutputIndexError: a node has no such output.
    UnknownOpError: the op of an input or output is unknown, so its element type is too.
    GraphError: an input is given twice, or a placeholder is needed that is not an input.
  """
  fed = [_as_ref(ref) for ref in inputs]
  fetched = [_as_ref(ref) for ref in outputs]
  _check_unique(fed)
  dtypes = {ref: _dtype_of(ref, graph) for ref in [*fed, *fetched]}
  kept = _needed(graph, fetched, targets, frozenset(fed))
  _check_placeholders(graph, kept, fetched)
  names = _parameter_names(graph, fed, kept)
  renamed = {ref: TensorRef(parameter) for ref, parameter in names.items()}
  return Function(
    name=name,
    parameters=tuple(Parameter(names[ref], dtypes[ref], _shape_of(ref, graph)) for ref in fed),
    results=tuple(
      Result(result, renamed.get(ref, ref), dtypes[ref])
      for ref, result in zip(fetched, _result_names(fetched), strict=True)
    ),
    nodes=tuple(_rewire(node, renamed, kept) for node in graph.nodes if node.name in kept),
    control_results=tuple(dict.fromkeys(targets)),
    is_stateful=any(_is_stateful(graph.node(kept_name), graph) for kept_name in kept),
  )


def _as_ref(ref: TensorRef | str) -> TensorRef:
  return TensorRef.parse(ref) if isinstance(ref, str) else ref


def _check_unique(fed: Sequence[TensorRef]) -> None:
  seen: set[TensorRef] = set()
  for ref in fed:
    if ref in seen:
      raise GraphError(f"subgraph: input {str(ref)!r} is given twice; expected each tensor once.")
    seen.add(ref)


def _dtype_of(ref: TensorRef, graph: Graph) -> DType:
  node = graph.node(ref.node)
  signature = graph.library.signature(node.op) or graph.signatures.find(node.op)
  if signature is None:
    raise UnknownOpError(
      f"subgraph: element type of {str(ref)!r}: op {node.op!r} has no known signature. Pass its OpDef as an extra op."
    )
  types = signature.output_types(node.attrs)
  if not 0 <= ref.index < len(types):
    raise OutputIndexError(f"subgraph: {str(ref)!r}: node {node.name!r} ({node.op}) has {len(types)} outputs.")
  return types[ref.index]


def _shape_of(ref: TensorRef, graph: Graph) -> PartialShape:
  node = graph.node(ref.node)
  shape = node.attrs.get("shape") if _is_placeholder(node) else None
  if isinstance(shape, PartialShape):
    is_old = graph.producer < _FIRST_PRODUCER_WITH_SCALAR_PLACEHOLDERS
    return PartialShape(None) if is_old and shape.rank == 0 else shape
  shapes = node.attrs.get("_output_shapes")
  if isinstance(shapes, tuple) and ref.index < len(shapes):
    found = shapes[ref.index]
    return found if isinstance(found, PartialShape) else PartialShape(None)
  return PartialShape(None)


def _needed(graph: Graph, fetched: Sequence[TensorRef], targets: Sequence[str], fed: Collection[TensorRef]) -> set[str]:
  """Names of the nodes to run."""
  fed_placeholders = {ref.node for ref in fed if _is_placeholder(graph.node(ref.node))}
  pending = [ref.node for ref in fetched if ref not in fed] + list(targets)
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
    pending += [ref.node for ref in node.inputs if ref not in fed]
    # A fed placeholder is no longer there to wait for; any other fed node may have effects and still runs.
    pending += [control for control in node.control_inputs if control not in fed_placeholders]
  return kept


def _is_placeholder(node: Node) -> bool:
  return traits_of(node.op).makes == "placeholder"


def _check_placeholders(graph: Graph, kept: Collection[str], fetched: Sequence[TensorRef]) -> None:
  missing = [node.name for node in graph.nodes if node.name in kept and _is_placeholder(node)]
  if missing:
    raise GraphError(
      f"subgraph: outputs {[str(ref) for ref in fetched]} need placeholders {missing}, which are not among the inputs."
    )


def _parameter_names(graph: Graph, fed: Sequence[TensorRef], kept: Collection[str]) -> dict[TensorRef, str]:
  """The fed node's name where that node is gone, else a name nobody has."""
  names: dict[TensorRef, str] = {}
  taken = {node.name for node in graph.nodes}
  free = {ref.node for ref in fed if ref.node not in kept}
  for ref in fed:
    if ref.node in free:
      free.remove(ref.node)
      names[ref] = ref.node
    else:
      names[ref] = unique_name(f"{ref.node}_{ref.index}", taken)
  return names


def _result_names(fetched: Sequence[TensorRef]) -> list[str]:
  taken: set[str] = set()
  return [unique_name(f"{ref.node}_{ref.index}" if ref.index else ref.node, taken) for ref in fetched]


def _rewire(node: Node, renamed: Mapping[TensorRef, TensorRef], kept: Collection[str]) -> Node:
  inputs = tuple(renamed.get(ref, ref) for ref in node.inputs)
  control_inputs = tuple(name for name in node.control_inputs if name in kept)
  if inputs == node.inputs and control_inputs == node.control_inputs:
    return node
  return Node(node.name, node.op, inputs, control_inputs, node.attrs, node.device, node.source)


def _is_stateful(node: Node, graph: Graph) -> bool:
  signature = graph.library.signature(node.op) or graph.signatures.find(node.op)
  return signature is None or signature.is_stateful
