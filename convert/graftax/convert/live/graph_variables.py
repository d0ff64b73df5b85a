"""Reads variables that are created by nodes of a live program, as in a restored TF1 model."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfTensor
from graftax.convert.live.variables import LiveVariables
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.variable import variable_name
from graftax.graphdef_ir import DType, Function, FunctionLibrary, Node, OpSignatures, PartialShape, traits_of

__all__ = ["read_graph_variables"]


def read_graph_variables(
  tf: TensorFlow, function: Function, library: FunctionLibrary, signatures: OpSignatures, variables: LiveVariables
) -> tuple[Function, FunctionLibrary]:
  """Returns the function and its library with each variable named after its node.

  TensorFlow stores the value of such a variable under the node's `shared_name`, which it generates when it loads a
  model.

  Args:
    tf: TensorFlow.
    function: the function.
    library: the functions that it calls.
    signatures: signatures of all ops.
    variables: the variables are added to this, except those without a value: a function may assign before it reads.
  """
  holders = [f for f in (function, *library.values()) if any(_makes_variable(node) for node in f.nodes)]
  if not holders:
    return function, library
  effects = EffectAnalysis(library, signatures)
  names: dict[str, str] = {}
  for holder in holders:
    for node in _needed_variables(holder, effects):
      resource = variable_name(node)
      value = None if resource in names else _value(tf, node, variables)
      if value is not None:
        names[resource] = variables.add(node.name, value)
  named = {holder.name: _named(holder, names) for holder in holders}
  return named.get(function.name, function), library.replace({n: f for n, f in named.items() if n in library})


def _needed_variables(function: Function, effects: EffectAnalysis) -> Iterator[Node]:
  needed = effects.needed_nodes(function)
  return (node for node in function.nodes if _makes_variable(node) and node.name in needed)


def _named(function: Function, names: dict[str, str]) -> Function:
  nodes = (
    dataclasses.replace(node, attrs={**node.attrs, "shared_name": names[variable_name(node)].encode()})
    if _makes_variable(node) and variable_name(node) in names
    else node
    for node in function.nodes
  )
  return dataclasses.replace(function, nodes=tuple(nodes))


def _value(tf: TensorFlow, node: Node, variables: LiveVariables) -> np.ndarray | None:
  """Returns the current value of the variable; None if it has none, or if JAX cannot hold it."""
  dtype, shape, container = node.attrs.get("dtype"), node.attrs.get("shape"), node.attrs.get("container")
  if not isinstance(dtype, DType) or dtype is DType.STRING:
    return None
  attrs = {
    "dtype": tf.as_dtype(int(dtype)),
    "shape": tf.TensorShape(shape.dims if isinstance(shape, PartialShape) else None),
    "container": container.decode() if isinstance(container, bytes) else "",
    "shared_name": variable_name(node),
  }

  def read() -> TfTensor:
    if node.op == "VarHandleOp":
      return tf.raw_ops.ReadVariableOp(resource=tf.raw_ops.VarHandleOp(**attrs), dtype=attrs["dtype"])
    return tf.identity(tf.raw_ops.VariableV2(**attrs))

  if variables.skips_values and attrs["shape"].is_fully_defined():
    return np.zeros(attrs["shape"].as_list(), attrs["dtype"].as_numpy_dtype)
  with tf.init_scope():
    try:
      return np.asarray(tf.function(read, autograph=False).get_concrete_function()().numpy())
    except tf.errors.FailedPreconditionError:
      return None


def _makes_variable(node: Node) -> bool:
  return traits_of(node.op).makes == "variable"
