"""Reads the contents of a live lookup table."""

from typing import Any

import numpy as np

__all__ = ["table_contents"]

# Any in this module: TensorFlow ships no type information.


def table_contents(tf: Any, handle: Any, key_type: int, value_type: int) -> tuple[np.ndarray, np.ndarray]:
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


def _dense_table_contents(tf: Any, handle: Any, keys: np.ndarray, values: Any) -> tuple[np.ndarray, np.ndarray]:
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


def _find(tf: Any, handle: Any, keys: np.ndarray, values: Any) -> Any:
  """Returns the values of keys; None if the table does not accept keys of this shape."""
  shapes: tuple[Any, ...] = ((), values.shape[1:])
  for shape in shapes:
    default = tf.zeros(shape, values.dtype)
    try:
      return tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=tf.constant(keys), default_value=default)
    except tf.errors.InvalidArgumentError:
      continue
  return None


def _array(tf: Any, tensor: Any) -> np.ndarray:
  return np.asarray(tensor.numpy(), object if tensor.dtype == tf.string else None)
