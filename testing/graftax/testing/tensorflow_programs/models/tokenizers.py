"""Encoders behind the tokenizers of TensorFlow Text, which must be installed."""

import io

import numpy as np

from graftax.testing.harness.conversion_case import Collector
from graftax.testing.tensorflow_programs.layers import HOST, Layers

define = Collector("tokenizers")

_LOOSE = (1e-4, 1e-5)
_TEXTS = np.array(["The cats sat, unwanted!", "naïve café 猫", "", "the dog " * 9], object)
_WORDS = "[PAD] [UNK] [CLS] [SEP] the cat dog sat want un ##want ##ed ##s , ! naive cafe".split()
_LENGTH = 16


def _encoded(tf, layers, ids, mask, rows):
  x = layers.embedding("words", ids, rows, 8) + layers.weight("positions", _LENGTH, 8)[: tf.shape(ids)[1]]
  for i in range(2):
    x = layers.transformer(f"layer{i}", x, mask=(1.0 - mask[:, None, None, :]) * -1e9)
  return tf.tanh(layers.dense("pooled", layers.layer_norm("norm", x)[:, 0], 8))


@define(_TEXTS, checks=HOST, tolerance=_LOOSE)
def bert_with_wordpiece(tf):
  import tensorflow_text as tf_text

  layers = Layers()
  keys = tf.lookup.KeyValueTensorInitializer(tf.constant(_WORDS), tf.range(len(_WORDS), dtype=tf.int64))
  table = tf.lookup.StaticVocabularyTable(keys, 1)
  tokenizer = tf_text.BertTokenizer(table, token_out_type=tf.int64, lower_case=True)

  def encode(texts):
    tokens = tokenizer.tokenize(texts).merge_dims(1, 2)
    trimmed = tf_text.WaterfallTrimmer(_LENGTH - 2).trim([tokens])
    combined, _ = tf_text.combine_segments(trimmed, _WORDS.index("[CLS]"), _WORDS.index("[SEP]"))
    ids, mask = tf_text.pad_model_inputs(combined, _LENGTH)
    return {"ids": ids, "pooled": _encoded(tf, layers, ids, tf.cast(mask, tf.float32), len(_WORDS) + 1)}

  function = tf.function(encode)
  function.owned = [table]
  return function


@define(_TEXTS, checks=HOST, tolerance=_LOOSE)
def encoder_with_fast_wordpiece(tf):
  import tensorflow_text as tf_text

  layers = Layers()
  tokenizer = tf_text.FastWordpieceTokenizer(_WORDS, token_out_type=tf.int32)

  def encode(texts):
    tokens = tokenizer.tokenize(tf_text.case_fold_utf8(texts))[:, :_LENGTH]
    mask = tf.sequence_mask(tokens.row_lengths(), _LENGTH, tf.float32)
    return _encoded(tf, layers, tokens.to_tensor(shape=[None, _LENGTH]), mask, len(_WORDS))

  return tf.function(encode)


@define(_TEXTS, checks=HOST, tolerance=_LOOSE)
def multilingual_encoder_with_sentencepiece(tf):
  import sentencepiece
  import tensorflow_text as tf_text

  layers = Layers()
  file = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(_TEXTS.tolist() * 3), model_writer=file, vocab_size=40, hard_vocab_limit=False, minloglevel=2
  )
  tokenizer = tf_text.SentencepieceTokenizer(file.getvalue(), add_bos=True, add_eos=True)

  def encode(texts):
    tokens = tokenizer.tokenize(texts)[:, :_LENGTH]
    mask = tf.sequence_mask(tokens.row_lengths(), _LENGTH, tf.float32)
    return _encoded(tf, layers, tokens.to_tensor(shape=[None, _LENGTH]), mask, 40)

  function = tf.function(encode)
  function.owned = [tokenizer]
  return function
