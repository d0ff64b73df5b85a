"""Models of Keras as converted functions with their parameters, and data for them."""

import numpy as np

from graftax import convert
from graftax.testing._tensorflow import import_tensorflow

__all__ = [
  "MASK",
  "NUM_TOKENS",
  "VOCABULARY",
  "images",
  "model_of_images",
  "model_of_named_inputs",
  "resnet",
  "set_epsilon",
  "tokens",
]

VOCABULARY = 100
NUM_TOKENS = 16
MASK = np.ones((2, NUM_TOKENS), np.int32)


def tokens(seed=0, high=VOCABULARY):
  return np.random.default_rng(seed).integers(2 if high > 2 else 0, high, (2, NUM_TOKENS)).astype(np.int32)


def images(size):
  return np.random.default_rng(0).uniform(-1, 1, (2, size, size, 3)).astype(np.float32)


def model_of_images(model, x):
  """Returns `(fn, params)` of a model of one input."""
  tf = import_tensorflow()
  return convert.convert(tf.function(lambda x: model(x, training=False)), x)


def model_of_named_inputs(model, inputs, outputs=None):
  """Returns `(fn, params, arrays)` of a model of inputs by name; of several outputs by name some are chosen."""
  tf = import_tensorflow()

  def call(*args):
    result = model(dict(zip(inputs, args, strict=True)), training=False)
    return tuple(result[name] for name in outputs) if outputs else result

  arrays = tuple(inputs.values())
  return (*convert.convert(tf.function(call), *arrays), arrays)


def set_epsilon(model, epsilon):
  """Lets the batch normalizations of a model add to variances what the other model's do."""
  for layer in model.layers:
    if hasattr(layer, "epsilon"):
      layer.epsilon = epsilon


def resnet(block, num_blocks, size, *, num_filters=(64, 128, 256, 512), classes=10):
  """Returns KerasHub's ResNet, with a classifier if there are classes."""
  import keras
  import keras_hub

  backbone = keras_hub.models.ResNetBackbone(
    input_conv_filters=[64],
    input_conv_kernel_sizes=[7],
    stackwise_num_filters=list(num_filters),
    stackwise_num_blocks=list(num_blocks),
    stackwise_num_strides=[1, *[2] * (len(num_blocks) - 1)],
    block_type=block,
    image_shape=(size, size, 3),
  )
  if not classes:
    return backbone
  return keras.Sequential([backbone, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(classes)])
