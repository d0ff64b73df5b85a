"""Detection heads with sizes that depend on data, as TF's object detection models write them, under jit: 50 images."""

import jax
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import checkify

import graftax.convert as gc
from graftax.convert.sources.graph_def import program_from_graph_def
from graftax.graphdef_ir import parse_graph

tf1 = tf.compat.v1

_RNG = np.random.default_rng(5)
_NUM_IMAGES = 50
_IMAGES = _RNG.uniform(-1, 1, (_NUM_IMAGES, 2, 16, 16, 3)).astype(np.float32)
_NUM_CLASSES = 3
_MAX_DETECTIONS = 10


def _weights(*shape, scale=0.5):
  return (_RNG.normal(size=shape) * scale).astype(np.float32)


_KERNEL, _BOX_KERNEL, _CLASS_KERNEL = _weights(3, 3, 3, 8), _weights(3, 3, 8, 8), _weights(3, 3, 8, 2 * _NUM_CLASSES)
_HEAD, _HEAD_CLASSES = _weights(72, 16, scale=0.15), _weights(16, _NUM_CLASSES)
_SOFT_HEADS = _weights(3, 8, 6)


def _anchors(side, sizes):
  centers = (np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2) + 0.5) / side
  boxes = [np.concatenate([centers - size / 2, centers + size / 2], 1) for size in sizes]
  return np.stack(boxes, 1).reshape(-1, 4).astype(np.float32)


_ANCHORS = _anchors(8, (0.2, 0.35))


def _decoded(codes):
  """Boxes from offsets to anchors."""
  y1, x1, y2, x2 = tf.unstack(tf.constant(_ANCHORS), axis=1)
  dy, dx, dh, dw = tf.unstack(codes, axis=-1)
  height, width = (y2 - y1) * tf.exp(dh * 0.2), (x2 - x1) * tf.exp(dw * 0.2)
  y, x = (y1 + y2) / 2 + dy * 0.1 * (y2 - y1), (x1 + x2) / 2 + dx * 0.1 * (x2 - x1)
  return tf.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)


def _features(images):
  return tf.nn.relu(tf.nn.conv2d(images, _KERNEL, 2, "SAME"))


def _predictions(images):
  features = _features(images)
  codes = tf.reshape(tf.nn.conv2d(features, _BOX_KERNEL, 1, "SAME"), [2, -1, 4])
  logits = tf.reshape(tf.nn.conv2d(features, _CLASS_KERNEL, 1, "SAME"), [2, -1, _NUM_CLASSES])
  return _decoded(codes), tf.sigmoid(logits)


def _padded(x, size):
  """Rows padded with zeros, or cut, to a known number, in branches."""
  num = tf.shape(x)[0]

  def pad():
    rows = tf.concat([tf.expand_dims(size - num, 0), tf.shape(x)[1:]], 0)
    return tf.concat([x, tf.zeros(rows)], 0)

  return tf1.cond(num > size, lambda: tf.gather(x, tf.range(size)), pad)


def _suppressed_by_class(boxes, scores):
  """Boxes, scores and classes after suppression in each class, best first, and their number."""
  found = []
  for index in range(_NUM_CLASSES):
    above = tf.cast(tf.reshape(tf.where(scores[:, index] > 0.6), [-1]), tf.int32)
    own_boxes, own_scores = tf.gather(boxes, above), tf.gather(scores[:, index], above)
    limit = tf.minimum(6, tf.shape(own_boxes)[0])
    kept = tf.image.non_max_suppression(own_boxes, own_scores, limit, iou_threshold=0.4)
    own_scores = tf.gather(own_scores, kept)
    found.append((tf.gather(own_boxes, kept), own_scores, tf.zeros_like(own_scores) + float(index)))
  boxes, scores, classes = (tf.concat(parts, 0) for parts in zip(*found, strict=True))
  scores, order = tf.nn.top_k(scores, tf.shape(scores)[0])
  boxes, classes = tf.gather(boxes, order), tf.gather(classes, order)
  clipped = tf.clip_by_value(boxes, 0.0, 1.0)
  area = (clipped[:, 2] - clipped[:, 0]) * (clipped[:, 3] - clipped[:, 1])
  inside = tf.reshape(tf.where(area > 0.02), [-1])
  boxes, scores, classes = (tf.gather(x, inside) for x in (clipped, scores, classes))
  num = tf.minimum(_MAX_DETECTIONS, tf.shape(boxes)[0])
  rows = tf.range(num)
  results = [_padded(tf.gather(x, rows), _MAX_DETECTIONS) for x in (boxes, scores, classes)]
  return *results, num


def _ssd(images):
  """One loop over images, each with suppression by class."""
  boxes, scores = _predictions(images)
  types = (tf.float32, tf.float32, tf.float32, tf.int32)
  return tf.map_fn(lambda one: _suppressed_by_class(*one), (boxes, scores), fn_output_signature=types)


def _faster_rcnn(images):
  """Proposals of unknown number, cut out of the image and classified."""
  boxes, scores = _predictions(images)
  kept = tf.image.non_max_suppression(boxes[0], tf.reduce_max(scores[0], 1), 12, 0.5, 0.7)
  # Not up to the border: which of two samples there lies outside depends on rounding.
  proposals = tf.clip_by_value(tf.gather(boxes[0], kept), 0.01, 0.99)
  num = tf.shape(proposals)[0]
  crops = tf.image.crop_and_resize(_features(images)[:1], proposals, tf.zeros([num], tf.int32), [3, 3])
  hidden = tf.nn.relu(tf.matmul(tf.reshape(crops, tf.stack([num, 72])), _HEAD))
  by_class = tf.nn.sigmoid(tf.matmul(hidden, _HEAD_CLASSES))
  return *_suppressed_by_class(proposals, by_class), tf.reduce_mean(by_class, 0), kept


