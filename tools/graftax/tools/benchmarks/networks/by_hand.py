"""The networks of `written.py` as one writes them in flax.linen. Layers have the names that Keras gives them."""

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from graftax.tools.pytrees import PyTree

__all__ = ["NETWORKS", "variables_of"]

# The names that flax has for Keras's weights.
_NAMES = {
  "gamma": "scale",
  "beta": "bias",
  "moving_mean": "mean",
  "moving_variance": "var",
  "attention_output": "out",
  "embeddings": "embedding",
}
_LSTM_GATES = "ifgo"


def variables_of(params: Mapping[str, jax.Array]) -> dict[str, PyTree]:
  """Returns flax's variables for the parameters of the converted network, by name."""
  variables: dict[str, PyTree] = {"params": {}}
  for name, value in params.items():
    *layers, weight = name.split("/")
    if layers[-1] == "lstm_cell":
      variables["params"].setdefault(layers[0], {}).update(_gates(weight, value))
      continue
    kind = "batch_stats" if weight.startswith("moving_") else "params"
    folder = variables.setdefault(kind, {})
    for layer in layers:
      folder = folder.setdefault(_NAMES.get(layer, layer), {})
    # Keras has (height, width, channels, 1) for depthwise filters, flax (height, width, 1, channels).
    depthwise = weight == "kernel" and value.ndim == 4 and value.shape[-1] == 1
    folder[_NAMES.get(weight, weight)] = jnp.swapaxes(value, 2, 3) if depthwise else value
  return variables


def _gates(weight: str, value: jax.Array) -> dict[str, PyTree]:
  """Returns the weights of the gates of `OptimizedLSTMCell`, which Keras holds in one array."""
  kind = {"kernel": "i", "recurrent_kernel": "h", "bias": "bias"}[weight]
  pieces = jnp.split(value, 4, axis=-1)
  return {f"{kind}{gate}": piece for gate, piece in zip(_LSTM_GATES, pieces, strict=True)}


class Mlp(nn.Module):
  """`keras.layers.Dense`, three times."""

  widths: tuple[int, int, int] = (4096, 4096, 4096)

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    for i, width in enumerate(self.widths[:2]):
      x = nn.relu(nn.Dense(width, name=f"dense_{i}")(x))
    return nn.Dense(self.widths[2], name="dense_2")(x)


