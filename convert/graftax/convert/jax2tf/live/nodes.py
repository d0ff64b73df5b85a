"""Puts an XlaCallModule node into the current TensorFlow graph."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

# Only functions that are exported need this package, which takes long to import.
if TYPE_CHECKING:
  from graftax.xla_call_module.exporting import CallModule

__all__ = ["call_module_node", "open_shape"]

# Any in this module: TensorFlow ships no type information.


def call_module_node(tf: Any, module: "CallModule", args: Sequence[Any]) -> list[Any]:
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
  scope = tf.get_current_name_scope()
  results: list[Any] = tf.graph_util.import_graph_def(
    graph_def,
    input_map={f"{name}:0": operand for name, operand in zip(names, operands, strict=True)},
    return_elements=[f"XlaCallModule:{i}" for i in range(len(module.outputs))],
    name=f"{scope}/" if scope else "",
  )
  return results


def open_shape(spec: Any) -> list[int | None]:
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
