"""Values at the edges of domains, where TensorFlow's kernels of special functions differ from JAX's."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

__all__ = ["AT_EDGES"]


def _igamma(a: jax.Array, x: jax.Array, found: jax.Array) -> jax.Array:
  found = jnp.where((a == 0) & (x >= 1), 1, found)
  return jnp.where(_is_outside(a, x), jnp.nan, jnp.where(x == jnp.inf, 1, found))


def _igammac(a: jax.Array, x: jax.Array, found: jax.Array) -> jax.Array:
  return jnp.where(_is_outside(a, x), jnp.nan, jnp.where((x == jnp.inf) | (a == 0), 0, found))


def _is_outside(a: jax.Array, x: jax.Array) -> jax.Array:
  """Returns whether the incomplete gamma functions have no value."""
  is_limit = (a == 0) & (x == 0) | (a == jnp.inf) & (x == jnp.inf)
  return jnp.isnan(a) | jnp.isnan(x) | (a < 0) | (x < 0) | is_limit


def _igamma_grad_a(a: jax.Array, x: jax.Array, found: jax.Array) -> jax.Array:
  is_infinite = jnp.isinf(a) | jnp.isinf(x)
  return jnp.where(jnp.isnan(a) | jnp.isnan(x) | (a <= 0) | (x < 0) | is_infinite & (x != 0), jnp.nan, found)


def _betainc(a: jax.Array, b: jax.Array, x: jax.Array, found: jax.Array) -> jax.Array:
  # The distribution is at 0 or at 1.
  is_low, is_high = (a == 0) | (b == jnp.inf), (b == 0) | (a == jnp.inf)
  found = jnp.where(is_low, jnp.where(x == 0, 0, 1), jnp.where(is_high, jnp.where(x == 1, 1, 0), found))
  is_outside = (a < 0) | (b < 0) | (x < 0) | (x > 1) | is_low & is_high
  return jnp.where(jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(x) | is_outside, jnp.nan, found)


AT_EDGES: dict[str, Callable[..., jax.Array]] = {
  "Betainc": _betainc,
  "Igamma": _igamma,
  "IgammaGradA": _igamma_grad_a,
  "Igammac": _igammac,
}
"""Functions of the operands and of the kernel's result, by op."""
