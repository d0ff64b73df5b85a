"""Embeddings, gathers and searches."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("embeddings")

_IDS = integers(4, 5, high=7)
_X = normal(4, 6)


@define(_IDS, checks=("value", "jit", "param_grad", "vmap", "batch", "export"))
def keras_embedding(tf):
  return tf.keras.layers.Embedding(7, 3)


@define(_IDS, checks=("value", "jit", "param_grad", "vmap", "batch"))
def bag_of_words(tf):
  table = tf.Variable(normal(7, 3), name="table")

  def f(ids):
    weights = tf.cast(ids > 0, tf.float32)[..., None]
    return tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * weights, 1) / tf.reduce_sum(weights, 1)

  return f


@define(_IDS, checks=("value", "jit", "param_grad", "vmap"))
def tied_output(tf):
  table = tf.Variable(normal(7, 3), name="table")
  return lambda ids: tf.einsum("bld,vd->blv", tf.gather(table, ids), table)


@define(_IDS, checks=("value", "jit", "vmap", "batch"))
def one_hot_and_counts(tf, ids):
  return (
    tf.one_hot(ids, 7, on_value=2.0, off_value=-1.0),
    tf.reduce_sum(tf.one_hot(ids, 7, dtype=tf.int32), 1),
  )


@define(_X, integers(4, 2, high=6), checks=("value", "jit", "grad", "vmap", "batch"))
def gathers(tf, x, i):
  pairs = tf.stack([tf.zeros_like(i), i], -1)
  return tf.gather(x, i, batch_dims=1), tf.gather(x, [2, 0], axis=1), tf.gather_nd(x, pairs)


@define(_X, checks=("value", "jit", "grad", "vmap", "batch"))
def top_k_and_sort(tf, x):
  values, indices = tf.math.top_k(x, 3)
  return values, indices, tf.sort(x, axis=1, direction="DESCENDING"), tf.argsort(x, axis=1)


@define(_X, checks=("value", "jit", "vmap"))
def searches(tf):
  edges = tf.constant([-1.0, 0.0, 0.5, 1.0])
  return lambda x: (
    tf.searchsorted(tf.tile(edges[None], [4, 1]), x),
    tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]),
  )


@define(integers(12, high=5), checks=("value", "jit"))
def hashing_by_arithmetic(tf, x):
  return (x * 2654435 + 17) % 97, tf.math.bincount(x, minlength=5, maxlength=5), tf.cumsum(x)


@define(np.array([3, 1, 3, 2, 1], np.int32), checks=("value",))
def unique_on_known_values(tf, x):
  known, index = tf.unique(tf.constant([4, 4, 2, 4]))
  return x + tf.reduce_sum(known), index
