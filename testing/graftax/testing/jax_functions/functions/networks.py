"""Convolutions, normalization, attention, recurrent cells, images and training steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, nn

from graftax.testing.jax_functions.case import SHARED, Case, bf16, f32
from graftax.testing.pytrees import PyTree

_NHWC = ("NHWC", "HWIO", "NHWC")
_IMAGES = f32(2, 6, 6, 2)
_B = ("b, ...", None)


def _conv(strides: tuple[int, ...], padding: str, **settings: Any) -> Any:
  return lambda x, k: lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=_NHWC, **settings)


def _mlp(x: Array, params: PyTree) -> Array:
  return nn.softmax(nn.gelu(x @ params["w"] + params["b"]) @ params["v"])


def _dot_product_attention(q: Array, k: Array) -> Array:
  return nn.dot_product_attention(q, k, k, is_causal=True)


def _rotary(x: Array) -> Array:
  angles = jnp.arange(x.shape[1])[:, None] * jnp.array([1.0, 0.1])
  a, b = jnp.split(x, 2, axis=-1)
  return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1)


def _cross_entropy(logits: Array, labels: Array) -> Array:
  return -jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], axis=1).mean()


def _mixture(x: Array, w: Array) -> Array:
  """Returns the two best of four experts, weighted."""
  weights, chosen = lax.top_k(nn.softmax(x @ w), 2)
  return (nn.one_hot(chosen, 4) * weights[..., None]).sum(1)


CASES = (
  Case("conv1d", lambda x, k: lax.conv(x, k, (2,), "SAME"), (f32(2, 3, 9), f32(4, 3, 3)), _B),
  Case("conv2d", _conv((1, 1), "SAME"), (_IMAGES, f32(3, 3, 2, 4)), _B),
  Case("conv2d_strided", _conv((2, 1), "VALID", rhs_dilation=(1, 2)), (_IMAGES, f32(3, 3, 2, 4)), _B),
  Case("depthwise_conv", _conv((1, 1), "SAME", feature_group_count=2), (_IMAGES, f32(3, 3, 1, 4)), _B),
  Case(
    "conv_transpose",
    lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"),
    (_IMAGES, f32(3, 3, 2, 4)),
    _B,
  ),
  Case(
    "conv3d",
    lambda x, k: lax.conv(x, k, (1, 1, 1), "VALID"),
    (f32(1, 2, 4, 4, 4), f32(3, 2, 2, 2, 2)),
    _B,
  ),
  Case("batch_grouped_conv", _conv((1, 1), "VALID", batch_group_count=2), (_IMAGES, f32(3, 3, 2, 4))),
  Case(
    "conv_patches",
    lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"),
    (f32(2, 2, 4, 4),),
    ("b, ...",),
  ),
  Case(
    "convolve",
    lambda x, k: jnp.convolve(x[0], k, mode="same") + jnp.correlate(x[0], k, mode="same"),
    (f32(2, 8), f32(3)),
    _B,
  ),
  Case("conv_net", SHARED["conv_net"], (f32(2, 4, 4, 1), f32(3, 3, 1, 2), f32(8, 3)), ("b, ...", None, None)),
  Case("resize_linear", lambda x: jax.image.resize(x, (x.shape[0], 9, 4, 2), "bilinear"), (_IMAGES,), ("b, ...",)),
  Case("resize_cubic", lambda x: jax.image.resize(x, (x.shape[0], 4, 8, 2), "cubic"), (_IMAGES,), ("b, ...",)),
  Case("resize_nearest", lambda x: jax.image.resize(x, (x.shape[0], 3, 9, 2), "nearest"), (_IMAGES,), ("b, ...",)),
  Case(
    "map_coordinates",
    lambda x: jax.scipy.ndimage.map_coordinates(x, [x[0] * 2 + 1, x[1] * 2 + 1], order=1),
    (f32(4, 5),),
    low=0.1,
    high=0.9,
  ),
  Case("batch_norm", SHARED["batch_norm"], (f32(6, 4), f32(4)), _B),
  Case("layer_norm", SHARED["layer_norm"], (f32(3, 8), f32(8)), _B),
  Case("mlp", _mlp, (f32(3, 4), {"w": f32(4, 8), "b": f32(8), "v": f32(8, 2)}), ("b, _", None)),
  Case(
    "attention",
    jax.vmap(SHARED["attention"]),
    (f32(2, 4, 3), f32(2, 5, 3), f32(2, 5, 2)),
    ("b, q, _", "b, k, _", "b, k, _"),
  ),
  Case(
    "causal_attention", jax.vmap(SHARED["causal_attention"], (0, None)), (f32(2, 4, 3), f32(3, 9)), ("b, t, _", None)
  ),
  Case("dot_product_attention", _dot_product_attention, (f32(2, 4, 2, 3), f32(2, 4, 2, 3)), ("b, ...", "b, ...")),
  Case("rotary_embedding", _rotary, (f32(2, 5, 4),), ("b, t, _",)),
  Case(
    "lstm", jax.vmap(SHARED["lstm"], (0, None, None)), (f32(2, 5, 3), f32(3, 16), f32(4, 16)), ("b, ...", None, None)
  ),
  Case("sgd_step", SHARED["sgd_step"], (f32(3, 2), f32(5, 3), f32(5, 2)), (None, "b, _", "b, _")),
  Case("cross_entropy", _cross_entropy, (f32(3, 4), np.array([0, 3, 1], np.int32)), ("b, _", "b")),
  Case("mixture_of_experts", _mixture, (f32(3, 5), f32(5, 4)), _B),
  Case("ragged_dot", SHARED["ragged_dot"], (f32(6, 4), f32(2, 4, 3)), gradient=False),
  Case("mixed_precision", lambda x, y: (x @ y).astype(np.float32), (bf16(3, 4), bf16(4, 5)), _B),
)
