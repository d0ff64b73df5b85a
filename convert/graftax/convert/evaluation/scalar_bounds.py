"""Integer scalars that depend on traced data and yet can have one value only, as `min(5, max(5, n))`.

TensorFlow computes sizes that way, where a caller gives both a least and a largest size (`tf.math.bincount`). Between
operations on scalars, what is known of their range travels along; once both ends meet, the value is known.
"""

from collections.abc import Sequence

import numpy as np

from graftax.convert.planning.plan import Step
from graftax.ops_jax import Value, is_known, is_symbolic

__all__ = ["BOUNDED_OPS", "ScalarBounds"]

BOUNDED_OPS = frozenset({"Cast", "Maximum", "Minimum"})
"""The ops that `ScalarBounds` follows."""


class ScalarBounds:
  """The ranges of the traced integer scalars of one function, as far as they are known."""

  def __init__(self) -> None:
    self._ranges: dict[int, tuple[float, float]] = {}

  def narrow(self, step: Step, inputs: Sequence[Value], outputs: Sequence[Value]) -> Sequence[Value]:
    """A step's outputs, as known values where only one value is possible.

    Args:
      step: one of `BOUNDED_OPS`.
      inputs: its inputs.
      outputs: its outputs.
    """
    (output,) = outputs
    if is_known(output) or not _is_integer_scalar(output) or not all(map(_is_integer_scalar, inputs)):
      return outputs
    ranges = [self._range(slot, value) for slot, value in zip(step.inputs, inputs, strict=True)]
    lows, highs = zip(*ranges, strict=True)
    match step.node.op:
      case "Minimum":
        low, high = min(lows), min(highs)
      case "Maximum":
        low, high = max(lows), max(highs)
      case _:
        low, high = lows[0], highs[0]
    limits = np.iinfo(output.dtype)
    if step.node.op == "Cast" and not limits.min <= low <= high <= limits.max:
      return outputs  # it may wrap around
    self._ranges[step.outputs[0]] = low, high
    return [np.asarray(low, output.dtype)] if low == high else outputs

  def _range(self, slot: int, value: Value) -> tuple[float, float]:
    return (int(value), int(value)) if is_known(value) else self._ranges.get(slot, (-np.inf, np.inf))


def _is_integer_scalar(value: Value) -> bool:
  return getattr(value, "shape", None) == () and np.issubdtype(value.dtype, np.integer) and not is_symbolic(value)
