"""Reads the contents of live lookup tables."""

from typing import Any

import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfTensor
from graftax.convert.program import Capture, Program
from graftax.convert.tables.graph_tables import capture_tables, fills_of, table_capture, table_makers
from graftax.convert.variable import variable_name
from graftax.graphdef_ir import DType, Node, PartialShape

__all__ = ["table_contents", "with_graph_tables"]


def table_contents(tf: TensorFlow, handle: TfTensor, key_type: int, value_type: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns all keys of a table and their current values.

  Args:
    tf: TensorFlow.
    handle: the table's resource handle, an eager tensor.
    key_type: TensorFlow's number of the keys' dtype.
    value_type: TensorFlow's number of the values' dtype.
  """
  keys, values = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=key_type, Tvalues=value_type)
  if keys.shape.rank == 1:
    return _array(tf, keys), _array(tf, values)
  return _dense_table_contents(tf, handle, _array(tf, keys), values)


def with_graph_tables(tf: TensorFlow, program: Program) -> Program:
  """Returns the program with captures in place of the nodes of its function that create tables.

  In a function of a restored TF1 model, nodes refer to tables by their `shared_name`. The capture has the current
  contents. A node stays if the function fills the table itself, or if TensorFlow has not filled it.
  """
  function = program.function
  makers = [node for node in table_makers(function) if not node.inputs and not fills_of(node, function)]
  tables = {node.name: _graph_table(tf, node) for node in makers}
  return capture_tables(program, {name: table for name, table in tables.items() if table is not None})


def _graph_table(tf: TensorFlow, node: Node) -> Capture | None:
  """Returns the table that a node refers to; None if it is not initialized."""
  attrs = {name: _attribute(tf, value) for name, value in node.attrs.items() if not name.startswith("_")}
  attrs["shared_name"] = variable_name(node)
  make = getattr(tf.raw_ops, f"{node.op.removesuffix('V2')}V2")
  types = attrs["key_dtype"].as_datatype_enum, attrs["value_dtype"].as_datatype_enum
  with tf.init_scope():
    try:
      return table_capture(node.name, *table_contents(tf, make(**attrs), *types), maker=node.op)
    except tf.errors.FailedPreconditionError:
      return None


def _attribute(tf: TensorFlow, value: object) -> Any:
  match value:
    case DType():
      return tf.as_dtype(int(value))
    case PartialShape():
      return tf.TensorShape(value.dims)
    case bytes():
      return value.decode()
  return value


def _dense_table_contents(
  tf: TensorFlow, handle: TfTensor, keys: np.ndarray, values: TfTensor
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the contents of a DenseHashTable.

  Its export lists all buckets. Free and deleted buckets hold marker keys, and scalars are exported with shape `[1]`.
  """
  rows, counts = np.unique(keys, axis=0, return_counts=True)
  # Only the marker keys of free and deleted buckets can occur more than once.
  rows = rows[counts == 1]
  size = int(tf.raw_ops.LookupTableSizeV2(table_handle=handle))
  markers = (row for row in rows if _find(tf, handle, row[None], values) is None)
  while len(rows) > size:
    marker = next(markers)
    rows = rows[(rows != marker).any(axis=1)]
  if not len(rows):
    return np.zeros(0, keys.dtype), np.zeros(0, _array(tf, values).dtype)
  if rows.shape[1] == 1 and _find(tf, handle, rows[:, 0], values) is not None:
    rows = rows[:, 0]
  return rows, _array(tf, _find(tf, handle, rows, values))


def _find(tf: TensorFlow, handle: TfTensor, keys: np.ndarray, values: TfTensor) -> TfTensor:
  """Returns the values of keys; None if the table does not accept keys of this shape."""
  shapes: tuple[Any, ...] = ((), values.shape[1:])
  for shape in shapes:
    default = tf.zeros(shape, values.dtype)
    try:
      return tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=tf.constant(keys), default_value=default)
    except tf.errors.InvalidArgumentError:
      continue
  return None


def _array(tf: TensorFlow, tensor: TfTensor) -> np.ndarray:
  return np.asarray(tensor.numpy(), object if tensor.dtype == tf.string else None)
