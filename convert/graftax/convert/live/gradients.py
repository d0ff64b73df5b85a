"""Custom gradients of live functions: TensorFlow holds them as Python, so it traces them once more for us."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from graftax.convert._tensorflow import import_gradient_registry, import_tensorflow
from graftax.convert.errors import ConversionError
from graftax.convert.live.captures import read_capture
from graftax.convert.live.variables import LiveVariables
from graftax.convert.planning.custom_gradient import CapturedTensor, CustomGradient
from graftax.convert.program import UnavailableCapture
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

# Any in this module: TensorFlow ships no type information.

_OP_TYPE = "_gradient_op_type"

# A derivative may have a custom derivative of its own, without end. Beyond this order its forward pass is
# differentiated.
_MAX_ORDER = 3


def trace_gradients(
  concrete: Any, library: FunctionLibrary, variables: LiveVariables
) -> tuple[dict[str, CustomGradient], FunctionLibrary]:
  """The custom gradients that a ConcreteFunction's graphs name, and the library with their functions added.

  Args:
    concrete: the ConcreteFunction.
    library: its function library.
    variables: the program's variables; gets those that only derivatives read.
  """
  tf = import_tensorflow("Converting a custom gradient")
  registry = import_gradient_registry()
  gradients: dict[str, CustomGradient] = {}
  pending = [(graph, signature, 1) for graph, signature in _graphs(concrete.graph, concrete.function_def.signature)]
  while pending:
    graph, signature, order = pending.pop()
    for op in graph.get_operations():
      op_type = _op_type(op)
      if op_type is None or op_type in gradients:
        continue
      try:
        traced = _trace(tf, registry.lookup(op_type), op)
      except NotImplementedError:
        if order == 1:
          raise
        # TensorFlow itself cannot differentiate once more (`tf.recompute_grad`); JAX differentiates what is computed.
        continue
      inner = graph_from_proto(traced.graph.as_graph_def())
      function = function_from_proto(traced.function_def, library=inner.library)
      captures = _captures(tf, traced, function, inner, (graph, signature), variables)
      gradients[op_type] = CustomGradient(function.name, (True,) * len(op.outputs), _results(traced), captures)
      library = library.replace({**inner.library, function.name: function})
      if order < _MAX_ORDER and not _is_lifted(traced.graph):
        pending += [(g, s, order + 1) for g, s in _graphs(traced.graph, traced.function_def.signature)]
  return gradients, library


def _graphs(graph: Any, signature: Any) -> Iterator[tuple[Any, Any]]:
  """`graph` and the graphs of all functions that it knows, with the signatures that they have in the library."""
  yield graph, signature
  for name in graph._functions:
    function = graph._get_function(name)
    if getattr(function, "graph", None) is not None:
      yield function.graph, function.definition.signature


def _is_lifted(graph: Any) -> bool:
  """Whether derivatives of this graph come from StableHLO, which JAX differentiates itself once it is lifted."""
  return any(op.type == "XlaCallModule" for op in graph.get_operations())


def _op_type(op: Any) -> str | None:
  if op.type != "IdentityN":
    return None
  try:
    name: bytes = op.get_attr(_OP_TYPE)
  except ValueError:
    return None
  return name.decode()


def _trace(tf: Any, gradient: Any, op: Any) -> Any:
  specs = [tf.TensorSpec(output.shape, output.dtype) for output in op.outputs]
  return tf.function(lambda *grads: gradient(op, *grads), autograph=False).get_concrete_function(*specs)


def _results(traced: Any) -> tuple[int | None, ...]:
  """For each input of the node, which result of the gradient function is its cotangent."""
  results: list[int | None] = []
  for output in traced.structured_outputs:
    results.append(None if output is None else sum(r is not None for r in results))
  return tuple(results)


def _captures(
  tf: Any, traced: Any, function: Function, graph: Graph, forward: tuple[Any, Any], variables: LiveVariables
) -> tuple[CapturedTensor | ResourceHandle | np.ndarray, ...]:
  """What a gradient function closes over; `forward` is the graph that its node is in, and the signature of that."""
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


def _captured_tensor(tensor: Any, graph: Any, signature: Any) -> CapturedTensor:
  if tensor.graph is not graph:
    # The branch of a conditional sees a tensor of the graph around it as one of its own parameters.
    tensor = next((inner for outer, inner in graph.captures if outer is tensor), tensor)
  for parameter, argument in zip(graph.inputs, signature.input_arg, strict=True):
    if parameter is tensor:
      return CapturedTensor(signature.name, TensorRef(argument.name))
  return CapturedTensor(signature.name, TensorRef(tensor.op.name, tensor.value_index))
