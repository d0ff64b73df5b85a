"""Draws weights, on the device: zeros would run faster on a GPU than numbers do."""

import math

import jax
import jax.numpy as jnp

__all__ = ["draw"]


def draw(shapes: dict[str, tuple[int, ...]]) -> dict[str, jax.Array]:
  """Returns weights by name, float32, that keep the size of what a layer computes.

  Args:
    shapes: shape of each weight by its name, whose last part says what it is: kernels have the variance
      `2 / fan_in` (He et al., 2015), variances are near 1, factors near 0.5 so that sums of many layers stay small, and
      everything else is near 0.
  """
  keys = jax.random.split(jax.random.key(0), len(shapes))
  return {name: _draw(name, shape, key) for (name, shape), key in zip(shapes.items(), keys, strict=True)}


def _draw(name: str, shape: tuple[int, ...], key: jax.Array) -> jax.Array:
  last = name.rpartition("/")[2]
  if last in ("gamma", "moving_variance"):
    return jax.random.uniform(key, shape, minval=0.8, maxval=1.2) * (0.5 if last == "gamma" else 1)
  if "kernel" not in last:
    return 0.1 * jax.random.normal(key, shape)
  # Depthwise filters have 1 as last size; projections to heads (width, heads, size) read their first axis only.
  to_heads = any(f"/{part}/" in name for part in ("query", "key", "value"))
  fan_in = shape[0] if to_heads else math.prod(shape[:2] if shape[-1] == 1 else shape[:-1])
  # Softmax would be 0 or 1 after large logits, and its gradient nothing but rounding.
  scale = 0.1 if name.startswith("predictions/") else 1.0
  return scale * jax.random.normal(key, shape) * jnp.sqrt(2 / fan_in)
