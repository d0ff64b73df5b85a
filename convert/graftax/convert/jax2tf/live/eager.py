"""Calls of ConcreteFunctions from eager code, recorded by gradient tapes with a gradient of our own."""

from collections.abc import Callable, Sequence
from typing import Any

from graftax.convert._tensorflow import call_flat, import_tape_records

__all__ = ["call_eagerly"]

# Any in this module: TensorFlow ships no type information.


def call_eagerly(
  tf: Any, concrete: Any, args: Sequence[Any], gradient: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
) -> list[Any]:
  """Returns the results of a ConcreteFunction.

  If a tape recorded the ConcreteFunction, TensorFlow would build a backward function at once, even if no gradient is
  computed later. With a custom gradient around it, nothing is traced until then.

  Args:
    tf: TensorFlow.
    concrete: a ConcreteFunction without captures that takes and returns flat tensors.
    args: its arguments.
    gradient: takes its results and their cotangents, and returns a cotangent or None for each argument.
  """
  records = import_tape_records()
  if not records.could_possibly_record():
    return list(call_flat(concrete, args))

  @tf.custom_gradient
  def call(*operands: Any) -> Any:
    with records.stop_recording():
      results = call_flat(concrete, operands)
    return tuple(results), lambda *cotangents: gradient(results, cotangents)

  return list(call(*args))
