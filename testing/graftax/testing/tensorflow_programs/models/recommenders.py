"""Recommenders: crossed features, bags of ids, towers."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal
from graftax.testing.tensorflow_programs.layers import HOST, Layers, with_layers

define = Collector("recommenders", with_layers)

_ALL = ("jit", "batch", "param_grad")
_LOOSE = (1e-4, 1e-5)
_IDS = integers(3, 5, high=30, dtype=np.int64)
_NUMBERS = normal(3, 4)


@define(_IDS, _NUMBERS, checks=_ALL, tolerance=_LOOSE)
def deep_and_cross_network(tf, layers, ids, numbers):
  start = tf.concat([tf.reshape(layers.embedding("ids", ids, 30, 4), [-1, 20]), numbers], -1)
  x = start
  for i in range(2):
    low = tf.matmul(x, layers.weight(f"u{i}", 24, 4))
    x = start * (tf.matmul(low, layers.weight(f"v{i}", 4, 24)) + layers.weight(f"b{i}", 24, scale=0.1)) + x
  return tf.sigmoid(layers.dense("out", tf.concat([x, layers.dense("deep", start, 8, tf.nn.relu)], -1), 1))


@define(_IDS, _NUMBERS, checks=_ALL, tolerance=_LOOSE)
def deepfm(tf, layers, ids, numbers):
  vectors = layers.embedding("vectors", ids, 30, 4)
  first = tf.reduce_sum(layers.embedding("weights", ids, 30, 1), [1, 2])
  second = 0.5 * tf.reduce_sum(tf.reduce_sum(vectors, 1) ** 2 - tf.reduce_sum(vectors**2, 1), -1)
  deep = layers.dense("deep", tf.concat([tf.reshape(vectors, [-1, 20]), numbers], -1), 8, tf.nn.relu)
  return tf.sigmoid(first + second + layers.dense("out", deep, 1)[:, 0])


@define(_IDS, integers(3, high=50, dtype=np.int64), checks=_ALL, tolerance=_LOOSE)
def two_towers_with_brute_force(tf, layers, history, user):
  is_real = tf.cast(history > 0, tf.float32)[..., None]
  pooled = tf.math.divide_no_nan(
    tf.reduce_sum(layers.embedding("items", history, 30, 8) * is_real, 1), tf.reduce_sum(is_real, 1)
  )
  query = layers.dense("query", tf.concat([pooled, layers.embedding("users", user, 50, 8)], -1), 8)
  scores = tf.matmul(query, layers.weight("items", 30, 8), transpose_b=True)
  top = tf.math.top_k(scores, 5)
  return {"scores": top.values, "items": tf.gather(tf.range(1000, 1030), top.indices)}


@define(_IDS, integers(3, 2, high=9, dtype=np.int64), checks=("value",), tolerance=_LOOSE)
def wide_and_deep_with_crossed_columns(tf, layers, ids, places):
  crossed = tf.sparse.cross_hashed([tf.sparse.from_dense(ids + 1), places], num_buckets=40)
  wide = tf.nn.embedding_lookup_sparse(layers.weight("wide", 40, 1), crossed, None, combiner="sum")
  deep = tf.reduce_mean(layers.embedding("deep", ids, 30, 4), 1)
  return wide + layers.dense("out", deep, 1)


@define(_IDS, checks=("value",), tolerance=_LOOSE)
def bags_of_ids_as_sparse_columns(tf, layers, ids):
  indices = tf.stack([tf.repeat(tf.range(3, dtype=tf.int64), 5), tf.tile(tf.range(5, dtype=tf.int64), [3])], -1)
  column = tf.SparseTensor(indices, tf.reshape(ids, [-1]), [3, 5])
  parts = [tf.nn.safe_embedding_lookup_sparse(layers.weight(c, 30, 4), column, combiner=c) for c in ("mean", "sqrtn")]
  return layers.dense("out", tf.concat(parts, -1), 2)


@define(np.array([["a", "b"], ["c", "zz"], ["b", "a"]], object), _NUMBERS, checks=HOST, tolerance=_LOOSE)
def recommender_with_string_lookup(tf):
  layers = Layers()
  table = tf.lookup.StaticVocabularyTable(
    tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b", "c"]), tf.range(3, dtype=tf.int64)), 2
  )

  def score(words, numbers):
    ids = table.lookup(tf.strings.lower(words))
    return layers.dense("out", tf.concat([tf.reduce_sum(layers.embedding("words", ids, 5, 4), 1), numbers], -1), 1)

  function = tf.function(score)
  function.owned = [table]
  return function


@define(_NUMBERS, checks=HOST)
def gradient_boosted_trees(tf):
  def score(numbers):
    buckets = [tf.cast(column > 0.0, tf.int32) for column in tf.unstack(numbers, axis=1)]
    handle = tf.raw_ops.BoostedTreesEnsembleResourceHandleOp(container="", shared_name="forest")
    return tf.raw_ops.BoostedTreesPredict(tree_ensemble_handle=handle, bucketized_features=buckets, logits_dimension=1)

  return tf.function(score)


@define(integers(4, 6, high=20), integers(4, low=1, high=7), checks=_ALL, tolerance=_LOOSE)
def session_recommender_with_gru(tf, layers, ids, lengths):
  x = tf.transpose(layers.embedding("items", ids, 20, 8), [1, 0, 2])
  state = tf.zeros_like(x[0])
  for step in tf.range(6):
    gate = tf.sigmoid(layers.dense("gate", tf.concat([x[step], state], -1), 8))
    new = tf.tanh(layers.dense("new", tf.concat([x[step], state], -1), 8))
    is_live = tf.cast(step < lengths, tf.float32)[:, None]
    state += is_live * gate * (new - state)
  return tf.matmul(state, layers.weight("items", 20, 8), transpose_b=True)
