"""Gradients where a derivative is infinite or undefined, and nothing flows back through it."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("gradients_of_zeros")

_CHECKS = ("value", "jit", "grad", "vmap")
_WITH_ZEROS = normal(4, 3) * np.array([[1.0], [0.0], [1.0], [0.0]], np.float32)


@define(_WITH_ZEROS, checks=_CHECKS)
def distances_with_the_norm_of_zero_masked(tf, x):
  lengths = tf.norm(x, axis=-1)
  return tf.where(lengths > 0.0, lengths, 0.0)


@define(normal(4, 3), checks=_CHECKS)
def pairwise_distances_without_the_diagonal(tf, x):
  squares = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
  return tf.sqrt(squares) * (1.0 - tf.eye(4))


@define(np.ones((2, 4, 4, 3), np.float32), checks=_CHECKS)
def standardization_of_constant_images(tf, images):
  return tf.image.per_image_standardization(images)


@define(_WITH_ZEROS, normal(4, 3, seed=1), checks=_CHECKS)
def cosine_similarity_to_zeros(tf, x, y):
  return tf.keras.losses.cosine_similarity(y, x)


@define(_WITH_ZEROS, checks=_CHECKS)
def safe_reciprocal(tf, x):
  return tf.where(tf.abs(x) > 1e-6, tf.math.reciprocal(x) + tf.math.rsqrt(tf.abs(x)), 0.0)


@define(np.ones((4, 3), np.float32), checks=_CHECKS)
def deviation_at_least_a_minimum(tf, x):
  return x / tf.maximum(tf.math.reduce_std(x, axis=-1, keepdims=True), 0.25)


@define(_WITH_ZEROS)
def training_step_through_masked_roots(tf, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(x) + tf.math.rsqrt(x), 0.0))
  return x - 0.1 * tape.gradient(y, x)
