"""Choosing and drawing boxes against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax.image.non_max_suppression import non_max_suppression_v3
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)
_CORNERS = _RNG.uniform(0, 0.7, (12, 2)).astype(np.float32)
_BOXES = np.concatenate([_CORNERS, _CORNERS + _RNG.uniform(0.1, 0.4, (12, 2)).astype(np.float32)], axis=1)
_BOXES[3] = _BOXES[3][[2, 3, 0, 1]]  # corners in the other order
_BOXES[4] = _BOXES[4][[0, 1, 0, 1]]  # no area
_SCORES = _RNG.uniform(size=12).astype(np.float32)
_SCORES[6] = _SCORES[7]
_NO_TRACE = {"jit": False, "vmap": False}


def _numbers(*values):
  return [np.float32(v) for v in values]


@pytest.mark.parametrize("count", [0, 3, 20])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_selection(threshold, count):
  count = np.int32(count)
  check_raw_op("NonMaxSuppression", [_BOXES, _SCORES, count], {"iou_threshold": threshold}, **_NO_TRACE)
  check_raw_op("NonMaxSuppressionV2", [_BOXES, _SCORES, count, *_numbers(threshold)], **_NO_TRACE)
  inputs = [_BOXES, _SCORES, count, *_numbers(threshold, 0.4)]
  check_raw_op("NonMaxSuppressionV3", inputs, **_NO_TRACE)
  check_raw_op("NonMaxSuppressionV4", inputs, **_NO_TRACE)
  check_raw_op("NonMaxSuppressionV4", inputs, {"pad_to_max_output_size": True}, vmap=threshold == 0.3)


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_soft_selection(sigma):
  inputs = [_BOXES, _SCORES, np.int32(8), *_numbers(0.3, 0.2, sigma)]
  check_raw_op("NonMaxSuppressionV5", inputs, **_NO_TRACE)
  check_raw_op("NonMaxSuppressionV5", inputs, {"pad_to_max_output_size": True})


def test_selection_by_given_overlaps():
  overlaps = _RNG.uniform(size=(12, 12)).astype(np.float32)
  inputs = [overlaps, _SCORES, np.int32(8), *_numbers(0.7, 0.1)]
  check_raw_op("NonMaxSuppressionWithOverlaps", inputs, **_NO_TRACE)


def test_a_selection_of_unknown_size_cannot_be_traced():
  with pytest.raises(StaticInputError, match="only known when the program runs"):
    jax.jit(lambda boxes: non_max_suppression_v3(boxes, _SCORES, 3, 0.5, 0.0))(_BOXES)


@pytest.mark.parametrize("pad_per_class", [False, True])
@pytest.mark.parametrize("num_box_classes", [1, 3])
def test_combined_selection(num_box_classes, pad_per_class):
  boxes = np.stack(
    [np.stack([_BOXES * (1 + c) for c in range(num_box_classes)], 1), np.stack([_BOXES[::-1]] * num_box_classes, 1)]
  )
  scores = _RNG.uniform(size=(2, 12, 3)).astype(np.float32)
  sizes = [np.int32(2), np.int32(9)]
  attrs = {"pad_per_class": pad_per_class, "clip_boxes": num_box_classes == 1}
  check_raw_op("CombinedNonMaxSuppression", [boxes, scores, *sizes, *_numbers(0.3, 0.4)], attrs, vmap=False)


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_drawing(depth):
  images = _RNG.uniform(size=(2, 10, 12, depth)).astype(np.float32)
  boxes = np.stack(
    [_BOXES[[0, 1, 2]], np.array([[-0.2, 0.1, 0.6, 1.3], [0.5, 0.5, 0.2, 0.9], [1.2, 0.1, 1.5, 0.3]], np.float32)]
  )
  check_raw_op("DrawBoundingBoxes", [images, boxes])
  colors = _RNG.uniform(size=(2, depth)).astype(np.float32)
  check_raw_op("DrawBoundingBoxesV2", [images, boxes, colors], vmap=False)
  check_raw_op("DrawBoundingBoxesV2", [images, boxes[:, :0], colors], vmap=False)
