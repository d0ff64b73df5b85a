"""What a ConcreteFunction closes over: variables, constants, tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graftax.convert.errors import ConversionError
from graftax.convert.live.tables import table_contents
from graftax.convert.planning.parameter_uses import parameter_uses
from graftax.convert.program import Capture, UnavailableCapture
from graftax.convert.tables import table_capture
from graftax.convert.variable import Variable
from graftax.graphdef_ir import DType, Function, Graph
from graftax.ops_jax import ResourceHandle

__all__ = ["read_captures"]

# Any in this module: TensorFlow ships no type information.


def read_captures(
  tf: Any, concrete: Any, function: Function, graph: Graph, *, skip_values: bool
) -> tuple[tuple[Capture, ...], dict[str, Variable], dict[int, ResourceHandle]]:
  """Captures, values of variables by name, and handles by the id of TensorFlow's handle tensor.

  Args:
    tf: TensorFlow.
    concrete: the ConcreteFunction.
    function: the same in our form.
    graph: the graph that it is in.
    skip_values: leave variables unread where TensorFlow is tracing; their values are zeros then.

  Raises:
    ConversionError: it captures a tensor of a function around it, which has no value now.
  """
  by_id = {id(variable.handle): variable for variable in concrete.graph.variables}
  handles: dict[int, ResourceHandle] = {}
  variables: dict[str, Variable] = {}
  captures: list[Capture] = []
  start = len(function.parameters) - len(concrete.captured_inputs)
  for position, capture in enumerate(concrete.captured_inputs, start):
    variable = by_id.get(id(capture))
    if variable is not None and variable.dtype == tf.string:
      captures.append(UnavailableCapture(f"variable {variable.name!r} holds strings"))
    elif variable is not None:
      if id(capture) not in handles:
        name = _unique_name(variable.name.removesuffix(":0"), variables)
        handles[id(capture)] = ResourceHandle(name)
        variables[name] = Variable(_value(tf, variable, skip_values), variable.name, variable.trainable)
      captures.append(handles[id(capture)])
    elif capture.dtype in (tf.resource, tf.variant):
      captures.append(_resource(tf, capture, position, function, graph))
    else:
      captures.append(_constant(tf, capture, concrete))
  return tuple(captures), variables, handles


def _value(tf: Any, variable: Any, skip_values: bool) -> np.ndarray:
  if skip_values and tf.inside_function():
    return np.broadcast_to(np.zeros((), variable.dtype.as_numpy_dtype), variable.shape.as_list())
  with tf.init_scope():
    return np.asarray(variable.numpy())


def _constant(tf: Any, capture: Any, concrete: Any) -> np.ndarray:
  if not hasattr(capture, "numpy"):
    raise ConversionError(
      f"{concrete.name}: captures {capture.name!r}, a tensor of a function around it that is being traced and "
      f"so has no "
      f"value. Convert outside of tf.function, or make the tensor an argument."
    )
  return np.asarray(capture.numpy(), object if capture.dtype == tf.string else None)


def _resource(tf: Any, capture: Any, position: int, function: Function, graph: Graph) -> Capture:
  """A table with its contents now; anything else as what JAX cannot hold."""
  name = function.parameters[position].name
  uses = parameter_uses(function, graph.library, graph.signatures, [position])[position]
  for node, _ in uses:
    key_type, value_type = node.attrs.get("Tin"), node.attrs.get("Tout")
    if node.op.startswith("LookupTable") and isinstance(key_type, DType) and isinstance(value_type, DType):
      with tf.init_scope():
        return table_capture(name, *table_contents(tf, capture, int(key_type), int(value_type)))
  readers = sorted({node.op for node, _ in uses})
  return UnavailableCapture(f"resource {name!r}, of a kind that only {', '.join(readers) or 'nothing'} reads,")


def _unique_name(name: str, taken: Mapping[str, Any]) -> str:
  """`name`, or `name_1`, `name_2`, ... where other variables have it already, as in TF2JAX."""
  if name not in taken:
    return name
  number = 1
  while f"{name}_{number}" in taken:
    number += 1
  return f"{name}_{number}"
