"""NonMaxSuppression in all versions: the number of selected boxes depends on data, and has a declared maximum."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.concat_split import fitted_except
from graftax.ops_jax.bounded.creation import bounded_size
from graftax.ops_jax.bounded.masks import (
  any_overflow,
  as_bounded,
  checked_length,
  filled,
  masked_derivative,
  may_be_less,
  poisoned,
  row_mask,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries, makes
from graftax.ops_jax.bounded.scatter import in_step
from graftax.ops_jax.bounded.values import INVALID_LENGTH, BoundedArray, is_bounded
from graftax.ops_jax.image.non_max_suppression import overlap_with, select_boxes

__all__ = ["combined_non_max_suppression", "non_max_suppression"]


@makes(
  "NonMaxSuppression",
  "NonMaxSuppressionV2",
  "NonMaxSuppressionV3",
  "NonMaxSuppressionV4",
  "NonMaxSuppressionV5",
  "NonMaxSuppressionWithOverlaps",
)
def non_max_suppression(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Selects boxes with high scores that overlap little."""
  boxes, scores = _boxes_and_scores(call, inputs)
  is_padded = bool(call.attrs.get("pad_to_max_output_size"))
  bound, limit, may_overflow = _maximum(call, inputs[2], scores.padded.shape[0], is_padded)
  # One step more tells whether a bound from `max_sizes` is too small.
  count = bound + (may_overflow and not is_padded)
  iou, threshold, sigma = _thresholds(call, inputs)
  overlaps = boxes.padded
  similarity = (lambda i: overlaps[:, i]) if "Overlaps" in call.node.op else overlap_with(filled(boxes, 0))
  indices, chosen, number = select_boxes(filled(scores, -np.inf), similarity, count, iou, threshold, sigma)
  if limit is not None:
    number = jnp.where(limit == INVALID_LENGTH, INVALID_LENGTH, jnp.minimum(number, limit))
  overflow = any_overflow(boxes, scores)
  number = checked_length(number, overflow)
  may_overflow = may_overflow or overflow is not None or limit is not None
  length = limit if is_padded else number
  indices, chosen = (
    indices[:bound],
    masked_derivative(chosen[:bound], None if length is None else row_mask(length, bound)),
  )
  results = [call.made(indices, (length,), may_overflow)]
  if call.node.op == "NonMaxSuppressionV5":
    results.append(call.made(chosen, (length,), may_overflow))
  if call.node.op in ("NonMaxSuppressionV4", "NonMaxSuppressionV5"):
    results.append(poisoned(number, overflow))
  return results


@carries("CombinedNonMaxSuppression")
def combined_non_max_suppression(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Selects boxes of all classes among a number of boxes, or of images, that depends on data."""
  boxes, scores, *rest = inputs
  if any(map(is_bounded, rest)):
    call.refuse("an input other than boxes and scores has a size that depends on data")
  b, s = in_step(call, as_bounded(boxes), as_bounded(scores), 2)
  if any(length is not None for length in (*b.lengths[2:], *s.lengths[2:])):
    call.refuse("the number of classes depends on data")
  overflow = any_overflow(b, s)
  results = call.run(call.context, [filled(b, 0), filled(s, -np.inf), *rest])
  return [_of_images(call, poisoned(result, overflow), s) for result in results]


def _of_images(call: BoundedCall, result: jax.Array, scores: BoundedArray) -> Value:
  lengths = (scores.lengths[0], *[None] * (result.ndim - 1))
  return call.made(masked_derivative(result, valid_mask(result.shape, lengths)), lengths, scores.may_overflow)


def _maximum(call: BoundedCall, value: Value, num_boxes: int, is_padded: bool) -> tuple[int, jax.Array | None, bool]:
  """Returns the padded number of boxes, their declared maximum if it is traced, and whether more may be selected."""
  (wanted,) = call.facts.entries(value)
  if is_padded:
    return bounded_size(call, wanted)
  limit = None
  if wanted.is_known:
    bound = jax.core.min_dim(int(wanted.offset), num_boxes)
  else:
    found = call.facts.greatest(wanted)
    bound = jax.core.min_dim(num_boxes, max(found[0], 0)) if found is not None and found[1] else num_boxes
    limit = jnp.asarray(wanted.value(), jnp.int32)
    limit = checked_length(limit, limit < 0)
  option = call.max_size()
  if option is None or not may_be_less(option, bound):
    return bound, limit, False
  return jax.core.min_dim(option, bound), limit, True


def _boxes_and_scores(call: BoundedCall, inputs: Sequence[Value]) -> tuple[BoundedArray, BoundedArray]:
  boxes, scores = map(as_bounded, inputs[:2])
  column = BoundedArray(scores.padded[:, None], (*scores.lengths, None), scores.may_overflow)
  flat, column = fitted_except(call, [boxes, column], 1)
  return flat, BoundedArray(column.padded[:, 0], column.lengths[:1], column.may_overflow)


def _thresholds(call: BoundedCall, inputs: Sequence[Value]) -> tuple[Value, Value, Value | None]:
  """Returns the threshold of the overlap, that of the score, and the width of soft suppression."""
  rest = list(inputs[3:])
  iou = rest[0] if rest else jnp.float32(call.attrs.get("iou_threshold", 0.5))
  threshold = rest[1] if len(rest) > 1 else jnp.float32(-jnp.inf)
  return iou, threshold, jnp.asarray(rest[2]) if len(rest) > 2 else None
