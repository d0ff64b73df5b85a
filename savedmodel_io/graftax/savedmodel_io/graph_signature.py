"""The signature of a graph that came without signatures, such as a frozen graph: all placeholders and all ends."""

import re
from collections.abc import Iterable, Iterator, Mapping

from graftax.graphdef_ir import (
  DType,
  Graph,
  Node,
  PartialShape,
  TensorRef,
  TensorSpec,
  ancestors,
  tensor_spec,
  topological_order,
  traits_of,
)
from graftax.savedmodel_io.signatures import Signature, Signatures

__all__ = ["GRAPH_SIGNATURE", "graph_signatures"]

GRAPH_SIGNATURE = "serving_default"

# Of control flow, only these are values after the loop or conditional. The second output of a Merge tells its branch.
_CONTROL_FLOW_RESULTS = ("exit", "merge")
# Damaged graphs have loops that never end.
_MOST_LOOPS = 20
_NOT_NUMBERS = (DType.RESOURCE, DType.VARIANT, DType.STRING)


def graph_signatures(graph: Graph) -> Signatures:
  """Returns one signature whose inputs are the placeholders and whose outputs are the tensors that nothing reads.

  Outputs that no placeholder reaches are left out if there are others, as those of initializers and of the Saver. So
  are gradients, updates of variables, and strings, which JAX cannot hold. What only these read is an output: the loss
  of a training graph. Inputs and outputs have the names of their tensors. If there are no outputs there is no
  signature.

  Raises:
    CycleError: there are no outputs, because nodes depend on each other in a cycle.
  """
  nodes = {node.name: node for node in graph.nodes}
  inputs = {node.name: TensorRef(node.name) for node in graph.nodes if traits_of(node.op).makes == "placeholder"}
  ends = dict(_ends(graph, nodes))
  fed = _reached_from(inputs, graph)
  chosen = {ref: spec for ref, spec in ends.items() if ref.node in fed} or ends
  if not chosen:
    topological_order(graph.nodes)
    return Signatures({})
  outputs = {str(ref): ref for ref in sorted(chosen, key=str)}
  needed = ancestors(nodes, [ref.node for ref in chosen], control=False)
  inputs = {name: ref for name, ref in sorted(inputs.items()) if name in needed}
  signature = Signature(
    name=GRAPH_SIGNATURE,
    method_name="",
    inputs={name: tensor_spec(ref, nodes[name], graph.library, graph.signatures) for name, ref in inputs.items()},
    outputs={name: chosen[ref] for name, ref in outputs.items()},
    defaults={},
    input_tensors={name: (ref,) for name, ref in inputs.items()},
    output_tensors={name: (ref,) for name, ref in outputs.items()},
    function=None,
  )
  return Signatures({GRAPH_SIGNATURE: signature})


def _reached_from(names: Iterable[str], graph: Graph) -> set[str]:
  """Returns the nodes that read, directly or not, what some nodes compute, and these nodes."""
  readers = _readers(graph)
  queue = list(names)
  reached = set(queue)
  for name in queue:  # grows while it is walked
    fresh = [reader for reader in readers.get(name, ()) if reader not in reached]
    reached.update(fresh)
    queue += fresh
  return reached


def _readers(graph: Graph) -> dict[str, list[str]]:
  readers: dict[str, list[str]] = {}
  for node in graph.nodes:
    for ref in node.inputs:
      readers.setdefault(ref.node, []).append(node.name)
  return readers


def _ends(graph: Graph, nodes: Mapping[str, Node]) -> Iterator[tuple[TensorRef, TensorSpec]]:
  """Yields the tensors, with their specs, of nodes that have no reader."""
  values = {node.name: _values(node, graph) for node in graph.nodes if not _is_training(node)}
  read = {ref.node for node in graph.nodes if values.get(node.name) for ref in node.inputs}
  in_loops = _in_loops(graph)
  for name, specs in values.items():
    if name not in read and name not in in_loops and _is_end(nodes[name], nodes):
      yield from specs.items()


def _in_loops(graph: Graph) -> set[str]:
  """Returns the nodes that TF1 loops run in each iteration. Their unread outputs are not results of the graph."""
  roles = {node.name: traits_of(node.op).control_flow_v1 for node in graph.nodes}
  readers = _readers(graph)
  # How many loops the outputs of a node are in. Loops within loops are reached more than once.
  depths: dict[str, int] = {}
  queue = [name for name, role in roles.items() if role == "enter"]
  for name in queue:
    depths[name] = 1
  for name in queue:  # grows while it is walked
    for reader in readers.get(name, ()):
      depth = depths[name] + {"enter": 1, "exit": -1}.get(roles[reader] or "", 0)
      if depths.get(reader, 0) < depth <= _MOST_LOOPS:
        depths[reader] = depth
        queue.append(reader)
  return set(depths)


def _is_training(node: Node) -> bool:
  """Returns whether a node computes a gradient, by the scope that `tf.gradients` and optimizers give its name."""
  return any(re.fullmatch(r"gradients(_\d+)?", part) for part in node.name.split("/")[:-1])


def _values(node: Node, graph: Graph) -> dict[TensorRef, TensorSpec]:
  """Returns the outputs of a node that are numbers; none if they are references, as of ops that assign to variables."""
  signature = graph.library.signature(node.op) or graph.signatures.get(node.op)
  if signature is None:
    # A user's op, which the graph by itself does not declare.
    ref = TensorRef(node.name)
    return {ref: TensorSpec(PartialShape(None), DType.INVALID, node.name)}
  if any(output.is_ref for output in signature.outputs):
    return {}
  num_outputs = 1 if traits_of(node.op).control_flow_v1 == "merge" else len(signature.output_types(node.attrs))
  refs = [TensorRef(node.name, index) for index in range(num_outputs)]
  specs = {ref: tensor_spec(ref, node, graph.library, graph.signatures) for ref in refs}
  return {ref: spec for ref, spec in specs.items() if spec.dtype not in _NOT_NUMBERS}


def _is_end(node: Node, nodes: Mapping[str, Node]) -> bool:
  role = traits_of(node.op).control_flow_v1
  if node.op == "Const" or traits_of(node.op).makes == "placeholder" or role not in (None, *_CONTROL_FLOW_RESULTS):
    return False
  # What comes straight from a Switch is a value of one branch alone, such as the pivots that TensorFlow leaves there.
  sources = [nodes[ref.node].op for ref in node.inputs if ref.node in nodes]
  return role is not None or not any(traits_of(op).control_flow_v1 in ("switch", "switch_n") for op in sources)
