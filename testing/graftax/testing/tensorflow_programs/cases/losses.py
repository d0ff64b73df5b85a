"""Loss functions and metrics."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal, uniform

define = Collector("losses")

_DIFFERENTIABLE = ("value", "jit", "grad", "vmap", "batch")
_LOGITS = normal(5, 4)
_LABELS = integers(5, high=4)
_TARGETS = uniform(5, 4, seed=1)


@define(_LABELS, _LOGITS, checks=(*_DIFFERENTIABLE, "second_order"), tolerance=(1e-5, 1e-5))
def sparse_cross_entropy(tf, y, x):
  return tf.nn.sparse_softmax_cross_entropy_with_logits(y, x)


@define(_TARGETS, _LOGITS, checks=(*_DIFFERENTIABLE, "second_order"), tolerance=(1e-5, 1e-5))
def soft_cross_entropy(tf, y, x):
  return tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x)


@define(_TARGETS, _LOGITS, checks=(*_DIFFERENTIABLE, "second_order"))
def sigmoid_cross_entropy(tf, y, x):
  return tf.nn.sigmoid_cross_entropy_with_logits(y, x) + tf.nn.weighted_cross_entropy_with_logits(y, x, 2.0)


@define(_LABELS, _LOGITS, checks=_DIFFERENTIABLE)
def keras_sparse_categorical(tf):
  loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
  return tf.function(lambda y, x: loss(y, x))


@define(_TARGETS, uniform(5, 4, seed=2, low=0.1, high=0.9), checks=_DIFFERENTIABLE)
def keras_binary_and_focal(tf):
  losses = tf.keras.losses
  chosen = losses.BinaryCrossentropy(label_smoothing=0.1), losses.BinaryFocalCrossentropy(), losses.KLDivergence()
  return tf.function(lambda y, p: [loss(y, p) for loss in chosen])


@define(_TARGETS, _LOGITS, checks=_DIFFERENTIABLE)
def keras_regression(tf):
  losses = tf.keras.losses
  chosen = [
    losses.MeanSquaredError(),
    losses.MeanAbsoluteError(),
    losses.Huber(),
    losses.LogCosh(),
    losses.CosineSimilarity(),
  ]
  return tf.function(lambda y, x: [loss(y, x) for loss in chosen])


@define(normal(5, 4), normal(5, 4, seed=1), normal(5, 4, seed=2), checks=_DIFFERENTIABLE)
def triplet(tf, a, p, n):
  near, far = (tf.reduce_sum((a - b) ** 2, -1) for b in (p, n))
  return tf.maximum(near - far + 1.0, 0.0)


@define(normal(4, 6), normal(4, 6, seed=1), checks=("value", "jit", "grad", "vmap"))
def contrastive(tf, a, b):
  a, b = (tf.math.l2_normalize(x, -1) for x in (a, b))
  logits = a @ tf.transpose(b) / 0.1
  labels = tf.range(4)
  both = (tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x) for x in (logits, tf.transpose(logits)))
  return tf.add_n(list(both))


@define(
  integers(2, 3, low=1, high=5), normal(2, 7, 5), np.array([3, 2], np.int32), np.array([7, 6], np.int32),
  checks=("value", "jit"), tolerance=(1e-4, 1e-5),
)  # fmt: skip
def connectionist_temporal_classification(tf, y, x, n, t):
  return tf.nn.ctc_loss(y, tf.transpose(x, [1, 0, 2]), n, t, blank_index=0)


@define(_LABELS, _LOGITS, checks=("value", "jit", "batch"))
def metrics(tf, y, x):
  best = tf.argmax(x, -1, output_type=tf.int32)
  confusion = tf.math.confusion_matrix(y, best, 4)
  top = tf.math.in_top_k(y, x, 2)
  return confusion, tf.reduce_mean(tf.cast(tf.equal(y, best), tf.float32)), top


@define(_LABELS, _LOGITS, checks=("value", "jit", "state"))
def stateful_metric(tf):
  metric = tf.keras.metrics.SparseCategoricalAccuracy()

  def f(y, x):
    metric.update_state(y, x)
    return metric.result()

  return f


@define(normal(3, 5), checks=("value", "jit", "grad", "vmap", "second_order"))
def gaussian_nll_and_kl(tf, x):
  mean, log_variance = x[:, :2], x[:, 2:4]
  nll = 0.5 * tf.reduce_sum(log_variance + (x[:, 4:] - mean) ** 2 / tf.exp(log_variance), -1)
  kl = -0.5 * tf.reduce_sum(1.0 + log_variance - mean**2 - tf.exp(log_variance), -1)
  return nll + kl
