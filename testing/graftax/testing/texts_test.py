"""Whole models of text, split, on ten thousand random texts: what TensorFlow computes, without TensorFlow."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.savedmodel_io import load
from graftax.testing.texts import random_texts

_NUM_TEXTS = 10_000
_WORDS = ["[PAD]", "the", "fox", "abc", "xyz", "é", "0", "s", "the fox"]


def test_texts_are_empty_malformed_and_of_all_planes():
  texts = random_texts(_NUM_TEXTS)
  assert len(texts) == _NUM_TEXTS and texts == random_texts(_NUM_TEXTS)
  assert b"" in texts and any("\ufffd" in text.decode(errors="replace") for text in texts)
  assert {ord(c) >> 16 for text in texts for c in text.decode(errors="ignore")} == set(range(17))


def _vocabulary():
  keys = tf.lookup.KeyValueTensorInitializer(tf.constant(_WORDS), tf.range(len(_WORDS), dtype=tf.int64))
  return tf.lookup.StaticVocabularyTable(keys, 50)


def _hash_buckets(module, text):
  words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(text), r"[[:punct:]]", " "))
  fast = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, words, num_buckets=2**40)
  strong = tf.strings.to_hash_bucket_strong(words.flat_values, 2**40, [12, 34])
  return {"fast": fast.flat_values, "strong": strong, "splits": words.row_splits}


def _words_of_a_vocabulary(module, text):
  if not hasattr(module, "table"):
    with tf.init_scope():
      module.table = _vocabulary()
  return {"ids": module.table.lookup(tf.strings.split(text)).to_tensor(), "whole": module.table.lookup(text)}


def _nnlm(module, text):
  if not hasattr(module, "embedding"):
    with tf.init_scope():
      module.embedding = tf.Variable(np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32))
  words = tf.compat.v1.string_split(tf.strings.regex_replace(text, r"[[:punct:]]", " "))
  buckets = tf.SparseTensor(words.indices, tf.strings.to_hash_bucket_fast(words.values, 1000), words.dense_shape)
  return {"embedded": tf.nn.safe_embedding_lookup_sparse(module.embedding, buckets, combiner="sqrtn")}


def _text_vectorization(module, text, **options):
  if not hasattr(module, "layer"):
    with tf.init_scope():
      module.layer = tf.keras.layers.TextVectorization(**options)
      module.layer.adapt(["the fox", "abc xyz the", "é 0 s the fox"])
  return {"ids": module.layer(text)}


def _ngrams(module, text):
  return _text_vectorization(module, text, ngrams=2, output_mode="count")


def _characters(module, text):
  return _text_vectorization(module, text, split="character", standardize="lower", output_sequence_length=9)


# Slow: TensorFlow saves and loads each model; finds texts that one op passes on to the next in another form.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Keras warns about its own layer
@pytest.mark.parametrize(
  "function", [_hash_buckets, _words_of_a_vocabulary, _nnlm, _text_vectorization, _ngrams, _characters]
)
def test_split_models_compute_what_tensorflow_does(function, tmp_path):
  texts = random_texts(_NUM_TEXTS)
  module = tf.Module()
  module.run = tf.function(
    lambda text: function(module, text), input_signature=[tf.TensorSpec([None], tf.string, name="text")]
  )
  expected = {key: value.numpy() for key, value in module.run(tf.constant(texts)).items()}
  tf.saved_model.save(module, str(tmp_path), {"serving_default": module.run})
  head, body, params, tail = load(tmp_path).split()
  outputs = tail(jax.jit(body)(params, *head(text=texts)))
  assert outputs.keys() == expected.keys()
  for key, wanted in expected.items():
    if wanted.dtype == np.float32 and function is _nnlm:
      np.testing.assert_allclose(outputs[key], wanted, rtol=1e-5, atol=1e-6)
    else:
      np.testing.assert_array_equal(outputs[key], wanted)
