"""Reads the captures of a ConcreteFunction: variables, constants and tables."""

import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfFunction, TfTensor
from graftax.convert.errors import ConversionError
from graftax.convert.live.tables import table_contents
from graftax.convert.live.variables import LiveVariables
from graftax.convert.planning.parameter_uses import parameter_uses
from graftax.convert.program import Capture, UnavailableCapture
from graftax.convert.tables.graph_tables import table_capture
from graftax.graphdef_ir import DType, Function, Graph, Node

__all__ = ["read_capture", "read_captures"]


def read_captures(
  tf: TensorFlow, concrete: TfFunction, function: Function, graph: Graph, variables: LiveVariables
) -> tuple[Capture, ...]:
  """Returns the captures of a ConcreteFunction, one for each of `concrete.captured_inputs`.

  Args:
    tf: TensorFlow.
    concrete: the ConcreteFunction.
    function: the ConcreteFunction as a `Function`.
    graph: the graph that contains it.
    variables: the captured variables are added to this.

  Raises:
    ConversionError: it captures a tensor of an enclosing function that is being traced.
  """
  variables.watch(concrete.graph.variables)
  start = len(function.parameters) - len(concrete.captured_inputs)
  return tuple(
    read_capture(tf, tensor, position, function, graph, variables)
    for position, tensor in enumerate(concrete.captured_inputs, start)
  )


def read_capture(
  tf: TensorFlow, tensor: TfTensor, position: int, function: Function, graph: Graph, variables: LiveVariables
) -> Capture:
  """Returns the capture to which the parameter of `function` at `position` is bound; see `read_captures`."""
  if tensor.dtype not in (tf.resource, tf.variant):
    return _constant(tf, tensor, function)
  return variables.find(tensor) or _resource(tf, tensor, position, function, graph, variables)


def _constant(tf: TensorFlow, capture: TfTensor, function: Function) -> np.ndarray:
  if not hasattr(capture, "numpy"):
    raise ConversionError(
      f"{function.name}: captures {capture.name!r}, a tensor of a function around it that is being traced, so it "
      f"has no value. Convert outside of tf.function, or make the tensor an argument."
    )
  return np.asarray(capture.numpy(), object if capture.dtype == tf.string else None)


def _resource(
  tf: TensorFlow, capture: TfTensor, position: int, function: Function, graph: Graph, variables: LiveVariables
) -> Capture:
  """Returns a table with its current contents, or a variable given by its handle; JAX cannot hold other resources."""
  name = function.parameters[position].name
  readers = [node for node, _ in parameter_uses(function, graph.library, graph.signatures, [position])[position]]
  types = next(filter(None, map(_table_types, readers)), None)
  if types is not None:
    with tf.init_scope():
      return table_capture(name, *table_contents(tf, capture, *types))
  variable = variables.find_raw(capture, readers, name) if capture.dtype == tf.resource else None
  ops = sorted({node.op for node in readers})
  return variable or UnavailableCapture(f"resource {name!r}, of a kind that only {', '.join(ops) or 'nothing'} reads,")


def _table_types(node: Node) -> tuple[int, int] | None:
  """Returns TensorFlow's numbers of the key and value dtypes if the node reads a table, else None."""
  key_type, value_type = node.attrs.get("Tin"), node.attrs.get("Tout")
  if node.op.startswith("LookupTable") and isinstance(key_type, DType) and isinstance(value_type, DType):
    return int(key_type), int(value_type)
  return None
