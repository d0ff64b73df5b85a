"""Decoders of CTC models against TensorFlow."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

pytestmark = pytest.mark.tensorflow

_LENGTHS = np.array([9, 5, 0, 7], np.int32)


def _logits(seed, spread=1.0, dtype=np.float32):
  return (np.random.default_rng(seed).normal(size=(9, 4, 5)) * spread).astype(dtype)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("blank", [-1, 0, 2])
def test_best_class_of_each_step(merge, blank):
  attrs = {"merge_repeated": merge, "blank_index": blank}
  check_raw_op("CTCGreedyDecoder", [_logits(0), _LENGTHS], attrs)


def test_best_classes_in_double_precision_and_without_labels():
  check_raw_op("CTCGreedyDecoder", [_logits(0, dtype=np.float64), _LENGTHS])
  check_raw_op("CTCGreedyDecoder", [_logits(0), np.zeros(4, np.int32)])


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(("width", "paths"), [(1, 1), (3, 2), (50, 5)])
def test_search(width, paths, merge):
  attrs = {"beam_width": width, "top_paths": paths, "merge_repeated": merge}
  lengths = np.maximum(_LENGTHS, 3)
  for seed, spread in [(1, 0.3), (2, 1.0), (3, 3.0)]:
    check_raw_op("CTCBeamSearchDecoder", [_logits(seed, spread), lengths], attrs, without_x64=(1e-4, 1e-4))


# TensorFlow adds probabilities in single precision, also those of float64 logits.
def test_a_full_beam_gives_up_the_same_prefixes():
  for seed in range(20):
    logits = np.random.default_rng(seed).normal(size=(15, 3, 4)).astype(np.float64) * 0.5
    attrs = {"beam_width": 3, "top_paths": 3, "merge_repeated": False}
    check_raw_op(
      "CTCBeamSearchDecoder", [logits, np.full(3, 15, np.int32)], attrs, tolerance=(1e-6, 1e-6), without_x64=False
    )


def test_bad_inputs_are_refused():
  check_raw_op_rejects("CTCGreedyDecoder", [_logits(0), np.full(4, 10, np.int32)], match="expected 0 to 9")
  check_raw_op_rejects("CTCGreedyDecoder", [_logits(0), _LENGTHS], {"blank_index": 5}, match="blank_index 5")
  for shape in ((0, 4, 3), (9, 0, 3), (9, 4, 0)):
    inputs = [np.zeros(shape, np.float32), np.zeros(shape[1], np.int32)]
    check_raw_op_rejects("CTCGreedyDecoder", inputs, match="expected at least one step, sequence and class")
  attrs = {"beam_width": 9, "top_paths": 9}
  check_raw_op_rejects("CTCBeamSearchDecoder", [_logits(0), np.ones(4, np.int32)], attrs, match="top_paths=9")
