"""What differs between the versions of JAX: a function for each feature, with the version that ends it."""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["dawsn", "dawsn_by_sampling"]


def dawsn(x: jax.Array) -> jax.Array:
  """Returns Dawson's integral, as `jax.scipy.special.dawsn` does.

  Until jax>=0.10.2: that function does not exist.

  Args:
    x: floating point, any shape.

  Returns:
    Shape and dtype of `x`.
  """
  # Programs without this op need not wait until `jax.scipy` is imported.
  from jax.scipy import special

  return special.dawsn(x) if hasattr(special, "dawsn") else dawsn_by_sampling(x)


# With steps of this size the sum differs from the integral by exp(-(pi / (2 * h))**2) = 7e-18; terms that are left out
# are smaller still.
_STEP, _TERMS = 0.25, np.arange(1, 26, 2)
# From here on two terms of the asymptotic series are exact in float64.
_LARGE = 1e4


def dawsn_by_sampling(x: jax.Array) -> jax.Array:
  """`dawsn` from samples of a Gaussian at odd multiples of a step (Rybicki, Computers in Physics 3, 1989)."""
  wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
  size = jnp.abs(wide)
  near = jnp.minimum(size, _LARGE)
  # The samples are taken around the even multiple that is the nearest one.
  center = 2 * jnp.round(near / (2 * _STEP))
  rest = near - center * _STEP
  total = jnp.zeros_like(near)
  for n in map(int, _TERMS[::-1]):
    slope = 2 * n * _STEP * rest
    pair = jnp.exp(slope) / (center + n) + jnp.exp(-slope) / (center - n)
    # Around zero, the two would cancel.
    total += np.exp(-((n * _STEP) ** 2)) * jnp.where(center == 0, 2 * jnp.sinh(slope) / n, pair)
  small = total * jnp.exp(-rest * rest) / np.sqrt(np.pi)
  large = (1 + 1 / (2 * size * size)) / (2 * size)
  result = jnp.where(size < _LARGE, small, large)
  return jnp.where(jnp.isnan(wide), wide, jnp.copysign(result, wide)).astype(x.dtype)
