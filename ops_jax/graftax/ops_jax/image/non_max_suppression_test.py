"""The index of the best box against `jnp.argmax`; the ops are compared with TensorFlow in `boxes_test`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.ops_jax.image.non_max_suppression import _first_maximum, non_max_suppression_v5

_VECTORS = [
  [3.0],
  [1.0, 5.0, 5.0, 2.0],
  [-np.inf, -np.inf],
  [np.inf, np.nan, np.inf, np.nan],
  [-0.0, 0.0],
  *np.random.default_rng(0).normal(size=(3, 100)).round(1),
  # By blocks of 64.
  *np.random.default_rng(1).normal(size=(3, 640)).round(1),
  *(np.roll(np.arange(1000.0) // 2, shift) for shift in (0, 1, 40, 41, 500)),
  [*np.zeros(600), np.nan, *np.ones(10), np.nan],
  np.full(700, -np.inf),
]


@pytest.mark.parametrize("values", _VECTORS)
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_it_is_that_of_the_first_maximum(values, dtype):
  x = np.asarray(values, dtype)
  found = jax.jit(_first_maximum)(x)
  assert found.dtype == np.int32 and found == jnp.argmax(x)


def test_boxes_of_a_symbolic_number_are_selected():
  (n,) = jax.export.symbolic_shape("n")

  def selected(boxes, scores):
    return non_max_suppression_v5(boxes, scores, 5, 0.5, 0.0, 0.0, pad_to_max_output_size=True)

  specs = jax.ShapeDtypeStruct((n, 4), np.float32), jax.ShapeDtypeStruct((n,), np.float32)
  exported = jax.export.export(jax.jit(selected))(*specs)
  for num_boxes in (3, 700):
    boxes, scores = np.split(np.random.default_rng(0).random((num_boxes, 5), np.float32), [4], axis=1)
    raw = tf.raw_ops.NonMaxSuppressionV5(
      boxes=boxes,
      scores=scores[:, 0],
      max_output_size=5,
      iou_threshold=0.5,
      score_threshold=0.0,
      soft_nms_sigma=0.0,
      pad_to_max_output_size=True,
    )
    for found, expected in zip(exported.call(boxes, scores[:, 0]), raw, strict=True):
      np.testing.assert_array_equal(found, expected)
