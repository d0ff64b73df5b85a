"""Whole training steps: forward pass, gradients and the optimizer's update in one graph."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("training_steps")

_STEP = ("value", "jit", "state")
_LOOSE = (1e-4, 1e-5)
_X, _Y = normal(6, 4), normal(6, 2, seed=1)


def _step(tf, optimizer, model=None):
  model = model or tf.keras.Sequential([tf.keras.layers.Dense(5, activation="tanh"), tf.keras.layers.Dense(2)])
  model.build((None, 4))
  optimizer.build(model.trainable_variables)

  def step(x, y):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean((model(x, training=True) - y) ** 2) + sum(model.losses)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

  return tf.function(step)


define.table(
  _X,
  _Y,
  checks=_STEP,
  tolerance=_LOOSE,
  programs={
    "sgd": lambda tf: _step(tf, tf.keras.optimizers.SGD(0.1)),
    "nesterov_momentum": lambda tf: _step(tf, tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)),
    "adam": lambda tf: _step(tf, tf.keras.optimizers.Adam(0.01)),
    "rmsprop_and_averaging": lambda tf: _step(tf, tf.keras.optimizers.RMSprop(0.01, momentum=0.5, use_ema=True)),
    "adagrad": lambda tf: _step(tf, tf.keras.optimizers.Adagrad(0.1)),
    "lion": lambda tf: _step(tf, tf.keras.optimizers.Lion(0.01)),
  },
)


@define(_X, _Y, checks=_STEP, tolerance=_LOOSE)
def adamw_with_schedule_and_clipping(tf):
  schedule = tf.keras.optimizers.schedules.CosineDecay(0.1, 100, warmup_steps=10, warmup_target=0.2)
  return _step(tf, tf.keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=0.5))


@define(_X, _Y, checks=_STEP, tolerance=_LOOSE)
def batch_norm_and_regularization(tf):
  layers = tf.keras.layers
  model = tf.keras.Sequential([
    layers.Dense(5, kernel_regularizer="l2"), layers.BatchNormalization(), layers.ReLU(), layers.Dense(2)
  ])  # fmt: skip
  return _step(tf, tf.keras.optimizers.SGD(0.1), model)


@define(normal(2, 8, 8, 1), integers(2, high=3), checks=_STEP, tolerance=_LOOSE)
def convolutional_classifier(tf):
  layers = tf.keras.layers
  model = tf.keras.Sequential(
    [layers.Conv2D(3, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(3)]
  )
  model.build((None, 8, 8, 1))
  optimizer = tf.keras.optimizers.Adam(0.01)
  optimizer.build(model.trainable_variables)

  def step(x, y):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

  return tf.function(step)


@define(integers(4, 3, high=9), checks=_STEP, tolerance=_LOOSE)
def sparse_embedding_update(tf):
  table = tf.Variable(normal(9, 4, seed=2), name="table")

  def step(ids):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(tf.nn.embedding_lookup(table, ids) ** 2)
    gradient = tape.gradient(loss, table)
    table.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
    return loss

  return tf.function(step)


@define(_X, _Y, checks=_STEP, tolerance=_LOOSE)
def several_steps_in_a_loop(tf):
  w = tf.Variable(normal(4, 2, seed=2), name="w")

  def train(x, y):
    loss = tf.constant(0.0)
    for _ in tf.range(5):
      with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2)
      w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss

  return tf.function(train)


@define(_X, _Y, checks=_STEP, tolerance=_LOOSE)
def accumulated_gradients(tf):
  w = tf.Variable(normal(4, 2, seed=2), name="w")
  total = tf.Variable(np.zeros((4, 2), np.float32), trainable=False, name="total")
  count = tf.Variable(0, trainable=False, name="count")

  def step(x, y):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean((x @ w - y) ** 2)
    total.assign_add(tape.gradient(loss, w))
    count.assign_add(1)
    if count % 2 == 1:
      w.assign_sub(0.1 * total)
      total.assign(tf.zeros_like(total))
    return loss

  return tf.function(step)
