"""Runs exported StableHLO modules in TensorFlow."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graftax.testing._tensorflow import TensorFlow, TfTensor, import_tensorflow

__all__ = ["run_call_module"]


def run_call_module(
  attributes: Mapping[str, Any], arguments: Sequence[Any], outputs: Sequence[Any], *, jit_compile: bool = False
) -> list[np.ndarray]:
  """Runs one XlaCallModule node in a TensorFlow graph.

  Args:
    attributes: the attributes of the node by name, without `Tin`, `Tout` and `Sout`.
    arguments: the node's inputs.
    outputs: shape and dtype of each result; dimensions that are not integers are left open.
    jit_compile: whether XLA compiles the whole graph, and not only the node.

  Returns:
    The results as NumPy arrays.

  Raises:
    tensorflow.errors.OpError: TensorFlow does not compile or run the module.
    LibraryNotFoundError: TensorFlow is not installed.
  """
  tf = import_tensorflow()
  types = [tf.as_dtype(np.dtype(output.dtype)) for output in outputs]
  operands = [tf.convert_to_tensor(argument) for argument in arguments]
  graph_def = _graph_def(tf, attributes, [operand.dtype for operand in operands], outputs, types)

  @tf.function(autograph=False, jit_compile=jit_compile)
  def call(*operands: TfTensor) -> TfTensor:
    given = {f"x{i}": operand for i, operand in enumerate(operands)}
    return tf.graph_util.import_graph_def(graph_def, given, [f"call:{i}" for i in range(len(types))], name="")

  return [np.asarray(result) for result in call(*operands)]


def _graph_def(
  tf: TensorFlow,
  attributes: Mapping[str, Any],
  inputs: Sequence[TfTensor],
  outputs: Sequence[Any],
  types: Sequence[Any],
) -> Any:
  graph_def = tf.compat.v1.GraphDef()
  for i, kind in enumerate(inputs):
    node = graph_def.node.add(op="Placeholder", name=f"x{i}")
    node.attr["dtype"].type = kind.as_datatype_enum
  node = graph_def.node.add(op="XlaCallModule", name="call", input=[f"x{i}" for i in range(len(inputs))])
  for name, value in _attributes(tf, attributes, outputs, types).items():
    node.attr[name].CopyFrom(value)
  node.attr["Tin"].list.type.extend(kind.as_datatype_enum for kind in inputs)
  return graph_def


def _attributes(
  tf: TensorFlow, attributes: Mapping[str, Any], outputs: Sequence[Any], types: Sequence[Any]
) -> dict[str, Any]:
  value = tf.compat.v1.AttrValue
  found = {name: _encoded(value, given) for name, given in attributes.items()}
  found["Tout"] = value(list=value.ListValue(type=[kind.as_datatype_enum for kind in types]))
  shapes = [[dim if isinstance(dim, int) else None for dim in output.shape] for output in outputs]
  found["Sout"] = value(list=value.ListValue(shape=[tf.TensorShape(shape).as_proto() for shape in shapes]))
  return found


def _encoded(value: Any, given: Any) -> Any:
  if isinstance(given, bool):
    return value(b=given)
  if isinstance(given, int):
    return value(i=given)
  if isinstance(given, bytes):
    return value(s=given)
  return value(list=value.ListValue(s=[text.encode() for text in given]))
