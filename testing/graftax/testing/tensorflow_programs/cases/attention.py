"""Attention and transformers."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("attention")

_LAYER = ("value", "jit", "grad", "param_grad", "vmap", "batch", "export")
_LOOSE = (1e-4, 1e-5)


@define(normal(2, 5, 8), checks=_LAYER, tolerance=_LOOSE)
def multi_head_self_attention(tf):
  layer = tf.keras.layers.MultiHeadAttention(2, 4)
  layer.build((None, 5, 8), (None, 5, 8))
  return tf.function(lambda x: layer(x, x))


@define(normal(2, 5, 8), normal(2, 7, 8, seed=1), checks=_LAYER, tolerance=_LOOSE)
def cross_attention_with_scores(tf):
  layer = tf.keras.layers.MultiHeadAttention(2, 4)
  layer.build((None, 5, 8), (None, 7, 8))
  return tf.function(lambda x, y: layer(x, y, return_attention_scores=True))


@define(normal(2, 5, 8), checks=_LAYER, tolerance=_LOOSE)
def causal_attention(tf):
  layer = tf.keras.layers.MultiHeadAttention(2, 4)
  layer.build((None, 5, 8), (None, 5, 8))
  return tf.function(lambda x: layer(x, x, use_causal_mask=True))


@define(normal(2, 6, 8), checks=_LAYER, tolerance=_LOOSE)
def grouped_query_attention(tf):
  layer = tf.keras.layers.GroupQueryAttention(4, 4, 2)
  layer.build((None, 6, 8), (None, 6, 8))
  return tf.function(lambda x: layer(x, x))


@define(normal(2, 5, 8), normal(2, 5, 8, seed=1), checks=("value", "jit", "grad", "vmap", "batch", "second_order"))
def dot_product_attention(tf, q, k):
  return tf.nn.softmax(q @ tf.linalg.matrix_transpose(k) / 3.0) @ k


@define(normal(2, 5, 8), normal(2, 5, 8, seed=1), checks=("value", "jit", "grad", "vmap", "batch"), tolerance=_LOOSE)
def additive_attention(tf):
  layer = tf.keras.layers.AdditiveAttention()
  layer.build([(None, 5, 8), (None, 5, 8)])
  return tf.function(lambda q, k: layer([q, k]))


@define(normal(2, 6, 8), checks=_LAYER, tolerance=_LOOSE)
def encoder_block(tf):
  layers = tf.keras.layers
  inputs = tf.keras.Input((6, 8))
  x = layers.LayerNormalization()(inputs)
  x = inputs + layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x)
  y = layers.Dense(16, activation="gelu")(layers.LayerNormalization()(x))
  return tf.keras.Model(inputs, x + layers.Dense(8)(layers.Dropout(0.1)(y)))


@define(integers(2, 6, high=11), checks=("value", "jit", "param_grad", "vmap", "batch", "export"), tolerance=_LOOSE)
def token_classifier(tf):
  layers = tf.keras.layers
  tokens = tf.keras.Input((6,), dtype="int32")
  positions = layers.Embedding(6, 8)(np.arange(6)[None])
  x = layers.Embedding(11, 8)(tokens) + positions
  x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
  return tf.keras.Model(tokens, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


@define(normal(2, 4, 2, 8), checks=("value", "jit", "grad", "vmap", "second_order", "batch"))
def rotary_embedding(tf):
  angles = np.arange(4)[:, None] * 10.0 ** -np.arange(4)
  cos, sin = (tf.constant(f(angles)[None, :, None, :], tf.float32) for f in (np.cos, np.sin))

  def f(x):
    a, b = tf.split(x, 2, -1)
    return tf.concat([a * cos - b * sin, b * cos + a * sin], -1)

  return f


@define(normal(2, 1, 8), normal(2, 5, 8, seed=1), integers(high=5), checks=("value", "jit", "vmap", "grad"))
def key_value_cache(tf, x, cache, position):
  updated = tf.where(tf.range(5)[None, :, None] == position, x, cache)
  scores = tf.einsum("bqd,bkd->bqk", x, updated)
  scores += tf.where(tf.range(5) <= position, 0.0, -1e9)
  return tf.einsum("bqk,bkd->bqd", tf.nn.softmax(scores), updated), updated


@define(normal(2, 5, 8), checks=("value", "jit", "grad", "vmap"), tolerance=_LOOSE)
def relative_positions(tf):
  bias = tf.constant(normal(9, seed=1))

  def f(x):
    i = tf.range(5)
    scores = tf.einsum("bid,bjd->bij", x, x) + tf.gather(bias, i[:, None] - i[None, :] + 4)
    return tf.nn.softmax(scores) @ x

  return f


@define(normal(4, 6), checks=("value", "jit", "grad", "vmap"))
def mixture_of_experts(tf):
  gate, experts = tf.constant(normal(6, 3, seed=1)), tf.constant(normal(3, 6, 5, seed=2))

  def f(x):
    values, indices = tf.math.top_k(x @ gate, 2)
    weights = tf.scatter_nd(
      tf.stack([tf.repeat(tf.range(4), 2), tf.reshape(indices, [-1])], 1),
      tf.reshape(tf.nn.softmax(values), [-1]),
      [4, 3],
    )
    return tf.einsum("be,bd,edf->bf", weights, x, tf.tanh(experts))

  return f
