"""Custom gradients of live functions: TensorFlow holds them as Python, so it traces them once more for us."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from graftax.convert._tensorflow import import_gradient_registry, import_tensorflow
from graftax.convert.planning.custom_gradient import CapturedTensor, CustomGradient
from graftax.graphdef_ir import FunctionLibrary, TensorRef, function_from_proto, graph_from_proto
from graftax.ops_jax import ResourceHandle

__all__ = ["trace_gradients"]

# Any in this module: TensorFlow ships no type information.

_OP_TYPE = "_gradient_op_type"

# A derivative may have a custom derivative of its own, without end. Beyond this order its forward pass is
# differentiated.
_MAX_ORDER = 3


def trace_gradients(
  concrete: Any, library: FunctionLibrary, handles: dict[int, ResourceHandle]
) -> tuple[dict[str, CustomGradient], FunctionLibrary]:
  """The custom gradients that a ConcreteFunction's graphs name, and the library with their functions added.

  Args:
    concrete: the ConcreteFunction.
    library: its function library.
    handles: id of a variable's handle tensor -> the handle in the program.
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
      gradients[op_type] = _custom_gradient(traced, op, graph, signature, handles)
      inner = graph_from_proto(traced.graph.as_graph_def()).library
      function = function_from_proto(traced.function_def, library=inner)
      library = library.replace({**inner, function.name: function})
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


def _custom_gradient(
  traced: Any, op: Any, graph: Any, signature: Any, handles: dict[int, ResourceHandle]
) -> CustomGradient:
  results: list[int | None] = []
  for output in traced.structured_outputs:
    results.append(None if output is None else sum(r is not None for r in results))
  captures = tuple(_capture(tensor, graph, signature, handles) for tensor in traced.captured_inputs)
  return CustomGradient(traced.function_def.signature.name, (True,) * len(op.outputs), tuple(results), captures)


def _capture(
  tensor: Any, graph: Any, signature: Any, handles: dict[int, ResourceHandle]
) -> CapturedTensor | ResourceHandle | np.ndarray:
  if id(tensor) in handles:
    return handles[id(tensor)]
  if not hasattr(tensor, "graph"):
    return np.asarray(tensor.numpy())
  if tensor.graph is not graph:
    # The branch of a conditional sees a tensor of the graph around it as one of its own parameters.
    tensor = next((inner for outer, inner in graph.captures if outer is tensor), tensor)
  for parameter, argument in zip(graph.inputs, signature.input_arg, strict=True):
    if parameter is tensor:
      return CapturedTensor(signature.name, TensorRef(argument.name))
  return CapturedTensor(signature.name, TensorRef(tensor.op.name, tensor.value_index))
