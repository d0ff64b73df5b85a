"""Quantized arithmetic and mixed precision."""

import ml_dtypes
import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal, uniform

define = Collector("quantization")

_X = normal(4, 6)


@define(_X, checks=("value", "jit", "grad", "batch"))
def fake_quantized_layer(tf):
  w = tf.constant(normal(6, 3, seed=1))

  def f(x):
    x = tf.quantization.fake_quant_with_min_max_args(x, -2.0, 2.0)
    weights = tf.quantization.fake_quant_with_min_max_vars(w, -1.5, 1.5, num_bits=4)
    return x @ weights

  return f


@define(_X, checks=("value", "jit", "grad"))
def per_channel(tf):
  low, high = tf.constant(uniform(6, low=-3, high=-1)), tf.constant(uniform(6, low=1, high=3))
  return lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, low, high)


@define(_X, checks=("value", "jit", "grad"))
def quantize_and_dequantize(tf, x):
  return tf.quantization.quantize_and_dequantize_v2(x, -2.0, 2.0, range_given=True)


@define(_X, checks=("value", "jit"))
def int8_matmul_by_hand(tf):
  w = tf.constant(integers(6, 3, low=-127, high=127), tf.int8)

  def f(x):
    scale = tf.reduce_max(tf.abs(x)) / 127.0
    q = tf.cast(tf.round(x / scale), tf.int8)
    return tf.cast(tf.matmul(tf.cast(q, tf.int32), tf.cast(w, tf.int32)), tf.float32) * scale * 0.01

  return f


@define(normal(4, 6, dtype=ml_dtypes.bfloat16), checks=("value", "jit", "grad", "vmap"), tolerance=(2e-2, 1e-2))
def bfloat16(tf):
  w = tf.constant(normal(6, 3, seed=1), tf.bfloat16)
  return lambda x: tf.nn.softmax(tf.matmul(x, w)) * tf.cast(2.0, tf.bfloat16)


@define(normal(4, 6, dtype=np.float16), checks=("value", "jit", "grad", "vmap"), tolerance=(4e-3, 2e-3))
def float16(tf, x):
  return tf.nn.relu(x) + tf.cast(tf.reduce_mean(tf.cast(x, tf.float32) ** 2), tf.float16)


@define(_X, checks=("value", "jit", "param_grad", "grad"), tolerance=(2e-2, 1e-2))
def mixed_precision_keras(tf):
  model = tf.keras.Sequential([
    tf.keras.layers.Dense(5, activation="relu", dtype="mixed_bfloat16"), tf.keras.layers.Dense(2, dtype="float32")
  ])  # fmt: skip
  model.build((None, 6))
  return tf.function(lambda x: model(x))


@define(_X, checks=("value", "jit"))
def casts(tf, x):
  kinds = tf.int8, tf.int32, tf.bfloat16, tf.float16, tf.bool, tf.complex64
  return [tf.cast(x * 3.0, kind) for kind in kinds], tf.saturate_cast(x * 100.0, tf.uint8), tf.bitcast(x, tf.int32)
