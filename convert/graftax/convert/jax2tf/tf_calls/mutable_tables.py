"""Lookup tables whose contents can change; compiled code would not see that."""

from collections.abc import Sequence

from graftax.convert._tensorflow import TensorFlow, TfTensor
from graftax.convert.errors import ConversionError
from graftax.convert.program import Capture
from graftax.ops_jax import LookupTable

__all__ = ["refuse_mutable_tables"]


def refuse_mutable_tables(
  tf: TensorFlow, name: str, captures: Sequence[Capture], captured_inputs: Sequence[TfTensor]
) -> None:
  """Raises ConversionError if a function captures a table to which keys can be added.

  Args:
    tf: TensorFlow.
    name: the name of the function, for the message.
    captures: its captures.
    captured_inputs: TensorFlow's tensor for each of them.
  """
  for capture, handle in zip(captures, captured_inputs, strict=True):
    if isinstance(capture, LookupTable) and _is_mutable(tf, capture, handle):
      raise ConversionError(
        f"call_tf: {name}: captures the lookup table {capture.name!r}, whose contents can change. Compiled code would "
        f"keep its present contents. Use a tf.lookup.StaticHashTable, or look the values up in eager calls."
      )


def _is_mutable(tf: TensorFlow, table: LookupTable, handle: TfTensor) -> bool:
  keys, values = tf.constant(table.keys[:0]), tf.constant(table.values[:0])
  try:
    tf.raw_ops.LookupTableInsertV2(table_handle=handle, keys=keys, values=values)  # of no keys, so nothing changes
  except tf.errors.UnimplementedError:
    return False
  return True
