"""Functions that JAX does not have with the same order of operations. Their parts become functions of these names."""

import jax.numpy as jnp
from jax import Array, lax

__all__ = ["batch_norm", "keras_layer_norm", "layer_norm"]


def batch_norm(x: Array, mean: Array, variance: Array, scale: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes x by statistics of its channels."""
  scale = lax.rsqrt(variance + epsilon) * scale
  return x * scale + (offset - mean * scale)


def layer_norm(x: Array, scale: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes the last axis of x to mean 0 and variance 1."""
  mean = jnp.mean(x, axis=-1, keepdims=True)
  variance = jnp.mean(jnp.square(x - lax.stop_gradient(mean)), axis=-1, keepdims=True)
  scale = lax.rsqrt(variance + epsilon) * scale
  return x * scale + (offset - mean * scale)


def keras_layer_norm(x: Array, scale: Array, offset: Array, epsilon: float) -> Array:
  """Normalizes as `layer_norm`, with the operations of Keras."""
  mean = jnp.mean(x, axis=-1, keepdims=True)
  centered = x - lax.stop_gradient(mean)
  variance = jnp.mean(centered * centered, axis=-1, keepdims=True)
  scale = lax.rsqrt(variance + epsilon) * scale
  return x * scale + (-mean * scale + offset)
