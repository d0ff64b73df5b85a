"""Detectors of the zoo under `jit`, 50 images each: TensorFlow's detections, or a report of a bound too small."""

import functools

import jax
import numpy as np
import pytest
from jax.experimental import checkify

import graftax.convert as gc
from graftax.testing.differential.oracle import Oracle
from graftax.testing.tensorflow_programs.catalogue import all_models

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

_NUM_IMAGES = 50
_DETECTORS = (
  "ssd_with_combined_nms",
  "ssd_of_tf1_with_a_loop_over_images",
  "faster_rcnn_of_tf1",
  "efficientdet_with_soft_nms",
  "yolo_with_unpadded_nms",
)


@functools.cache
def _oracle(name):
  return Oracle(all_models()[name])


@functools.cache
def _images(name):
  """Returns batches of images of several contrasts, so that some have many and some have few objects."""
  rng = np.random.default_rng(8)
  shape = all_models()[name].inputs[0].shape
  # Stronger ones make scores that are equal but for rounding, and boxes that end at the border, where samples are
  # inside or outside of the image depending on rounding.
  contrasts = np.resize([1.0, 0.3, 0.6], _NUM_IMAGES)
  return [(rng.uniform(0, 1, shape) * contrast).astype(np.float32) for contrast in contrasts]


@functools.cache
def _expected(name):
  return [jax.tree.leaves(_oracle(name).value([images])) for images in _images(name)]


def _leaves(results):
  return jax.tree.leaves(results, is_leaf=lambda value: isinstance(value, gc.BoundedArray))


def _assert_equal(results, expected):
  for result, value in zip(_leaves(results), expected, strict=True):
    cut = np.asarray(result)
    assert cut.shape == value.shape
    np.testing.assert_allclose(cut, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", _DETECTORS)
def test_detections_under_jit_are_tensorflows(name):
  fn, params = gc.convert(_oracle(name).function, *all_models()[name].inputs)
  compiled = jax.jit(fn)
  for images, expected in zip(_images(name), _expected(name), strict=True):
    _assert_equal(compiled(params, images)[0], expected)
  found = [expected[0].tobytes() for expected in _expected(name) if expected[0].size]
  assert len(set(found)) == len(found) > _NUM_IMAGES / 2, "images are alike, or have no objects"


# The other two detectors declare all of their sizes.
@pytest.mark.parametrize(
  ("name", "what", "bound"),
  [
    ("ssd_of_tf1_with_a_loop_over_images", "Where", 170),
    ("faster_rcnn_of_tf1", "import/non_max_suppression_3/NonMaxSuppressionV3", 9),
    ("yolo_with_unpadded_nms", "Where", 40),
  ],
)
def test_a_bound_that_is_too_small_is_reported_and_cuts_nothing(name, what, bound):
  with gc.override_config("max_sizes", {what: bound}), gc.override_config("enable_checkify_for_asserts", True):
    fn, params = gc.convert(_oracle(name).function, *all_models()[name].inputs)
  compiled = jax.jit(checkify.checkify(lambda images: fn(params, images)[0]))
  num_reported = 0
  for images, expected in zip(_images(name), _expected(name), strict=True):
    error, results = compiled(images)
    if error.get() is None:
      _assert_equal(results, expected)
      continue
    num_reported += 1
    assert what in error.get() and f"elements exceed the bound {bound}" in error.get()
    assert all(_is_marked(result) for result in _leaves(results))
  assert num_reported


def _is_marked(result):
  return bool(result.overflowed) if isinstance(result, gc.BoundedArray) else bool(np.any(np.isnan(result)))
