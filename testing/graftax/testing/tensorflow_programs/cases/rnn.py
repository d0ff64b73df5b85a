"""Recurrent networks."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("rnn")

_LAYER = ("value", "jit", "grad", "param_grad", "vmap", "batch", "export")
_X = normal(3, 5, 4)
_LOOSE = (1e-4, 1e-5)


define.table(
  _X,
  checks=_LAYER,
  tolerance=_LOOSE,
  programs={
    "lstm": lambda tf: tf.keras.layers.LSTM(6),
    "lstm_sequences": lambda tf: tf.keras.layers.LSTM(6, return_sequences=True, return_state=True),
    "gru": lambda tf: tf.keras.layers.GRU(6, return_sequences=True),
    "simple_rnn": lambda tf: tf.keras.layers.SimpleRNN(6),
    "bidirectional": lambda tf: tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(3, return_sequences=True)),
    "unrolled": lambda tf: tf.keras.layers.LSTM(4, unroll=True),
    "backwards": lambda tf: tf.keras.layers.GRU(4, go_backwards=True, reset_after=False),
  },
)


@define(_X, checks=_LAYER, tolerance=_LOOSE)
def stacked(tf):
  return tf.keras.Sequential(
    [
      tf.keras.layers.GRU(5, return_sequences=True),
      tf.keras.layers.LSTM(4),
      tf.keras.layers.Dense(2),
    ]
  )


@define(integers(3, 6, low=0, high=5), checks=("value", "jit", "param_grad", "vmap", "batch"), tolerance=_LOOSE)
def masked_embedding(tf):
  return tf.keras.Sequential([tf.keras.layers.Embedding(5, 4, mask_zero=True), tf.keras.layers.LSTM(3)])


@define(normal(2, 4, 6, 6, 1), checks=("value", "jit", "grad", "param_grad"), tolerance=_LOOSE)
def conv_lstm(tf):
  return tf.keras.layers.ConvLSTM2D(2, 3, padding="same")


@define(_X, integers(3, low=1, high=6), checks=("value", "jit", "vmap", "grad"), tolerance=_LOOSE)
def hand_written_cell_with_lengths(tf):
  w = tf.Variable(normal(4, 6, seed=1), name="w")
  u = tf.Variable(normal(6, 6, seed=2, scale=0.3), name="u")

  def f(x, lengths):
    h = tf.zeros([tf.shape(x)[0], 6])
    for t in tf.range(5):
      new = tf.tanh(x[:, t] @ w + h @ u)
      h = tf.where((t < lengths)[:, None], new, h)
    return h

  return tf.function(f)


@define(_X, checks=("value", "jit", "grad", "vmap", "batch"), tolerance=_LOOSE)
def recurrence_by_scan(tf):
  w = tf.constant(normal(4, 4, seed=1, scale=0.5))

  def f(x):
    steps = tf.transpose(x, [1, 0, 2])
    states = tf.scan(lambda h, step: tf.tanh(step + h @ w), steps, initializer=tf.zeros_like(steps[0]))
    return tf.transpose(states, [1, 0, 2])

  return f


@define(np.float32(0.5), normal(3, 4), checks=("value", "jit", "grad", "vmap"), tolerance=_LOOSE)
def greedy_decoding(tf):
  w = tf.constant(normal(4, 7, seed=1))
  table = tf.constant(normal(7, 4, seed=2))

  def f(temperature, h):
    tokens = tf.TensorArray(tf.int32, size=5)
    scores = tf.zeros([3])
    for i in tf.range(5):
      logits = tf.nn.log_softmax(h @ w / temperature)
      best = tf.argmax(logits, 1, output_type=tf.int32)
      scores += tf.gather(logits, best, batch_dims=1)
      tokens = tokens.write(i, best)
      h = tf.tanh(h + tf.gather(table, best))
    return tokens.stack(), scores

  return f
