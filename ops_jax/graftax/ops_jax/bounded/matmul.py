"""Products of matrices: MatMul, BatchMatMul, Einsum. Padding is 0, so it adds nothing to a sum of products."""

from collections.abc import Sequence

import jax
import numpy as np

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import (
  any_of,
  any_overflow,
  as_bounded,
  common_length,
  filled,
  joined_axis,
  masked_derivative,
  poisoned,
  to_axis,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.values import BoundedArray

__all__ = ["contract"]


@carries("MatMul")
def mat_mul(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Multiplies two matrices."""
  first = "ki" if call.attrs.get("transpose_a") else "ik"
  second = "jk" if call.attrs.get("transpose_b") else "kj"
  return [contract(call, inputs, [first, second], "ij")]


@carries("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_mat_mul(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Multiplies matrices; the dimensions before them broadcast."""
  ranks = [as_bounded(value).padded.ndim for value in inputs]
  batch = "abcdefgh"[: max(ranks) - 2]
  first = "ki" if call.attrs.get("adj_x") else "ik"
  second = "jk" if call.attrs.get("adj_y") else "kj"
  labels = [batch[len(batch) - rank + 2 :] + own for rank, own in zip(ranks, (first, second), strict=True)]
  return [contract(call, inputs, labels, batch + "ij", broadcasts=batch)]


@carries("Einsum")
def einsum(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Sums products as an equation says."""
  equation = call.attrs["equation"]
  text = (equation.decode() if isinstance(equation, bytes) else str(equation)).replace(" ", "")
  before, arrow, after = text.partition("->")
  labels = before.split(",")
  if "..." in text or not arrow or any(len(set(own)) < len(own) for own in labels):
    call.refuse(f"its equation {text!r} has an ellipsis, repeated labels of one input, or no result")
  return [contract(call, inputs, labels, after)]


def contract(
  call: BoundedCall, inputs: Sequence[Value], labels: Sequence[str], result_labels: str, *, broadcasts: str = ""
) -> Value:
  """Runs an op that sums products over labelled axes.

  Args:
    call: the run of the node.
    inputs: its inputs.
    labels: for each input one letter per axis.
    result_labels: the letters of the result.
    broadcasts: the letters for which size 1 broadcasts.
  """
  parts = [as_bounded(value) for value in inputs]
  lengths: dict[str, jax.Array | None] = {}
  bad: list[jax.Array | None] = []
  may_overflow = any(part.may_overflow for part in parts)
  for label in dict.fromkeys("".join(labels)):
    places = [(i, own.index(label)) for i, own in enumerate(labels) if label in own]
    sizes = [(parts[i].padded.shape[axis], parts[i].lengths[axis]) for i, axis in places]
    common = joined_axis(call.facts, sizes, broadcasts=label in broadcasts)
    for i, axis in places:
      x = parts[i]
      padded = to_axis(filled(x, 0, [axis]), axis, x.lengths[axis], common, broadcasts=label in broadcasts)
      is_one = x.lengths[axis] is None and x.padded.shape[axis] == 1 and label in broadcasts
      lengths_of_x = (*x.lengths[:axis], None if is_one else common.length, *x.lengths[axis + 1 :])
      parts[i] = BoundedArray(padded, lengths_of_x, x.may_overflow)
    lengths[label], may_be_invalid = common_length(common)
    may_overflow = may_overflow or may_be_invalid
    if label not in result_labels or common.length is None:
      bad.append(common.is_bad)
    if label not in result_labels and common.length is not None:
      bad.append(any_overflow(*parts))
  result = call.run_one(*[filled(part, 0) for part in parts])
  result_lengths = [lengths[label] for label in result_labels]
  result = poisoned(result, any_of(*bad))
  return call.made(
    masked_derivative(result, valid_mask(np.shape(result), result_lengths)), result_lengths, may_overflow
  )
