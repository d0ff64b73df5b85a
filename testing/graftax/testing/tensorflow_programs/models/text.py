"""Models of text, whose first part is for the host."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers
from graftax.testing.tensorflow_programs.layers import HOST, Layers, with_layers

define = Collector("text", with_layers)

_LOOSE = (1e-4, 1e-5)
_TEXTS = np.array(["the cat sat", "a dog", "", "the the mat"], object)


@define(_TEXTS, checks=HOST, tolerance=_LOOSE)
def nnlm_with_hash_buckets(tf, layers, texts):
  words = tf.compat.v1.string_split(tf.strings.lower(texts), " ")
  ids = tf.SparseTensor(words.indices, tf.strings.to_hash_bucket_fast(words.values, 30), words.dense_shape)
  filled, _ = tf.sparse.fill_empty_rows(ids, tf.constant(0, tf.int64))
  return tf.nn.embedding_lookup_sparse(layers.weight("words", 30, 8), filled, None, combiner="sqrtn")


@define(_TEXTS, checks=HOST, tolerance=_LOOSE)
def universal_sentence_encoder(tf, layers, texts):
  cleaned = tf.strings.regex_replace(texts, r"[[:punct:]]", " ")
  words = tf.strings.split(cleaned)
  ids = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, words, num_buckets=30)
  pairs = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_strong, words, num_buckets=20, key=[1, 2])
  vectors = tf.ragged.map_flat_values(lambda i: layers.embedding("words", i, 30, 8), ids)
  other = tf.ragged.map_flat_values(lambda i: layers.embedding("pairs", i, 20, 8), pairs)
  x = tf.math.divide_no_nan(tf.reduce_sum(vectors, 1) + tf.reduce_sum(other, 1), 1.0)
  return tf.math.l2_normalize(layers.dense("out", x, 8, tf.tanh), -1)


@define(_TEXTS, checks=HOST, tolerance=_LOOSE)
def keras_text_vectorization_classifier(tf):
  vectorize = tf.keras.layers.TextVectorization(
    max_tokens=20, output_sequence_length=4, vocabulary=["the", "cat", "sat", "dog"]
  )
  layers = Layers()

  def classify(texts):
    ids = vectorize(texts)
    x = layers.embedding("words", ids, 20, 8) * tf.cast(ids > 0, tf.float32)[..., None]
    return layers.dense("out", tf.reduce_mean(x, 1), 3)

  function = tf.function(classify)
  function.owned = [vectorize]
  return function


@define(integers(3, 6, high=25), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def fasttext_of_ids(tf, layers, ids):
  grams = ids[:, :-1] * 31 % 17 + ids[:, 1:]
  bags = tf.concat([layers.embedding("words", ids, 25, 8), layers.embedding("grams", grams, 42, 8)], 1)
  return tf.nn.softmax(layers.dense("out", tf.reduce_mean(bags, 1), 4))


@define(integers(3, 8, high=25), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def text_cnn(tf, layers, ids):
  x = layers.embedding("words", ids, 25, 8)
  pooled = [tf.reduce_max(layers.conv(f"conv{n}", x, 6, n, activation=tf.nn.relu), 1) for n in (2, 3, 4)]
  return layers.dense("out", tf.concat(pooled, -1), 3)


@define(integers(9, low=1, high=25), np.array([0, 3, 3, 7, 9], np.int64), checks=("value",), tolerance=_LOOSE)
def ragged_bags_of_words(tf, layers, values, splits):
  bags = tf.RaggedTensor.from_row_splits(layers.embedding("words", values, 25, 8), splits, validate=False)
  return layers.dense("out", tf.concat([tf.reduce_mean(bags, 1), tf.reduce_sum(bags, 1)], -1), 3)
