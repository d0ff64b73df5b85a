"""Object detectors and key points: heads, anchors, and the selection of boxes."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, normal, uniform
from graftax.testing.tensorflow_programs.cases.tf1_control_flow import imported
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("detection", with_layers)

_FIXED = ("value", "jit", "batch")
_LOOSE = (1e-4, 1e-5)
_IMAGES = uniform(2, 32, 32, 3)


def _anchors(size, stride):
  """Returns centers and sizes `[size * size * 3, 4]` of anchors of three shapes."""
  centers = (np.arange(size) + 0.5) * stride
  shapes = np.array([[1, 1], [0.7, 1.4], [1.4, 0.7]]) * 2 * stride
  grid = np.stack(np.meshgrid(centers, centers, indexing="ij"), -1).reshape(-1, 1, 2)
  return (
    np.concatenate([np.tile(grid, (1, 3, 1)), np.tile(shapes, (len(grid), 1, 1))], -1).reshape(-1, 4).astype(np.float32)
  )


def _decode(tf, offsets, anchors):
  centers = offsets[..., :2] / 10.0 * anchors[:, 2:] + anchors[:, :2]
  sizes = tf.exp(tf.clip_by_value(offsets[..., 2:] / 5.0, -4.0, 4.0)) * anchors[:, 2:]
  return tf.concat([centers - sizes / 2, centers + sizes / 2], -1)


def _pyramid(tf, layers, x, num_classes):
  """Returns class logits and decoded boxes of all anchors of two scales."""
  x = layers.conv("stem", x, 8, 3, 2, activation=tf.nn.relu6)
  classes, boxes = [], []
  for level, size in ((0, 8), (1, 4)):
    x = layers.conv(f"down{level}", x, 8, 3, 2, activation=tf.nn.relu6)
    batch = tf.shape(x)[0]
    classes.append(tf.reshape(layers.conv(f"classes{level}", x, 3 * num_classes), [batch, -1, num_classes]))
    offsets = tf.reshape(layers.conv(f"boxes{level}", x, 12), [batch, -1, 4])
    boxes.append(_decode(tf, offsets, _anchors(size, 32 // size)) / 32.0)
  return tf.concat(classes, 1), tf.concat(boxes, 1)


@define(_IMAGES, checks=_FIXED, tolerance=_LOOSE)
def ssd_with_combined_nms(tf, layers, images):
  logits, boxes = _pyramid(tf, layers, images, 3)
  found = tf.image.combined_non_max_suppression(boxes[:, :, None], tf.sigmoid(logits), 10, 20, 0.5, 0.3)
  return found._asdict()


@define(_IMAGES, checks=_FIXED, tolerance=_LOOSE)
def efficientdet_with_soft_nms(tf, layers, images):
  logits, boxes = _pyramid(tf, layers, images, 3)
  scores, classes = tf.reduce_max(tf.sigmoid(logits), -1), tf.argmax(logits, -1)

  def one(arguments):
    boxes, scores, classes = arguments
    shifted = boxes + tf.cast(classes, tf.float32)[:, None] * 2.0
    indices, kept, count = tf.raw_ops.NonMaxSuppressionV5(
      boxes=shifted,
      scores=scores,
      max_output_size=10,
      iou_threshold=1.0,
      score_threshold=0.01,
      soft_nms_sigma=0.25,
      pad_to_max_output_size=True,
    )
    return tf.gather(boxes, indices), kept, tf.gather(classes, indices), count

  kinds = (tf.float32, tf.float32, tf.int64, tf.int32)
  return tf.map_fn(one, (boxes, scores, classes), fn_output_signature=kinds)


@define(_IMAGES[:1], checks=("value", "jit"), tolerance=_LOOSE)
def yolo_with_unpadded_nms(tf, layers, images):
  logits, boxes = _pyramid(tf, layers, images, 4)
  scores = tf.sigmoid(logits[0, :, :1]) * tf.nn.softmax(logits[0, :, 1:])
  best = tf.reduce_max(scores, -1)
  is_kept = best > 0.2
  kept_boxes, kept_scores = tf.boolean_mask(boxes[0], is_kept), tf.boolean_mask(best, is_kept)
  chosen = tf.image.non_max_suppression(kept_boxes, kept_scores, 10, 0.4)
  return tf.gather(kept_boxes, chosen), tf.gather(kept_scores, chosen)


def _class_loop(tf, boxes, scores):
  """Returns boxes, scores and classes of an image, padded, as TF1's detection API selects them: class by class."""
  v1 = tf.compat.v1
  parts = []
  for label in range(3):
    kept = tf.reshape(tf.where(scores[:, label] > 0.4), [-1])
    own_boxes, own_scores = tf.gather(boxes, kept), tf.gather(scores[:, label], kept)
    size = tf.minimum(10, tf.shape(own_boxes)[0])
    chosen = tf.image.non_max_suppression(own_boxes, own_scores, size, 0.5)
    labels = tf.fill([tf.shape(chosen)[0]], float(label))
    parts.append((tf.gather(own_boxes, chosen), tf.gather(own_scores, chosen), labels))
  boxes, scores, labels = (tf.concat(part, 0) for part in zip(*parts, strict=True))
  order = tf.math.top_k(scores, v1.shape(scores)[0]).indices[:15]
  table = tf.concat([boxes, scores[:, None], labels[:, None]], 1)
  table = tf.gather(table, order)
  return tf.pad(table, [[0, 15 - tf.shape(table)[0]], [0, 0]])