class ResNet50(nn.Module):
  """`keras.applications.ResNet50`, for inference."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    x = self._conv(x, "conv1", 64, 7, 2, 3)
    x = nn.max_pool(jnp.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)]), (3, 3), (2, 2))
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], start=2):
      for block in range(1, blocks + 1):
        stride = 2 if block == 1 and stage > 2 else 1
        x = self._block(x, f"conv{stage}_block{block}", width, stride, widen=block == 1)
    return nn.softmax(nn.Dense(1000, name="predictions")(x.mean((1, 2))))

  def _block(self, x: jax.Array, name: str, width: int, stride: int, widen: bool) -> jax.Array:
    shortcut = self._conv(x, f"{name}_0", 4 * width, 1, stride, act=False) if widen else x
    y = self._conv(x, f"{name}_1", width, 1, stride)
    y = self._conv(y, f"{name}_2", width, 3, 1, 1)
    return nn.relu(shortcut + self._conv(y, f"{name}_3", 4 * width, 1, act=False))

  def _conv(
    self, x: jax.Array, name: str, width: int, size: int, stride: int = 1, pad: int = 0, act: bool = True
  ) -> jax.Array:
    y = nn.Conv(width, (size, size), stride, [(pad, pad)] * 2, name=f"{name}_conv")(x)
    y = nn.BatchNorm(use_running_average=True, epsilon=1.001e-5, name=f"{name}_bn")(y)
    return nn.relu(y) if act else y


class MobileNetV2(nn.Module):
  """`keras.applications.MobileNetV2`, for inference."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    x = self._conv(x, "Conv1", "bn_Conv1", 32, 3, 2)
    index = 0
    for expansion, width, repeats, first_stride in [
      (1, 16, 1, 1),
      (6, 24, 2, 2),
      (6, 32, 3, 2),
      (6, 64, 4, 2),
      (6, 96, 3, 1),
      (6, 160, 3, 2),
      (6, 320, 1, 1),
    ]:
      for repeat in range(repeats):
        x = self._block(x, index, expansion, width, 1 if repeat else first_stride)
        index += 1
    x = self._conv(x, "Conv_1", "Conv_1_bn", 1280, 1)
    return nn.softmax(nn.Dense(1000, name="predictions")(x.mean((1, 2))))

  def _block(self, x: jax.Array, index: int, expansion: int, width: int, stride: int) -> jax.Array:
    name = f"block_{index}" if index else "expanded_conv"
    y, wide = x, expansion * x.shape[-1]
    if expansion > 1:
      y = self._conv(y, f"{name}_expand", f"{name}_expand_BN", wide, 1)
    y = self._conv(y, f"{name}_depthwise", f"{name}_depthwise_BN", wide, 3, stride, groups=wide)
    y = self._conv(y, f"{name}_project", f"{name}_project_BN", width, 1, act=False)
    return x + y if stride == 1 and x.shape[-1] == width else y

  def _conv(
    self, x: jax.Array, name: str, norm: str, width: int, size: int, stride: int = 1, groups: int = 1, act: bool = True
  ) -> jax.Array:
    pads: Any = [(0, 1)] * 2 if stride == 2 and groups > 1 else "SAME"
    y = nn.Conv(width, (size, size), stride, pads, feature_group_count=groups, use_bias=False, name=name)(x)
    y = nn.BatchNorm(use_running_average=True, epsilon=1e-3, name=norm)(y)
    return nn.relu6(y) if act else y


class Transformer(nn.Module):
  """An encoder, of vectors or of tokens."""

  num_layers: int = 12
  num_heads: int = 12
  width: int = 768
  num_tokens: int | None = None

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    if self.num_tokens is not None:
      x = nn.Embed(self.num_tokens, self.width, name="tokens")(x)
    for i in range(self.num_layers):
      attended = nn.MultiHeadDotProductAttention(self.num_heads, name=f"attention_{i}")(x, x)
      x = nn.LayerNorm(name=f"norm_{i}a")(x + attended)
      wide = nn.gelu(nn.Dense(4 * self.width, name=f"wide_{i}")(x), approximate=False)
      x = nn.LayerNorm(name=f"norm_{i}b")(x + nn.Dense(self.width, name=f"narrow_{i}")(wide))
    return x


class _LstmCell(nn.Module):
  """One step with the four gates in one product, as `flax.linen.OptimizedLSTMCell` computes it."""

  width: int

  @nn.compact
  def __call__(self, carry: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    c, h = carry
    zeros = nn.initializers.zeros
    stacked = [
      jnp.concatenate([self.param(f"{kind}{gate}", zeros, shape) for gate in _LSTM_GATES], axis=-1)
      for kind, shape in [
        ("i", (x.shape[-1], self.width)),
        ("h", (self.width, self.width)),
        ("bias", (self.width,)),
      ]
    ]
    i, f, g, o = jnp.split(x @ stacked[0] + h @ stacked[1] + stacked[2], 4, axis=-1)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
    h = nn.sigmoid(o) * jnp.tanh(c)
    return (c, h), h


class Lstm(nn.Module):
  """Two LSTM layers, as `nn.scan` over their steps."""

  width: int = 1024

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    for i in range(2):
      scan = nn.scan(_LstmCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)
      start = jnp.zeros((x.shape[0], self.width), x.dtype)
      _, x = scan(self.width, name=f"lstm_{i}")((start, start), x)
    return x[:, -1]


NETWORKS: dict[str, Callable[[], nn.Module]] = {
  "mlp": Mlp,
  "resnet50": ResNet50,
  "mobilenet_v2": MobileNetV2,
  "transformer": Transformer,
  "lstm": Lstm,
}
