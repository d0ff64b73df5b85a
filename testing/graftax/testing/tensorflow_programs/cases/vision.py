"""Convolutional networks and their layers."""

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("vision")

_LAYER = ("value", "jit", "grad", "param_grad", "vmap", "batch", "export")
_LOOSE = (1e-4, 1e-5)
_IMAGES = normal(2, 12, 12, 3)


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def small_cnn(tf):
  layers = tf.keras.layers
  return tf.keras.Sequential(
    [
      layers.Conv2D(4, 3, activation="relu"),
      layers.MaxPooling2D(),
      layers.Conv2D(6, 3, padding="same", activation="gelu"),
      layers.GlobalAveragePooling2D(),
      layers.Dense(3, activation="softmax"),
    ]
  )


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def residual_block(tf):
  layers = tf.keras.layers
  inputs = tf.keras.Input((12, 12, 3))
  x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, 3, 2, padding="same", use_bias=False)(inputs)))
  x = layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same")(x))
  return tf.keras.Model(inputs, layers.ReLU()(x + layers.Conv2D(6, 1, 2)(inputs)))


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def separable_and_depthwise(tf):
  layers = tf.keras.layers
  return tf.keras.Sequential([layers.SeparableConv2D(5, 3), layers.DepthwiseConv2D(3, depth_multiplier=2)])


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def dilated(tf):
  return tf.keras.layers.Conv2D(4, 3, dilation_rate=2, padding="same")


@define(_IMAGES[:, :6, :6], checks=_LAYER, tolerance=_LOOSE)
def transposed(tf):
  return tf.keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same")


@define(normal(2, 6, 6, 6, 2), checks=_LAYER, tolerance=_LOOSE)
def volumetric(tf):
  return tf.keras.Sequential([tf.keras.layers.Conv3D(3, 3, activation="elu"), tf.keras.layers.MaxPooling3D(2)])


@define(normal(2, 16, 3), checks=_LAYER, tolerance=_LOOSE)
def temporal(tf):
  layers = tf.keras.layers
  return tf.keras.Sequential([layers.Conv1D(4, 3, padding="causal", dilation_rate=2), layers.AveragePooling1D(2)])


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def squeeze_and_excite(tf):
  layers = tf.keras.layers
  inputs = tf.keras.Input((12, 12, 3))
  x = layers.Conv2D(8, 3, activation="swish")(inputs)
  gate = layers.Dense(2, activation="relu")(layers.GlobalAveragePooling2D()(x))
  gate = layers.Dense(8, activation="hard_sigmoid")(gate)
  return tf.keras.Model(inputs, x * layers.Reshape((1, 1, 8))(gate))


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def u_net(tf):
  layers = tf.keras.layers
  inputs = tf.keras.Input((12, 12, 3))
  a = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
  b = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
  up = layers.UpSampling2D(interpolation="bilinear")(b)
  return tf.keras.Model(inputs, layers.Conv2D(1, 1)(layers.Concatenate()([a, up])))


@define(_IMAGES, checks=_LAYER, tolerance=_LOOSE)
def patches_to_tokens(tf):
  layers = tf.keras.layers
  return tf.keras.Sequential(
    [layers.Conv2D(8, 4, 4), layers.Reshape((9, 8)), layers.LayerNormalization(), layers.Dense(4)]
  )


# TensorFlow does not implement the gradient of grouped convolutions on CPU.
@define(_IMAGES, checks=("value", "jit", "vmap", "batch"), tolerance=_LOOSE)
def grouped_convolution(tf):
  kernel = tf.constant(normal(3, 3, 1, 6, seed=1))
  return lambda x: tf.nn.conv2d(x, kernel, [1, 2, 2, 1], [[0, 0], [1, 1], [2, 0], [0, 0]])


@define(_IMAGES, checks=("value", "jit", "grad", "vmap", "batch"))
def pooling_zoo(tf, x):
  pooled = tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, 2, 2, "VALID")
  return [*pooled, tf.nn.pool(x, [2, 2], "MAX", dilations=[2, 2])]


@define(_IMAGES, checks=("value", "jit", "vmap"))
def pooling_with_positions(tf, x):
  return tuple(tf.nn.max_pool_with_argmax(x, 2, 2, "VALID"))


@define(normal(2, 8, 8, 4), checks=("value", "jit", "grad", "vmap", "batch"))
def pixel_shuffle(tf, x):
  return tf.nn.depth_to_space(x, 2) * tf.reduce_sum(tf.nn.space_to_depth(x, 2), axis=[1, 2, 3])[:, None, None, None]


@define(normal(1, 6, 6, 2), checks=("value", "jit", "grad"), tolerance=_LOOSE)
def morphology(tf, x):
  return tf.nn.dilation2d(x, tf.constant(normal(2, 2, 2, seed=1)), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])


@define(_IMAGES, checks=("value", "jit", "grad", "vmap", "batch"), tolerance=_LOOSE)
def extracted_patches(tf, x):
  return tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