@define(_IMAGES, checks=("value", "jit"), tolerance=_LOOSE)
def ssd_of_tf1_with_a_loop_over_images(tf):
  weights = {n: normal(*s, scale=0.3) for n, s in (("c", (3, 3, 3, 9)), ("b", (3, 3, 3, 12)))}

  def build(images):
    small = tf.compat.v1.image.resize_bilinear(images, [8, 8])
    conv = lambda name: tf.nn.conv2d(small, weights[name], 1, "SAME")  # noqa: E731
    scores = tf.sigmoid(tf.reshape(conv("c"), [-1, 192, 3]))
    boxes = _decode(tf, tf.reshape(conv("b"), [-1, 192, 4]), _anchors(8, 4)) / 32.0
    return tf.map_fn(lambda pair: _class_loop(tf, *pair), (boxes, scores), dtype=tf.float32)

  return imported(tf, build, [tf.TensorSpec([None, 32, 32, 3])])


@define(_IMAGES[:1], checks=("value", "jit"), tolerance=_LOOSE)
def faster_rcnn_of_tf1(tf):
  layers = {n: normal(*s, scale=0.3) for n, s in (("rpn", (3, 3, 8, 15)), ("stem", (3, 3, 3, 8)), ("w", (72, 8)))}

  def build(images):
    features = tf.nn.relu(tf.nn.conv2d(images, layers["stem"], 4, "SAME"))
    rpn = tf.reshape(tf.nn.conv2d(features, layers["rpn"], 1, "SAME"), [-1, 5])
    proposals = tf.clip_by_value(_decode(tf, rpn[:, :4], _anchors(8, 4)) / 32.0, 0.0, 1.0)
    chosen = tf.image.non_max_suppression(proposals, rpn[:, 4], 12, 0.7)
    padded = tf.gather(proposals, chosen)
    padded = tf.pad(padded, [[0, 12 - tf.shape(padded)[0]], [0, 0]])
    padded.set_shape([12, 4])
    crops = tf.image.crop_and_resize(features, padded, tf.zeros([12], tf.int32), [3, 3])
    second = tf.reshape(crops, [12, 72]) @ layers["w"]
    boxes = padded + 0.1 * second[:, 3:7]
    one = tf.compat.v1.cond(
      tf.reduce_sum(second) > 0.0, lambda: tf.nn.softmax(second[:, :3]), lambda: tf.sigmoid(second[:, :3])
    )
    return _class_loop(tf, boxes, one)

  return imported(tf, build, [tf.TensorSpec([1, 32, 32, 3])])


@define(_IMAGES, checks=(*_FIXED, "grad", "param_grad"), tolerance=_LOOSE)
def centernet(tf, layers, images):
  x = layers.conv("stem", images, 8, 3, 4, activation=tf.nn.relu)
  heat = tf.sigmoid(layers.conv("heat", x, 3))
  is_peak = tf.equal(heat, tf.nn.max_pool2d(heat, 3, 1, "SAME"))
  scores = tf.reshape(tf.where(is_peak, heat, 0.0), [-1, 192])
  top, places = tf.math.top_k(scores, 8)
  cells = places // 3
  sizes = tf.gather(tf.reshape(layers.conv("sizes", x, 4), [-1, 64, 4]), cells, batch_dims=1)
  centers = tf.cast(tf.stack([cells // 8, cells % 8], -1), tf.float32)
  return tf.concat([centers + sizes[..., :2], centers + sizes[..., 2:]], -1), top, places % 3


@define(_IMAGES, checks=_FIXED, tolerance=_LOOSE)
def movenet(tf, layers, images):
  x = layers.conv("stem", tf.cast(tf.cast(images * 255.0, tf.int32), tf.float32) / 127.5 - 1.0, 8, 3, 4)
  heat = tf.sigmoid(layers.conv("centers", x, 1))
  center = tf.argmax(tf.reshape(heat, [-1, 64]), 1, output_type=tf.int32)
  start = tf.gather(tf.reshape(layers.conv("regress", x, 34), [-1, 64, 17, 2]), center, batch_dims=1)
  place = tf.cast(tf.stack([center // 8, center % 8], -1), tf.float32)[:, None] + start
  grid = tf.cast(tf.stack(tf.meshgrid(tf.range(8), tf.range(8), indexing="ij"), -1), tf.float32)
  distance = tf.norm(grid[None, :, :, None] - place[:, None, None], axis=-1)
  weighted = tf.sigmoid(layers.conv("points", x, 17)) / (distance + 1.8)
  best = tf.argmax(tf.reshape(weighted, [-1, 64, 17]), 1, output_type=tf.int32)
  offsets = tf.reshape(layers.conv("offsets", x, 34), [-1, 64, 17, 2])
  points = tf.stack([best // 8, best % 8], -1)
  batch = tf.broadcast_to(tf.range(tf.shape(x)[0])[:, None], tf.shape(best))
  joint = tf.broadcast_to(tf.range(17)[None], tf.shape(best))
  return tf.cast(points, tf.float32) + tf.gather_nd(offsets, tf.stack([batch, best, joint], -1))


@define(
  _IMAGES,
  normal(5, 4, scale=0.2) + np.array([0.1, 0.1, 0.9, 0.9], np.float32),
  checks=("value", "jit", "grad"),
  tolerance=(1e-4, 1e-4),
)
def mask_rcnn_mask_head(tf, layers, images, boxes):
  x = layers.conv("stem", images, 8, 3, 2, activation=tf.nn.relu)
  crops = tf.image.crop_and_resize(x, boxes, tf.constant([0, 1, 0, 1, 1]), [7, 7])
  weights = layers.weight("up", 2, 2, 8, 8)
  up = tf.nn.conv2d_transpose(crops, weights, [5, 14, 14, 8], 2)
  return tf.sigmoid(layers.conv("mask", tf.nn.relu(up), 3, 1))
