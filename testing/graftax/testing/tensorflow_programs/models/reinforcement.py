"""Policies and value functions of agents."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("reinforcement", with_layers)

_LOOSE = (1e-4, 1e-5)


@define(
  normal(2, 16, 16, 4),
  integers(2, low=0, high=2, dtype=np.int32),
  checks=("jit", "batch", "param_grad"),
  tolerance=_LOOSE,
)
def q_network_with_dueling_heads(tf, layers, observation, is_masked):
  x = layers.conv("conv", observation, 8, 4, 4, activation=tf.nn.relu)
  x = tf.reshape(x, [-1, 128])
  advantage = layers.dense("advantage", x, 4)
  values = layers.dense("value", x, 1) + advantage - tf.reduce_mean(advantage, -1, keepdims=True)
  allowed = tf.where(tf.cast(is_masked, tf.bool)[:, None], values + [0.0, -1e9, 0.0, 0.0], values)
  return {"values": values, "action": tf.argmax(allowed, -1, output_type=tf.int32)}


@define(
  normal(2, 6), {"h": normal(2, 8), "c": normal(2, 8, seed=3)}, checks=("jit", "batch", "param_grad"), tolerance=_LOOSE
)
def recurrent_policy_with_state(tf, layers, observation, state):
  gates = layers.dense("gates", tf.concat([observation, state["h"]], -1), 32)
  i, f, g, o = tf.split(gates, 4, -1)
  c = tf.sigmoid(f + 1.0) * state["c"] + tf.sigmoid(i) * tf.tanh(g)
  h = tf.sigmoid(o) * tf.tanh(c)
  return tf.tanh(layers.dense("action", h, 2)), {"h": h, "c": c}


@define(
  normal(3, 6), integers(2, high=99), checks=("jit", "batch", "grad", "param_grad"), tolerance=_LOOSE, batched=(0,)
)
def soft_actor_with_squashed_normal(tf, layers, observation, seed):
  mean, log_deviation = tf.split(layers.dense("out", layers.dense("hidden", observation, 16, tf.nn.relu), 4), 2, -1)
  deviation = tf.exp(tf.clip_by_value(log_deviation, -5.0, 2.0))
  noise = tf.random.stateless_normal(tf.shape(mean), seed)
  raw = mean + deviation * noise
  density = tf.reduce_sum(-0.5 * noise**2 - tf.math.log(deviation) - 0.919, -1)
  correction = tf.reduce_sum(2.0 * (tf.math.log(2.0) - raw - tf.nn.softplus(-2.0 * raw)), -1)
  return tf.tanh(raw), density - correction


@define(normal(7, 3), normal(7, 3, seed=1), checks=("jit", "grad"), tolerance=_LOOSE)
def generalized_advantages(tf):
  def advantages(rewards, values):
    deltas = rewards[:-1] + 0.99 * values[1:] - values[:-1]
    return tf.scan(lambda total, delta: delta + 0.95 * total, deltas, tf.zeros([3]), reverse=True)

  return tf.function(advantages)


@define(normal(2, 5), checks=("jit", "batch"), tolerance=_LOOSE)
def planning_with_a_world_model(tf, layers, state):
  batch = tf.shape(state)[0]
  mean, deviation = tf.zeros([batch, 4, 2]), tf.ones([batch, 4, 2])
  for i in tf.range(2):
    noise = tf.random.stateless_normal([batch, 16, 4, 2], [1, i])
    actions = mean[:, None] + deviation[:, None] * noise
    now, total = tf.tile(state[:, None], [1, 16, 1]), tf.zeros([batch, 16])
    for step in range(4):
      now = layers.dense("model", tf.concat([now, actions[:, :, step]], -1), 5, tf.tanh)
      total += layers.dense("reward", now, 1)[..., 0]
    best = tf.gather(actions, tf.math.top_k(total, 4).indices, batch_dims=1)
    mean, deviation = tf.nn.moments(best, [1])
    deviation = tf.sqrt(deviation)
  return mean[:, 0]
