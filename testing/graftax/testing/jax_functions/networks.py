"""Small networks, as users of TF.js have them: each a function of parameters and a batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, nn

from graftax.testing.pytrees import PyTree

__all__ = ["NETWORKS", "Network"]

_IMAGES = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True, slots=True)
class Network:
  """A network.

  Attributes:
    apply: takes the parameters and a batch.
    shapes: the shapes of the parameters, nested.
    example: the shape of one element of the batch.
    dtype: the dtype of the batch. Integers are below 50.
  """

  apply: Callable[..., Any]
  shapes: PyTree
  example: tuple[int, ...]
  dtype: type = np.float32

  def parameters(self) -> PyTree:
    """Returns random parameters."""
    rng = np.random.default_rng(0)

    def draw(shape: tuple[int, ...]) -> np.ndarray:
      return (rng.normal(size=shape) * 0.3).astype(np.float32)

    return jax.tree.map(draw, self.shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))

  def batch(self, size: int) -> np.ndarray:
    """Returns a random batch."""
    rng = np.random.default_rng(size)
    shape = (size, *self.example)
    values = rng.integers(0, 50, shape) if np.issubdtype(self.dtype, np.integer) else rng.normal(size=shape)
    return values.astype(self.dtype)


def _mlp(params: PyTree, x: Array) -> Array:
  for layer in params[:-1]:
    x = nn.relu(x @ layer["w"] + layer["b"])
  return nn.softmax(x @ params[-1]["w"] + params[-1]["b"])


def _conv(x: Array, kernel: Array, strides: tuple[int, int] = (1, 1), **options: Any) -> Array:
  return lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=_IMAGES, **options)


def _pool(x: Array) -> Array:
  return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _cnn(params: PyTree, x: Array) -> Array:
  x = nn.relu(_conv(x, params["first"]) + params["bias"])
  x = _pool(x)
  mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
  x = nn.silu((x - mean) * lax.rsqrt(variance + 1e-5))
  x = _conv(x, params["depthwise"], feature_group_count=8)
  x = nn.gelu(_conv(x, params["last"], (2, 2)))
  return nn.log_softmax(x.mean((1, 2)) @ params["head"])


def _normalized(x: Array, scale: Array) -> Array:
  mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
  return (x - mean) / jnp.sqrt(variance + 1e-6) * scale


def _transformer(params: PyTree, tokens: Array) -> Array:
  x = params["embedding"][tokens] + params["positions"]
  length, heads, depth = x.shape[1], 2, 4
  y = _normalized(x, params["scale"])
  q, k, v = (
    (y @ w).reshape(-1, length, heads, depth).transpose(0, 2, 1, 3) for w in (params["q"], params["k"], params["v"])
  )
  scores = jnp.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(depth)
  scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
  attended = jnp.einsum("bhij,bhjd->bhid", nn.softmax(scores), v).transpose(0, 2, 1, 3).reshape(x.shape)
  x = x + attended @ params["out"]
  return x + nn.gelu(_normalized(x, params["scale"]) @ params["up"]) @ params["down"]


def _lstm(params: PyTree, x: Array) -> tuple[Array, Array]:
  def step(carry: PyTree, row: Array) -> PyTree:
    hidden, cell = carry
    gates = jnp.concatenate([row, hidden], 1) @ params["w"] + params["b"]
    i, f, g, o = jnp.split(gates, 4, axis=1)
    cell = nn.sigmoid(f + 1) * cell + nn.sigmoid(i) * jnp.tanh(g)
    hidden = nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden

  zeros = jnp.zeros((x.shape[0], 6))
  (hidden, _), rows = lax.scan(step, (zeros, zeros), jnp.swapaxes(x, 0, 1))
  return hidden, jnp.swapaxes(rows, 0, 1)


def _u_net(params: PyTree, x: Array) -> Array:
  first = nn.relu(_conv(x, params["down_0"]))
  second = nn.relu(_conv(_pool(first), params["down_1"]))
  middle = nn.relu(_conv(_pool(second), params["middle"]))
  up = lax.conv_transpose(middle, params["up_1"], (2, 2), "SAME", dimension_numbers=_IMAGES)
  joined = nn.relu(_conv(jnp.concatenate([up, second], 3), params["join_1"]))
  batch, height, width, channels = joined.shape
  larger = jax.image.resize(joined, (batch, 2 * height, 2 * width, channels), "nearest")
  return nn.sigmoid(_conv(jnp.concatenate([larger, first], 3), params["join_0"]))


NETWORKS: Mapping[str, Network] = {
  "mlp": Network(_mlp, [{"w": (8, 16), "b": (16,)}, {"w": (16, 16), "b": (16,)}, {"w": (16, 4), "b": (4,)}], (8,)),
  "cnn": Network(
    _cnn,
    {"first": (3, 3, 3, 8), "bias": (8,), "depthwise": (3, 3, 1, 8), "last": (1, 1, 8, 12), "head": (12, 5)},
    (12, 12, 3),
  ),
  "transformer": Network(
    _transformer,
    {
      "embedding": (50, 8), "positions": (6, 8), "scale": (8,), "q": (8, 8), "k": (8, 8), "v": (8, 8), "out": (8, 8),
      "up": (8, 32), "down": (32, 8),
    },
    (6,),
    np.int32,
  ),
  "lstm": Network(_lstm, {"w": (9, 24), "b": (24,)}, (5, 3)),
  "u_net": Network(
    _u_net,
    {
      "down_0": (3, 3, 3, 4), "down_1": (3, 3, 4, 8), "middle": (3, 3, 8, 8), "up_1": (2, 2, 8, 8),
      "join_1": (3, 3, 16, 4), "join_0": (3, 3, 8, 2),
    },
    (8, 8, 3),
  ),
}  # fmt: skip
"""The networks by name."""
