"""Vision models against dm-haiku, jax-resnet and flaxmodels."""

import jax
import jax.numpy as jnp

from graftax.testing.matched_models.pair import Pair
from graftax.testing.matched_models.pairs.keras_models import images, model_of_images, resnet, set_epsilon

_RESNET50 = (3, 4, 6, 3)


def _haiku_pair(model, size, make):
  import haiku as hk

  x = images(size)
  is_training = [True]  # haiku makes the moving averages in training alone
  network = hk.transform_with_state(lambda x: make(hk)(x, is_training=is_training[0]))
  target = jax.jit(network.init)(jax.random.key(0), x)
  is_training[0] = False
  fn, params = model_of_images(model, x)
  return Pair(fn, params, target, lambda target, x: network.apply(*target, None, x)[0], (x,))


def resnet50_haiku():
  # Of an odd size, "SAME" pads both sides alike, as KerasHub's ResNet always does.
  return _haiku_pair(resnet("bottleneck_block", _RESNET50, 65), 65, lambda hk: hk.nets.ResNet50(10))


def mobilenet_haiku():
  import keras

  model = keras.applications.MobileNet(weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None)
  set_epsilon(model, 1e-5)
  return _haiku_pair(model, 64, lambda hk: hk.nets.MobileNetV1(num_classes=10))


def resnet50_linen():
  import jax_resnet

  x = images(64)
  fn, params = model_of_images(resnet("bottleneck_block", _RESNET50, 64), x)
  module = jax_resnet.ResNet50(n_classes=10)
  target = jax.jit(module.init)(jax.random.key(0), x)
  return Pair(fn, params, target, lambda target, x: module.apply(target, x), (x,))


def vgg16_linen():
  import flaxmodels
  import keras

  x = images(64)
  fn, params = model_of_images(keras.applications.VGG16(weights=None, input_shape=x.shape[1:], include_top=False), x)
  module = flaxmodels.VGG16(output="activations", pretrained=None, normalize=False, include_head=False)
  target = module.init(jax.random.key(0), x)

  def target_fn(target, x):
    last = module.apply(target, x, train=False)["relu5_3"]
    return jax.lax.reduce_window(last, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

  return Pair(fn, params, target, target_fn, (x,))
