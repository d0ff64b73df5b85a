"""Stateless random numbers, which must equal TensorFlow's."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("random_stateless")

_SEED = np.array([3, 7], np.int32)
_LOOSE = (1e-4, 1e-5)


@define(_SEED, checks=("value", "jit"), tolerance=_LOOSE)
def distributions(tf, seed):
  random = tf.random
  return {
    "normal": random.stateless_normal([3, 4], seed),
    "uniform": random.stateless_uniform([3, 4], seed, -1.0, 1.0),
    "truncated": random.stateless_truncated_normal([5], seed),
    "integers": random.stateless_uniform([6], seed, 0, 10, tf.int32),
    "bits": random.stateless_uniform([4], seed, None, None, tf.int32),
  }


# If the algorithm is named, the graph itself packs the seed into 64-bit keys.
@define(_SEED, normal(4, 6), checks=("value", "jit", "grad"), x64=True)
def dropout_by_philox(tf, seed, x):
  return tf.nn.experimental.stateless_dropout(x, 0.4, seed, rng_alg="philox")


@define(_SEED, normal(4, 6), checks=("value", "jit", "grad"))
def dropout(tf, seed, x):
  return tf.nn.experimental.stateless_dropout(x, 0.4, seed, rng_alg="auto_select")


@define(_SEED, normal(3, 4), checks=("value", "jit"))
def categorical(tf, seed, logits):
  return tf.random.stateless_categorical(logits, 5, seed)


@define(_SEED, checks=("value", "jit"))
def split_and_fold(tf, seed):
  seeds = tf.random.experimental.stateless_split(seed, 3)
  folded = tf.random.experimental.stateless_fold_in(seed, 5)
  return seeds, folded, tf.random.stateless_uniform([2], folded)


@define(_SEED, normal(2, 8, 8, 3), checks=("value", "jit"), tolerance=_LOOSE)
def image_augmentation(tf, seed, x):
  x = tf.image.stateless_random_flip_left_right(x, seed)
  x = tf.image.stateless_random_brightness(x, 0.2, seed)
  return tf.image.stateless_random_crop(x, [2, 6, 6, 3], seed)


@define(_SEED, normal(3, 2), checks=("value", "jit", "grad"), tolerance=_LOOSE)
def reparametrized_samples(tf, seed, x):
  noise = tf.random.stateless_normal([4, 3, 1], seed)
  return x[:, :1] + tf.exp(x[:, 1:]) * noise


@define(_SEED, checks=("value", "jit"))
def shuffle(tf, seed):
  return tf.random.experimental.stateless_shuffle(tf.range(10), seed)


@define(_SEED, np.float32(0.5), checks=("value", "jit"), tolerance=_LOOSE)
def random_walk_in_a_loop(tf, seed, x):
  for i in tf.range(4):
    x += tf.random.stateless_normal([], tf.random.experimental.stateless_fold_in(seed, i))
  return x
