"""Calls of ConcreteFunctions from eager code, recorded by gradient tapes with a gradient of our own."""

from collections.abc import Callable, Sequence

from graftax.convert._tensorflow import TensorFlow, TfFunction, TfTensor, call_flat, import_tape_records

__all__ = ["call_eagerly"]


def call_eagerly(
  tf: TensorFlow,
  concrete: TfFunction,
  args: Sequence[TfTensor],
  gradient: Callable[[Sequence[TfTensor], Sequence[TfTensor]], Sequence[TfTensor]],
) -> list[TfTensor]:
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
  def call(*operands: TfTensor) -> TfTensor:
    with records.stop_recording():
      results = call_flat(concrete, operands)
    return tuple(results), lambda *cotangents: gradient(results, cotangents)

  return list(call(*args))
