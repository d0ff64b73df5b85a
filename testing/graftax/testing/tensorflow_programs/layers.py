"""Layers with random weights, for models that need no training and no download."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.testing._tensorflow import TensorFlow, TfFunction, TfTensor, import_tensorflow
from graftax.testing.pytrees import PyTree

__all__ = ["HOST", "Layers", "with_layers"]

HOST: tuple[str, ...] = ()
"""The checks of a model that cannot be converted as a whole, because its first part is work for the host."""


class Layers:
  """Makes variables on first use and applies layers; calls with the same name share weights.

  Attributes:
    variables: variables by name.
  """

  def __init__(self) -> None:
    self._tf = import_tensorflow()
    self.variables: dict[str, TfTensor] = {}

  def weight(self, name: str, *shape: int, scale: float | None = None, offset: float = 0.0) -> TfTensor:
    """Returns a variable of normally distributed numbers.

    Args:
      name: name of the variable.
      *shape: its shape.
      scale: standard deviation; by default such that a layer keeps the size of its input.
      offset: mean.
    """
    if name not in self.variables:
      fan_in = int(np.prod(shape[:-1])) or 1
      rng = np.random.default_rng([len(self.variables), *shape])
      value = offset + rng.normal(size=shape) * (fan_in**-0.5 if scale is None else scale)
      with self._tf.init_scope():
        self.variables[name] = self._tf.Variable(value.astype(np.float32), name=name)
    return self.variables[name]

  def dense(
    self, name: str, x: TfTensor, units: int, activation: Callable[[TfTensor], TfTensor] | None = None
  ) -> TfTensor:
    """Returns `activation(x @ weights + bias)` along the last axis."""
    y = self._tf.tensordot(x, self.weight(f"{name}/w", x.shape[-1], units), 1)
    y += self.weight(f"{name}/b", units, scale=0.1)
    return y if activation is None else activation(y)

  def conv(
    self,
    name: str,
    x: TfTensor,
    filters: int,
    size: int = 3,
    stride: int = 1,
    rate: int = 1,
    activation: Callable[[TfTensor], TfTensor] | None = None,
    padding: str = "SAME",
    bias: bool = True,
  ) -> TfTensor:
    """Returns a convolution over one, two or three spatial axes."""
    axes = x.shape.rank - 2
    weights = self.weight(f"{name}/w", *[size] * axes, x.shape[-1], filters)
    y = self._tf.nn.convolution(x, weights, strides=stride, padding=padding, dilations=rate)
    if bias:
      y += self.weight(f"{name}/b", filters, scale=0.1)
    return y if activation is None else activation(y)

  def depthwise(self, name: str, x: TfTensor, size: int = 3, stride: int = 1) -> TfTensor:
    """Returns a depthwise convolution of images."""
    weights = self.weight(f"{name}/w", size, size, x.shape[-1], 1, scale=1 / size)
    return self._tf.nn.depthwise_conv2d(x, weights, [1, stride, stride, 1], "SAME")

  def batch_norm(self, name: str, x: TfTensor) -> TfTensor:
    """Returns batch normalization of images with stored statistics."""
    channels = x.shape[-1]
    statistics = [
      self.weight(f"{name}/{key}", channels, scale=0.1, offset=o)
      for key, o in (("gamma", 1.0), ("beta", 0.0), ("mean", 0.0))
    ]
    variance = self.weight(f"{name}/variance", channels, scale=0.05, offset=1.0)
    return self._tf.compat.v1.nn.fused_batch_norm(x, *statistics, variance, is_training=False)[0]

  def layer_norm(self, name: str, x: TfTensor) -> TfTensor:
    """Returns layer normalization along the last axis."""
    tf = self._tf
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    gamma = self.weight(f"{name}/gamma", x.shape[-1], scale=0.1, offset=1.0)
    return (x - mean) * tf.math.rsqrt(variance + 1e-6) * gamma + self.weight(f"{name}/beta", x.shape[-1], scale=0.1)

  def embedding(self, name: str, ids: TfTensor, rows: int, size: int) -> TfTensor:
    """Returns rows of a table."""
    return self._tf.nn.embedding_lookup(self.weight(name, rows, size, scale=0.5), ids)

  def attention(self, name: str, queries: TfTensor, keys: TfTensor, heads: int, mask: TfTensor = None) -> TfTensor:
    """Returns attention with several heads; `mask` is added to the logits."""
    tf = self._tf
    size = queries.shape[-1]

    def split(part: str, x: TfTensor) -> TfTensor:
      y = self.dense(f"{name}/{part}", x, size)
      return tf.transpose(tf.reshape(y, [tf.shape(y)[0], tf.shape(y)[1], heads, size // heads]), [0, 2, 1, 3])

    q, k, v = split("q", queries), split("k", keys), split("v", keys)
    logits = tf.matmul(q, k, transpose_b=True) * (size // heads) ** -0.5
    weights = tf.nn.softmax(logits if mask is None else logits + mask)
    mixed = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
    return self.dense(f"{name}/o", tf.reshape(mixed, [tf.shape(mixed)[0], tf.shape(mixed)[1], size]), size)

  def transformer(self, name: str, x: TfTensor, heads: int = 2, mask: TfTensor = None) -> TfTensor:
    """Returns one layer of a transformer with normalization first."""
    y = self.layer_norm(f"{name}/norm1", x)
    x += self.attention(f"{name}/attention", y, y, heads, mask)
    y = self.dense(f"{name}/mlp1", self.layer_norm(f"{name}/norm2", x), 2 * x.shape[-1], self._tf.nn.gelu)
    return x + self.dense(f"{name}/mlp2", y, x.shape[-1])


def with_layers(tf: TensorFlow, function: Callable[..., Any], inputs: tuple[PyTree, ...]) -> TfFunction:
  """Returns a `tf.function` of a function of `tf`, `Layers` and inputs; for `Collector`."""
  del inputs
  return tf.function(functools.partial(function, tf, Layers()))
