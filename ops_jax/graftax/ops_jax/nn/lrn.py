"""Local response normalization: LRN, LRNGrad."""

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["lrn", "lrn_grad"]


@register("LRN", ignores=("T",))
def lrn(
  input: Array,
  *,
  depth_radius: int = 5,
  bias: float = 1.0,
  alpha: float = 1.0,
  beta: float = 0.5,
) -> Array:
  """Divides `input` by `(bias + alpha * s) ** beta`, with `s` the sum of squares over the neighboring channels.

  Source op: `tf.raw_ops.LRN`.

  Args:
    input: `[batch, height, width, channels]`, floating point.
    depth_radius: number of channels on either side that are neighbors.
    bias: see above.
    alpha: see above.
    beta: see above.

  Returns:
    Same shape and dtype.
  """
  x = jnp.asarray(input)
  wide = x.astype(jnp.float32)
  window, ones = (1, 1, 1, 2 * depth_radius + 1), (1, 1, 1, 1)
  padding = ((0, 0), (0, 0), (0, 0), (depth_radius, depth_radius))
  squares = lax.reduce_window(lax.square(wide), 0.0, lax.add, window, ones, padding)
  return (wide * jnp.power(bias + alpha * squares, -beta)).astype(x.dtype)


@register("LRNGrad", ignores=("T",))
def lrn_grad(
  input_grads: Array,
  input_image: Array,
  output_image: Array,
  *,
  depth_radius: int = 5,
  bias: float = 1.0,
  alpha: float = 1.0,
  beta: float = 0.5,
) -> Array:
  """Computes the gradient of `LRN` at `input_image`, with its shape and dtype; `output_image` is not used."""
  del output_image

  def forward(x: Array) -> Array:
    return lrn(x, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta)

  _, vjp = jax.vjp(forward, jnp.asarray(input_image))
  return vjp(jnp.asarray(input_grads))[0]
