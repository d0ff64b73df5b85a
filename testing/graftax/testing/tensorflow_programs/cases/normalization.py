"""Normalization, in training and in inference."""

from graftax.testing.harness.conversion_case import SMOOTH, Collector, normal, uniform

define = Collector("normalization")

_LAYER = ("value", "jit", "grad", "param_grad", "vmap", "batch", "export")
_LOOSE = (1e-4, 1e-5)
_X = normal(4, 6)


@define(_X, checks=_LAYER)
def layer_norm(tf):
  return tf.keras.layers.LayerNormalization()


@define(_X, checks=_LAYER)
def rms_norm(tf):
  return tf.keras.layers.RMSNormalization()


@define(_X, checks=("value", "jit", "grad", "param_grad", "state"), tolerance=_LOOSE)
def batch_norm_in_training(tf):
  layer = tf.keras.layers.BatchNormalization()
  layer.build((None, 6))
  return tf.function(lambda x: layer(x, training=True))


@define(normal(2, 5, 5, 3), checks=("value", "jit", "grad", "param_grad", "state"), tolerance=_LOOSE)
def fused_batch_norm_in_training(tf):
  layer = tf.keras.layers.BatchNormalization(momentum=0.5)
  layer.build((None, 5, 5, 3))
  return tf.function(lambda x: layer(x, training=True))


@define(normal(2, 5, 5, 3), checks=_LAYER)
def batch_norm_in_inference(tf):
  layer = tf.keras.layers.BatchNormalization()
  layer.build((None, 5, 5, 3))
  return tf.function(lambda x: layer(x, training=False))


@define(normal(2, 5, 5, 6), checks=_LAYER, tolerance=_LOOSE)
def group_norm(tf):
  return tf.keras.layers.GroupNormalization(3)


@define(_X, checks=_LAYER)
def unit_norm(tf):
  return tf.keras.layers.UnitNormalization()


@define(_X, checks=("value", "jit", "grad", "param_grad"), tolerance=_LOOSE)
def spectral_norm(tf):
  layer = tf.keras.layers.SpectralNormalization(tf.keras.layers.Dense(3))
  layer.build((None, 6))
  return tf.function(lambda x: layer(x, training=False))


@define(_X, checks=SMOOTH)
def l2_normalize(tf, x):
  return tf.math.l2_normalize(x, axis=-1)


@define(uniform(2, 4, 4, 6), checks=("value", "jit", "grad", "vmap", "batch"))
def local_response(tf, x):
  return tf.nn.local_response_normalization(x, 2, 1.0, 0.5, 0.75)


@define(_X, checks=("value", "jit", "grad", "vmap", "batch"))
def moments(tf, x):
  mean, variance = tf.nn.moments(x, [-1], keepdims=True)
  return tf.nn.batch_normalization(x, mean, variance, 0.5, 2.0, 1e-3)


@define(_X, checks=("value", "jit", "grad", "vmap"))
def clipping_by_global_norm(tf, x):
  return tf.clip_by_global_norm([x, x[0] * 3.0], 1.5)
