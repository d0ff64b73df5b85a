"""Puts a traced JAX function into the current TensorFlow graph: an XlaCallModule node, or plain ops."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from graftax.convert._tensorflow import TensorFlow, TfTensor, define_functions
from graftax.convert.jax2tf.node_forms import NodeForm, StableHlo, unique_name
from graftax.convert.jax2tf.short_integer_nodes import copy_name
from graftax.convert.jax2tf.traced_function import TracedFunction
from graftax.graphdef_ir import DType, FunctionLibrary, Graph, TensorRef, graph_to_proto
from graftax.ops_jax import Array

# Only functions that are exported need this package, which takes long to import.
if TYPE_CHECKING:
  from graftax.xla_call_module.exporting import CallModule

__all__ = ["function_nodes", "open_shape"]


def function_nodes(tf: TensorFlow, form: NodeForm, traced: TracedFunction, args: Sequence[TfTensor]) -> list[TfTensor]:
  """Returns the results of a function, computed by new nodes of a form.

  Args:
    tf: TensorFlow.
    form: how the function becomes nodes.
    traced: the function.
    args: one tensor of the current graph for each input of the function.
  """
  if isinstance(form, StableHlo):
    module = form.module(traced)
    results = _call_module_node(tf, module, _to_bytes(tf, args, module.inputs))
    return _from_bytes(tf, results, traced.outputs)
  names = [f"operand_{i}" for i in range(len(args))]
  body = form.body(traced, [TensorRef(name) for name in names], unique_name(form, traced))
  message = graph_to_proto(Graph(body.nodes, FunctionLibrary(body.functions)))
  graph_def = tf.compat.v1.GraphDef.FromString(message.SerializeToString())
  return _imported(tf, graph_def, dict(zip(names, args, strict=True)), [str(ref) for ref in body.results])


def _to_bytes(tf: TensorFlow, tensors: Sequence[TfTensor], specs: Sequence[jax.ShapeDtypeStruct]) -> list[TfTensor]:
  """Returns the tensors with the dtypes of specs, which differ for integers below 8 bits only."""
  return [
    _copy(tf, tf.cast(x, y.dtype), x, y) if x.dtype != y.dtype else x for x, y in zip(tensors, specs, strict=True)
  ]


def _from_bytes(tf: TensorFlow, tensors: Sequence[TfTensor], specs: Sequence[jax.ShapeDtypeStruct]) -> list[TfTensor]:
  """Returns the tensors with the dtypes of specs, as `_to_bytes`."""
  return [
    tf.cast(_copy(tf, x, y, x), y.dtype) if x.dtype != y.dtype else x for x, y in zip(tensors, specs, strict=True)
  ]


def _copy(tf: TensorFlow, tensor: TfTensor, short: TfTensor, whole: TfTensor) -> TfTensor:
  """Returns a tensor of whole bytes by a node that XLA cannot compile."""
  name = copy_name(*(DType(tf.as_dtype(x.dtype).as_datatype_enum) for x in (short, whole)))
  return tf.raw_ops.DeepCopy(x=tensor, name=name)


def _call_module_node(tf: TensorFlow, module: "CallModule", args: Sequence[TfTensor]) -> list[TfTensor]:
  """Returns the results of a new XlaCallModule node.

  Args:
    tf: TensorFlow.
    module: the module that the node runs.
    args: one tensor of the current graph for each of `module.inputs`; the node takes those that the module keeps.
  """
  operands = [args[i] for i in module.kept]
  graph_def = tf.compat.v1.GraphDef()
  names = [f"operand_{i}" for i in range(len(operands))]
  node = graph_def.node.add(name="XlaCallModule", op="XlaCallModule", input=names)
  node.attr["Tin"].list.SetInParent()
  node.attr["Tin"].list.type.extend(operand.dtype.as_datatype_enum for operand in operands)
  node.attr["Tout"].list.SetInParent()
  node.attr["Tout"].list.type.extend(tf.as_dtype(output.dtype).as_datatype_enum for output in module.outputs)
  node.attr["Sout"].list.SetInParent()
  node.attr["Sout"].list.shape.extend(tf.TensorShape(open_shape(output)).as_proto() for output in module.outputs)
  for name, value in module.attributes.items():
    _set(node.attr[name], value)
  results = [f"XlaCallModule:{i}" for i in range(len(module.outputs))]
  return _imported(tf, graph_def, dict(zip(names, operands, strict=True)), results)


def _imported(tf: TensorFlow, graph_def: Any, inputs: Mapping[str, TfTensor], results: Sequence[str]) -> list[TfTensor]:
  """Returns tensors of a GraphDef that is added to the current graph, with tensors for some names."""
  scope = tf.get_current_name_scope()
  define_functions(graph_def.library)
  direct = {ref: inputs[ref] for ref in results if ref in inputs}
  used = {name for node in graph_def.node for name in node.input}
  found = tf.graph_util.import_graph_def(
    graph_def,
    input_map={f"{name}:0": operand for name, operand in inputs.items() if name in used},
    return_elements=[ref if ":" in ref else f"{ref}:0" for ref in results if ref not in direct],
    name=f"{scope}/" if scope else "",
  )
  computed = iter(found)
  return [direct[ref] if ref in direct else next(computed) for ref in results]


def open_shape(spec: jax.ShapeDtypeStruct | Array) -> list[int | None]:
  """Returns the shape of a spec with None for each dimension that has a name."""
  return [dim if isinstance(dim, int) else None for dim in spec.shape]


def _set(attribute: Any, value: Any) -> None:
  match value:
    case bool():
      attribute.b = value
    case int():
      attribute.i = value
    case bytes() | str():
      attribute.s = value.encode() if isinstance(value, str) else value
    case tuple() | list():
      attribute.list.SetInParent()
      attribute.list.s.extend(item.encode() if isinstance(item, str) else item for item in value)
    case _:
      raise AssertionError(f"internal: attribute of type {type(value).__name__} of an XlaCallModule node.")
