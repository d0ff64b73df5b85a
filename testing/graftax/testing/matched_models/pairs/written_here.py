"""Models of flax.nnx that were written for this suite, in the style of a user who follows a paper."""

import jax
import jax.numpy as jnp
from flax import nnx

from graftax.testing.matched_models.pair import Pair
from graftax.testing.matched_models.pairs.keras_models import images, model_of_images


def _same(kernel):
  return [(kernel // 2, kernel // 2)] * 2


class _ConvNormAct(nnx.Module):
  def __init__(self, ins, outs, kernel, strides=1, groups=1, *, act=True, rngs):
    self.weights = nnx.Conv(
      ins, outs, (kernel, kernel), strides, padding=_same(kernel), feature_group_count=groups, use_bias=False, rngs=rngs
    )
    self.stats = nnx.BatchNorm(outs, epsilon=1e-3, use_running_average=True, rngs=rngs)
    self.act = act

  def __call__(self, x):
    x = self.stats(self.weights(x))
    return jax.nn.relu6(x) if self.act else x


class _InvertedResidual(nnx.Module):
  def __init__(self, ins, outs, strides, factor, *, rngs):
    hidden = ins * factor
    self.has_skip = strides == 1 and ins == outs
    self.widen = _ConvNormAct(ins, hidden, 1, rngs=rngs) if factor != 1 else None
    self.spatial = _ConvNormAct(hidden, hidden, 3, strides, hidden, rngs=rngs)
    self.narrow = _ConvNormAct(hidden, outs, 1, act=False, rngs=rngs)

  def __call__(self, x):
    y = self.widen(x) if self.widen is not None else x
    y = self.narrow(self.spatial(y))
    return x + y if self.has_skip else y


class _MobileNetV2(nnx.Module):
  def __init__(self, classes, *, rngs):
    self.first = _ConvNormAct(3, 32, 3, 2, rngs=rngs)
    blocks, width = [], 32
    for factor, outs, count, strides in (
      (1, 16, 1, 1),
      (6, 24, 2, 2),
      (6, 32, 3, 2),
      (6, 64, 4, 2),
      (6, 96, 3, 1),
      (6, 160, 3, 2),
      (6, 320, 1, 1),
    ):
      for k in range(count):
        blocks.append(_InvertedResidual(width, outs, strides if k == 0 else 1, factor, rngs=rngs))
        width = outs
    self.trunk = nnx.List(blocks)
    self.last = _ConvNormAct(width, 1280, 1, rngs=rngs)
    self.readout = nnx.Linear(1280, classes, rngs=rngs)

  def __call__(self, x):
    x = self.first(x)
    for block in self.trunk:
      x = block(x)
    return self.readout(self.last(x).mean((1, 2)))


class _Layer(nnx.Module):
  def __init__(self, ins, growth, *, rngs):
    self.n1 = nnx.BatchNorm(ins, epsilon=1.001e-5, use_running_average=True, rngs=rngs)
    self.c1 = nnx.Conv(ins, 4 * growth, (1, 1), use_bias=False, rngs=rngs)
    self.n2 = nnx.BatchNorm(4 * growth, epsilon=1.001e-5, use_running_average=True, rngs=rngs)
    self.c2 = nnx.Conv(4 * growth, growth, (3, 3), padding=1, use_bias=False, rngs=rngs)

  def __call__(self, x):
    y = self.c1(jax.nn.relu(self.n1(x)))
    return jnp.concatenate([x, self.c2(jax.nn.relu(self.n2(y)))], axis=-1)


class _Shrink(nnx.Module):
  def __init__(self, ins, outs, *, rngs):
    self.n = nnx.BatchNorm(ins, epsilon=1.001e-5, use_running_average=True, rngs=rngs)
    self.c = nnx.Conv(ins, outs, (1, 1), use_bias=False, rngs=rngs)

  def __call__(self, x):
    return nnx.avg_pool(self.c(jax.nn.relu(self.n(x))), (2, 2), (2, 2))


class _DenseNet121(nnx.Module):
  def __init__(self, classes, *, rngs):
    self.c0 = nnx.Conv(3, 64, (7, 7), 2, padding=3, use_bias=False, rngs=rngs)
    self.n0 = nnx.BatchNorm(64, epsilon=1.001e-5, use_running_average=True, rngs=rngs)
    parts, width = [], 64
    for index, count in enumerate((6, 12, 24, 16)):
      for _ in range(count):
        parts.append(_Layer(width, 32, rngs=rngs))
        width += 32
      if index < 3:
        parts.append(_Shrink(width, width // 2, rngs=rngs))
        width //= 2
    self.parts = nnx.List(parts)
    self.n1 = nnx.BatchNorm(width, epsilon=1.001e-5, use_running_average=True, rngs=rngs)
    self.out = nnx.Linear(width, classes, rngs=rngs)

  def __call__(self, x):
    x = jax.nn.relu(self.n0(self.c0(x)))
    x = nnx.max_pool(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (2, 2))
    for part in self.parts:
      x = part(x)
    return self.out(jax.nn.relu(self.n1(x)).mean((1, 2)))


def _pair(name, module, size):
  import keras

  x = images(size)
  model = getattr(keras.applications, name)(
    weights=None, input_shape=x.shape[1:], classes=10, classifier_activation=None
  )
  fn, params = model_of_images(model, x)
  return Pair(fn, params, module(10, rngs=nnx.Rngs(0)), lambda target, x: target(x), (x,))


def mobilenet_v2_nnx():
  return _pair("MobileNetV2", _MobileNetV2, 65)  # of an odd size, Keras pads both sides alike


def densenet121_nnx():
  return _pair("DenseNet121", _DenseNet121, 64)
