"""Greedy selection of boxes that overlap little: NonMaxSuppression in all versions, CombinedNonMaxSuppression."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = [
  "combined_non_max_suppression",
  "non_max_suppression",
  "non_max_suppression_v2",
  "non_max_suppression_v3",
  "non_max_suppression_v4",
  "non_max_suppression_v5",
  "non_max_suppression_with_overlaps",
  "overlap_with",
  "select_boxes",
]

# Where XLA:CPU looks for a maximum by blocks: as fast with 32 and 128, and slower with few blocks.
_BLOCK_SIZE = 64
_MIN_BLOCKS = 8

# index of the chosen box -> its similarity to every box, `[num_boxes]`.
_Similarity = Callable[[Array], Array]


def overlap_with(boxes: Array) -> _Similarity:
  """Computes intersection over union; boxes are two opposite corners, in any order."""
  top, bottom = jnp.minimum(boxes[:, 0], boxes[:, 2]), jnp.maximum(boxes[:, 0], boxes[:, 2])
  left, right = jnp.minimum(boxes[:, 1], boxes[:, 3]), jnp.maximum(boxes[:, 1], boxes[:, 3])
  area = (bottom - top) * (right - left)

  def similarity(i: Array) -> Array:
    height = jnp.maximum(jnp.minimum(bottom, bottom[i]) - jnp.maximum(top, top[i]), 0)
    width = jnp.maximum(jnp.minimum(right, right[i]) - jnp.maximum(left, left[i]), 0)
    intersection = height * width
    has_area = (area > 0) & (area[i] > 0)
    return jnp.where(has_area, intersection / jnp.where(has_area, area + area[i] - intersection, 1), 0)

  return similarity


def select_boxes(
  scores: Array, similarity: _Similarity, count: int, threshold: Any, score_threshold: Any, sigma: Any = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns chosen boxes, best first: indices and scores `[count]`, padded with zeros, and their number.

  Args:
    scores: `[num_boxes]`.
    similarity: similarity of two boxes.
    count: maximum number of boxes.
    threshold: of two boxes with a higher similarity at most one is chosen.
    score_threshold: only boxes with a higher score are chosen.
    sigma: scalar; if it is not 0, similar boxes lose score by `exp(-similarity ** 2 / (2 * sigma))` instead.
  """
  lowest = -jnp.inf
  if scores.shape[0] == 0 or count == 0:
    return jnp.zeros(count, jnp.int32), jnp.zeros(count, scores.dtype), jnp.zeros((), jnp.int32)
  live = jnp.where(scores > score_threshold, scores, lowest)

  def step(i: Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    live, indices, chosen_scores, num_chosen = carry
    best = _first_maximum(live)
    is_chosen = live[best] > lowest
    alike = similarity(best)
    # One selection, which XLA fuses with the similarities.
    is_dropped = jnp.arange(live.shape[0]) == best
    kept = live
    if sigma is None:
      is_dropped |= alike > threshold
    else:
      is_soft = sigma > 0
      decay = jnp.where(is_soft, jnp.exp(-0.5 * alike * alike / jnp.where(is_soft, sigma, 1)), 1)
      kept = live * decay.astype(live.dtype)
      is_dropped |= (~is_soft & (alike > threshold)) | (kept <= score_threshold) | (live == lowest)
    rest = jnp.where(is_chosen, jnp.where(is_dropped, lowest, kept), live)
    indices = indices.at[i].set(jnp.where(is_chosen, best, 0))
    chosen_scores = chosen_scores.at[i].set(jnp.where(is_chosen, live[best], 0))
    return rest, indices, chosen_scores, num_chosen + is_chosen.astype(jnp.int32)

  start = (live, jnp.zeros(count, jnp.int32), jnp.zeros(count, scores.dtype), jnp.zeros((), jnp.int32))
  _, indices, chosen_scores, num_chosen = lax.fori_loop(0, count, step, start)
  return indices, chosen_scores, num_chosen


def _first_maximum(x: jax.Array) -> Array:
  """Returns the index of the first maximum of a vector, int32."""

  def in_steps(x: jax.Array) -> Array:
    # XLA:CPU compares maxima and their indices one after the other, and vectorizes each of these reductions.
    size = x.shape[0]
    if not isinstance(size, int) or size < _MIN_BLOCKS * _BLOCK_SIZE:
      return _first_of(x, jnp.max(x))
    num_whole = size // _BLOCK_SIZE
    maxima = jnp.max(x[: num_whole * _BLOCK_SIZE].reshape(num_whole, _BLOCK_SIZE), axis=1)
    if size % _BLOCK_SIZE:
      maxima = jnp.append(maxima, jnp.max(x[num_whole * _BLOCK_SIZE :]))
    maximum = jnp.max(maxima)
    # The last block may begin within the one before it, where no element is as large.
    start = jnp.minimum(_first_of(maxima, maximum) * _BLOCK_SIZE, size - _BLOCK_SIZE)
    return start + _first_of(lax.dynamic_slice(x, (start,), (_BLOCK_SIZE,)), maximum)

  return lax.platform_dependent(x, cpu=in_steps, default=lambda x: jnp.argmax(x).astype(jnp.int32))


def _first_of(x: jax.Array, maximum: jax.Array) -> jax.Array:
  """Returns the first index of the maximum of a vector. The first NaN is the maximum if there is one."""
  return jnp.min(jnp.where((x == maximum) | jnp.isnan(x), jnp.arange(x.size, dtype=jnp.int32), x.size))


def _cut(op: str, num_chosen: Array, *outputs: Array) -> list[Array]:
  """Returns `outputs` without their padding; they must not be traced."""
  _need_values(op, num_chosen)
  return [output[: int(num_chosen)] for output in outputs]


def _need_values(op: str, *inputs: Array) -> None:
  # The kernel then selects boxes with a bounded size.
  if any(isinstance(value, jax.core.Tracer) for value in inputs):
    raise StaticInputError(
      f"{op}: how many boxes are selected is only known when the program runs, and a compiled program has no arrays of "
      "unknown size."
    )


@register("NonMaxSuppression")
def non_max_suppression(
  boxes: Array, scores: Array, max_output_size: Static[int], *, iou_threshold: float = 0.5
) -> Array:
  """Selects boxes with high scores that overlap little; see `NonMaxSuppressionV3`."""
  return non_max_suppression_v3(boxes, scores, max_output_size, jnp.float32(iou_threshold), jnp.float32(-jnp.inf))


@register("NonMaxSuppressionV2", ignores=("T", "T_threshold"))
def non_max_suppression_v2(boxes: Array, scores: Array, max_output_size: Static[int], iou_threshold: Array) -> Array:
  """Selects boxes with high scores that overlap little; see `NonMaxSuppressionV3`."""
  return non_max_suppression_v3(boxes, scores, max_output_size, iou_threshold, jnp.float32(-jnp.inf))


@register("NonMaxSuppressionV3", ignores=("T", "T_threshold"))
def non_max_suppression_v3(
  boxes: Array, scores: Array, max_output_size: Static[int], iou_threshold: Array, score_threshold: Array
) -> Array:
  """Selects boxes with high scores that overlap little; returns their indices, best first.

  Source op: `tf.raw_ops.NonMaxSuppressionV3`.

  Args:
    boxes: `[num_boxes, 4]`, two opposite corners `y1, x1, y2, x2`; floating point.
    scores: `[num_boxes]`, same dtype.
    max_output_size: maximum number of boxes. Must be concrete.
    iou_threshold: scalar; of two boxes with a higher intersection over union only the better one is chosen.
    score_threshold: scalar; only boxes with a higher score are chosen.

  Returns:
    `[num_chosen]` int32.

  Raises:
    StaticInputError: the boxes or scores are traced, so the size of the result is not known.
  """
  _need_values("NonMaxSuppression", boxes, scores)
  boxes, scores = jnp.asarray(boxes), jnp.asarray(scores)
  indices, _, num_chosen = select_boxes(scores, overlap_with(boxes), max_output_size, iou_threshold, score_threshold)
  return _cut("NonMaxSuppression", num_chosen, indices)[0]


@register("NonMaxSuppressionV4", ignores=("T", "T_threshold"))
def non_max_suppression_v4(
  boxes: Array,
  scores: Array,
  max_output_size: Static[int],
  iou_threshold: Array,
  score_threshold: Array,
  *,
  pad_to_max_output_size: bool = False,
) -> tuple[Array, Array]:
  """Computes `NonMaxSuppressionV3`, optionally padded with zeros, and the number of boxes.

  Returns:
    selected_indices: `[max_output_size]` int32 when padded, else `[num_chosen]`.
    valid_outputs: scalar int32, `num_chosen`.

  Raises:
    StaticInputError: not padded, and the boxes or scores are traced.
  """
  if not pad_to_max_output_size:
    _need_values("NonMaxSuppressionV4", boxes, scores)
  boxes, scores = jnp.asarray(boxes), jnp.asarray(scores)
  indices: Array
  indices, _, num_chosen = select_boxes(scores, overlap_with(boxes), max_output_size, iou_threshold, score_threshold)
  if not pad_to_max_output_size:
    (indices,) = _cut("NonMaxSuppressionV4", num_chosen, indices)
  return indices, num_chosen


@register("NonMaxSuppressionV5", ignores=("T",))
def non_max_suppression_v5(
  boxes: Array,
  scores: Array,
  max_output_size: Static[int],
  iou_threshold: Array,
  score_threshold: Array,
  soft_nms_sigma: Array,
  *,
  pad_to_max_output_size: bool = False,
) -> tuple[Array, Array, Array]:
  """Computes `NonMaxSuppressionV4` with scores; scores of overlapping boxes may be lowered instead of dropping them.

  Source op: `tf.raw_ops.NonMaxSuppressionV5`.

  Args:
    boxes: as for `NonMaxSuppressionV3`, like the following four.
    scores: see there.
    max_output_size: see there.
    iou_threshold: see there; unused if `soft_nms_sigma` is not 0.
    score_threshold: see there.
    soft_nms_sigma: scalar; if it is not 0, a box that overlaps a chosen one by `iou` keeps
      `exp(-iou ** 2 / (2 * soft_nms_sigma))` of its score.
    pad_to_max_output_size: whether the results have a fixed size.

  Returns:
    selected_indices: `[max_output_size]` int32 when padded, else `[num_chosen]`.
    selected_scores: same shape, dtype of `scores`.
    valid_outputs: scalar int32, `num_chosen`.

  Raises:
    StaticInputError: not padded, and the boxes or scores are traced.
  """
  if not pad_to_max_output_size:
    _need_values("NonMaxSuppressionV5", boxes, scores)
  boxes, scores = jnp.asarray(boxes), jnp.asarray(scores)
  indices: Array
  chosen_scores: Array
  indices, chosen_scores, num_chosen = select_boxes(
    scores, overlap_with(boxes), max_output_size, iou_threshold, score_threshold, jnp.asarray(soft_nms_sigma)
  )
  if not pad_to_max_output_size:
    indices, chosen_scores = _cut("NonMaxSuppressionV5", num_chosen, indices, chosen_scores)
  return indices, chosen_scores, num_chosen


@register("NonMaxSuppressionWithOverlaps")
def non_max_suppression_with_overlaps(
  overlaps: Array, scores: Array, max_output_size: Static[int], overlap_threshold: Array, score_threshold: Array
) -> Array:
  """Computes `NonMaxSuppressionV3` from the overlap of each pair of boxes, `[num_boxes, num_boxes]`."""
  _need_values("NonMaxSuppressionWithOverlaps", overlaps, scores)
  overlaps, scores = jnp.asarray(overlaps), jnp.asarray(scores)
  indices, _, num_chosen = select_boxes(
    scores, lambda i: overlaps[:, i], max_output_size, overlap_threshold, score_threshold
  )
  return _cut("NonMaxSuppressionWithOverlaps", num_chosen, indices)[0]


@register("CombinedNonMaxSuppression")
def combined_non_max_suppression(
  boxes: Array,
  scores: Array,
  max_output_size_per_class: Static[int],
  max_total_size: Static[int],
  iou_threshold: Array,
  score_threshold: Array,
  *,
  pad_per_class: bool = False,
  clip_boxes: bool = True,
) -> tuple[Array, Array, Array, Array]:
  """Selects the best boxes of all classes, chosen within each class as by `NonMaxSuppressionV3`.

  Source op: `tf.raw_ops.CombinedNonMaxSuppression`.

  Args:
    boxes: `[batch, num_boxes, num_classes or 1, 4]` float32.
    scores: `[batch, num_boxes, num_classes]` float32.
    max_output_size_per_class: maximum number of boxes per class. Must be concrete.
    max_total_size: maximum number of boxes per image. Must be concrete.
    iou_threshold: scalar; see `NonMaxSuppressionV3`.
    score_threshold: scalar; see there.
    pad_per_class: whether the results have at most `max_output_size_per_class * num_classes` entries.
    clip_boxes: whether the results are clipped to [0, 1].

  Returns:
    nmsed_boxes: `[batch, size, 4]`, best first, padded with zeros like the others.
    nmsed_scores: `[batch, size]`.
    nmsed_classes: `[batch, size]` float32.
    valid_detections: `[batch]` int32, how many entries are not padding.
  """
  boxes, scores = jnp.asarray(boxes), jnp.asarray(scores)
  num_boxes, num_classes = scores.shape[1:]
  per_class = min(max_output_size_per_class, num_boxes)
  size = min(max_total_size, max_output_size_per_class * num_classes) if pad_per_class else max_total_size

  def of_class(boxes: Array, scores: Array) -> tuple[Array, Array]:
    indices, chosen, count = select_boxes(scores, overlap_with(boxes), per_class, iou_threshold, score_threshold)
    return boxes[indices], jnp.where(jnp.arange(per_class) < count, chosen, -jnp.inf)

  def of_image(boxes: Array, scores: Array) -> tuple[Array, Array, Array, Array]:
    # Classes that share the boxes read one copy of them in each step.
    by_class, axis = (boxes[:, 0], None) if boxes.shape[1] == 1 else (boxes, 1)
    chosen_boxes, chosen_scores = jax.vmap(of_class, (axis, 1))(by_class, scores)
    classes = jnp.repeat(jnp.arange(num_classes, dtype=jnp.float32), per_class)
    order = jnp.argsort(-chosen_scores.reshape(-1), stable=True)[:size]
    top_scores = chosen_scores.reshape(-1)[order]
    is_valid = top_scores > -jnp.inf
    top_boxes = chosen_boxes.reshape(-1, 4)[order]
    top_boxes = jnp.clip(top_boxes, 0, 1) if clip_boxes else top_boxes
    results = (top_boxes, top_scores, classes[order])
    padded = [_padded_to(size, jnp.where(_like(is_valid, r), r, 0)) for r in results]
    return padded[0], padded[1], padded[2], jnp.sum(is_valid, dtype=jnp.int32)

  return jax.vmap(of_image)(boxes, scores)


def _like(mask: Array, x: Array) -> Array:
  return mask.reshape(mask.shape + (1,) * (x.ndim - 1))


def _padded_to(size: int, x: Array) -> Array:
  return jnp.pad(x, [(0, size - x.shape[0])] + [(0, 0)] * (x.ndim - 1))
