"""Traces the custom gradients of live functions, which TensorFlow holds as Python functions."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graftax.convert._tensorflow import (
  TensorFlow,
  TfFunction,
  TfGraph,
  TfTensor,
  import_gradient_registry,
  import_tensorflow,
)
from graftax.convert.errors import ConversionError
from graftax.convert.live.captures import read_capture
from graftax.convert.live.variables import LiveVariables
from graftax.convert.program import CapturedTensor, CustomGradient, UnavailableCapture
from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  Graph,
  TensorRef,
  function_from_proto,
  graph_from_proto,
)
from graftax.ops_jax import ResourceHandle

__all__ = ["trace_gradients"]

_OP_TYPE = "_gradient_op_type"

# Each gradient function may have a custom gradient. Beyond this order, gradient functions are differentiated directly.
_MAX_ORDER = 3


def trace_gradients(
  concrete: TfFunction, library: FunctionLibrary, variables: LiveVariables
) -> tuple[dict[str, CustomGradient], FunctionLibrary]:
  """Returns the custom gradients that the graphs of a ConcreteFunction name, and the library with their functions.

  Args:
    concrete: the ConcreteFunction.
    library: its function library.
    variables: the variables of the program; those that only gradient functions read are added.
  """
  tf = import_tensorflow("Converting a custom gradient")
  registry = import_gradient_registry()
  gradients: dict[str, CustomGradient] = {}
  pending = [(forward, 1) for forward in _graphs(concrete.graph, concrete.function_def)]
  graphs = {id(forward.graph): forward for forward, _ in pending}
  while pending:
    forward, order = pending.pop()
    for op in forward.graph.get_operations():
      op_type = _op_type(op)
      if op_type is None or op_type in gradients:
        continue
      traced = _trace(tf, registry, op_type, op, order)
      if traced is None or _is_of_another_trace(traced, forward, graphs):
        continue
      inner = graph_from_proto(traced.graph.as_graph_def())
      function = function_from_proto(traced.function_def, library=inner.library)
      captures = _captures(tf, traced, function, inner, (forward, graphs), variables)
      gradients[op_type] = CustomGradient(function.name, (True,) * len(op.outputs), _results(traced), captures)
      library = library.replace({**inner.library, function.name: function})
      if order < _MAX_ORDER and not _is_lifted(traced.graph):
        found = _graphs(traced.graph, traced.function_def)
        pending += [(graph, order + 1) for graph in found]
        graphs.update((id(graph.graph), graph) for graph in found)
  return gradients, library


@dataclasses.dataclass(frozen=True)
class _Forward:
  """TensorFlow's graph of a function that may hold nodes with custom gradients.

  Attributes:
    graph: the graph.
    definitions: the FunctionDefs in the library that were made from the graph. There are several if a
      `tf.GradientTape` has differentiated the function, since TensorFlow then adds a copy with further results.
  """

  graph: TfGraph
  definitions: tuple[Any, ...]

  @functools.cached_property
  def positions(self) -> dict[str, int]:
    """Returns op name in the graph -> position of its node in each FunctionDef. Names may differ in a FunctionDef."""
    inputs = {tensor.op.name for tensor in self.graph.inputs}
    names = [op.name for op in self.graph.get_operations() if op.name not in inputs]
    return {name: position for position, name in enumerate(names)}


def _graphs(graph: TfGraph, definition: Any) -> list[_Forward]:
  """Returns `graph` and the graphs of all functions in its library."""
  graphs, definitions = {id(graph): graph}, {id(graph): [definition]}
  for name in graph._functions:
    function = graph._get_function(name)
    inner = getattr(function, "graph", None)
    if inner is not None:
      graphs[id(inner)] = inner
      definitions.setdefault(id(inner), []).append(function.definition)
  return [_Forward(graphs[key], tuple(definitions[key])) for key in graphs]


def _is_lifted(graph: TfGraph) -> bool:
  """Returns whether the graph contains StableHLO, which JAX differentiates after it is lifted."""
  return any(op.type == "XlaCallModule" for op in graph.get_operations())


def _op_type(op: Any) -> str | None:
  if op.type != "IdentityN":
    return None
  try:
    name: bytes = op.get_attr(_OP_TYPE)
  except ValueError:
    return None
  return name.decode()


def _trace(tf: TensorFlow, registry: Any, op_type: str, op: Any, order: int) -> TfFunction:
  """Returns the gradient function of a node as a ConcreteFunction; None if TensorFlow does not have it."""
  try:
    gradient = registry.lookup(op_type)
  except LookupError:
    return None  # the model was saved without it
  specs = [tf.TensorSpec(output.shape, output.dtype) for output in op.outputs]
  try:
    return tf.function(lambda *grads: gradient(op, *grads), autograph=False).get_concrete_function(*specs)
  except NotImplementedError:
    if order == 1:
      raise
    return None  # TensorFlow cannot differentiate this gradient function (`tf.recompute_grad`)


def _is_of_another_trace(traced: TfFunction, forward: _Forward, graphs: Mapping[int, _Forward]) -> bool:
  """Returns whether a gradient function reads tensors of a function that is neither in the program nor encloses it.

  This happens if a process loads a model that it saved without gradients. The loaded copy then names the gradients of
  the original functions, which do not apply to the copy.
  """
  known = {*graphs, *(id(outer) for graph in graphs.values() for outer in _outer_graphs(graph.graph))}
  inner = {id(tensor) for tensor, _ in forward.graph.captures}
  tensors = [tensor for tensor in traced.captured_inputs if not hasattr(tensor, "numpy")]
  return any(id(tensor.graph) not in known and id(tensor) not in inner for tensor in tensors)


def _outer_graphs(graph: TfGraph) -> Iterator[TfGraph]:
  while (graph := getattr(graph, "outer_graph", None)) is not None:
    yield graph


def _results(traced: TfFunction) -> tuple[int | None, ...]:
  """Returns, for each input of the node, the index of the result that is its cotangent; None if there is none."""
  results: list[int | None] = []
  for output in traced.structured_outputs:
    results.append(None if output is None else sum(r is not None for r in results))
  return tuple(results)


def _captures(
  tf: TensorFlow,
  traced: TfFunction,
  function: Function,
  graph: Graph,
  forward: tuple[_Forward, Mapping[int, _Forward]],
  variables: LiveVariables,
) -> tuple[CapturedTensor | ResourceHandle | np.ndarray, ...]:
  """Returns the captures of a gradient function.

  Args:
    tf: TensorFlow.
    traced: the gradient function.
    function: the gradient function as a `Function`.
    graph: the graph that contains it.
    forward: the graph with the differentiated node, and all graphs of the program by id.
    variables: the variables of the program; those that only the gradient function reads are added.
  """
  variables.watch(traced.graph.variables)
  captures: list[CapturedTensor | ResourceHandle | np.ndarray] = []
  for position, tensor in enumerate(traced.captured_inputs, len(function.parameters) - len(traced.captured_inputs)):
    if hasattr(tensor, "numpy"):
      capture = read_capture(tf, tensor, position, function, graph, variables)
      if isinstance(capture, UnavailableCapture):
        raise ConversionError(f"gradient function {function.name!r}: {capture.what}, which has no JAX counterpart.")
      captures.append(capture)
    else:
      captures.append(_captured_tensor(tensor, *forward))
  return tuple(captures)


def _captured_tensor(tensor: TfTensor, forward: _Forward, graphs: Mapping[int, _Forward]) -> CapturedTensor:
  if tensor.graph is not forward.graph:
    # If a branch of a conditional reads a tensor of the enclosing graph, the tensor is a parameter of the branch.
    inner = next((inner for outer, inner in forward.graph.captures if outer is tensor), None)
    forward, tensor = (forward, inner) if inner is not None else (graphs.get(id(tensor.graph), forward), tensor)
  if tensor.graph is not forward.graph:
    # The tensor belongs to an enclosing function that is being traced: an error if the program runs the node.
    return CapturedTensor(tensor.graph.name, TensorRef(tensor.op.name, tensor.value_index))
  refs = [(definition.signature.name, _ref(tensor, forward, definition)) for definition in forward.definitions]
  return CapturedTensor(*refs[0], copies=tuple(refs[1:]))


def _ref(tensor: TfTensor, forward: _Forward, definition: Any) -> TensorRef:
  """Returns a tensor of the graph as one of a FunctionDef, which renames a node if a result has the same name."""
  for parameter, argument in zip(forward.graph.inputs, definition.signature.input_arg, strict=True):
    if parameter is tensor:
      return TensorRef(argument.name)
  node = definition.node_def[forward.positions[tensor.op.name]]
  if node.op != tensor.op.type:
    raise AssertionError(f"internal: {tensor.op.name!r} is not at its place in {definition.signature.name!r}.")
  return TensorRef(node.name, tensor.value_index)