def _efficient_det(images):
  """Candidates of three levels, soft suppression by class, and as many results as there are."""
  features = _features(images)[:1]
  boxes, logits = [], []
  for level in range(3):
    side = 8 >> level
    pooled = tf.nn.avg_pool2d(features, 1 << level, 1 << level, "VALID")
    flat = tf.matmul(tf.reshape(pooled, [-1, 8]), _SOFT_HEADS[level])
    boxes.append(_anchors(side, (0.25,)) + tf.tanh(flat[:, :4]) * 0.1)
    logits.append(flat[:, 4:])
  boxes, scores = tf.concat(boxes, 0), tf.sigmoid(tf.concat(logits, 0))
  best, order = tf.math.top_k(tf.reshape(scores, [-1]), 40)
  boxes, classes = tf.gather(boxes, order // 2), order % 2
  found = []
  for index in range(2):
    own = tf.where(tf.equal(classes, index))[:, 0]
    own_boxes = tf.gather(boxes, own)
    kept, soft = tf.image.non_max_suppression_with_scores(own_boxes, tf.gather(best, own), 8, 1.0, 0.3, 0.25)
    found.append(tf.concat([tf.gather(own_boxes, kept), soft[:, None], tf.fill([tf.size(soft), 1], float(index))], 1))
  detections = tf.concat(found, 0)
  detections = tf.gather(detections, tf.argsort(detections[:, 4], direction="DESCENDING", stable=True))
  return detections, tf.unique_with_counts(tf.cast(detections[:, 5], tf.int32))


def _in_tf1(function):
  """Returns the converted graph of a function in TF1 control flow, and a function that runs it in TensorFlow."""
  tf1.disable_control_flow_v2()
  try:
    with tf.Graph().as_default() as graph:
      images = tf1.placeholder(tf.float32, _IMAGES[0].shape, name="images")
      outputs = [tf.identity(y, name=f"y{i}") for i, y in enumerate(function(images))]
      ops = {node.op for node in graph.as_graph_def().node}
      assert {"Switch", "Merge"} <= ops and not ops & {"If", "While", "StatelessIf", "StatelessWhile"}
      program = program_from_graph_def(
        parse_graph(graph.as_graph_def().SerializeToString()), ["images:0"], [y.name for y in outputs]
      )
  finally:
    tf1.enable_control_flow_v2()
  session = tf1.Session(graph=graph)
  return gc.convert_program(program), lambda x: session.run(outputs, {images: x})


def _in_tf2(function):
  run = tf.function(lambda x: tf.nest.flatten(function(x)), autograph=False)
  return gc.convert(run, _IMAGES[0]), lambda x: [y.numpy() for y in run(x)]


@pytest.mark.slow  # Sizes that depend on data through whole heads: 50 images each.
@pytest.mark.parametrize(
  ("function", "make"),
  [(_ssd, _in_tf1), (_ssd, _in_tf2), (_faster_rcnn, _in_tf1), (_faster_rcnn, _in_tf2), (_efficient_det, _in_tf2)],
  ids=["ssd TF1", "ssd TF2", "faster rcnn TF1", "faster rcnn TF2", "efficientdet TF2"],
)
def test_detections_under_jit_are_tensorflows(function, make):
  (fn, params), run = make(function)
  compiled = jax.jit(fn)
  counts = set()
  for images in _IMAGES:
    expected = run(images)
    results = jax.tree.leaves(compiled(params, images)[0], is_leaf=lambda x: isinstance(x, gc.BoundedArray))
    for result, value in zip(results, expected, strict=True):
      cut = np.asarray(result)
      assert cut.shape == value.shape
      np.testing.assert_allclose(cut, value, rtol=1e-4, atol=1e-5)
    counts.update(value.shape[:1] if value.ndim else (int(value),) for value in expected if value.dtype == np.int32)
    counts.update(map(int, expected[3].reshape(-1)) if len(expected) > 3 and expected[3].size < 3 else ())
  assert len(counts) > 2, "the images have too little in them to differ"


@pytest.mark.slow  # The heads of the zoo that overflow are not of this kind: soft suppression of as many as there are.
def test_detections_with_a_bound_that_is_too_small_for_some_images_are_tensorflows_or_reported():
  with gc.override_config("max_sizes", {"Where": 22}), gc.override_config("enable_checkify_for_asserts", True):
    (fn, params), run = _in_tf2(_efficient_det)
  compiled = jax.jit(checkify.checkify(lambda images: fn(params, images)[0]))
  num_reported = 0
  for images in _IMAGES:
    error, results = compiled(images)
    results = jax.tree.leaves(results, is_leaf=lambda x: isinstance(x, gc.BoundedArray))
    if error.get() is None:
      for result, value in zip(results, run(images), strict=True):
        np.testing.assert_allclose(np.asarray(result), value, rtol=1e-4, atol=1e-5)
    else:
      num_reported += 1
      assert "elements exceed the bound 22" in error.get()
      assert all(result.overflowed for result in results)
  assert 0 < num_reported < _NUM_IMAGES
