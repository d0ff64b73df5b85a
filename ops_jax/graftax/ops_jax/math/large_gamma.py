"""The incomplete gamma function for large parameters, where its series has too many terms."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from graftax.ops_jax._core.values import Array

__all__ = ["in_two_ranges", "large_density", "large_derivative", "large_lower", "large_upper"]

_Function: TypeAlias = Callable[[Array, Array], Array]

# Up to here, the series takes at most some ten thousand terms. In float32 its errors are 0.5% here, and grow.
_LARGE = {np.dtype(np.float32): 1e4, np.dtype(np.float64): 1e7}
# Below, a power series of the same accuracy replaces a difference of numbers that are almost equal.
_SMALL = 0.01
_NUM_TERMS = 10


def in_two_ranges(ordinary: _Function, large: _Function, a: Array, x: Array) -> jax.Array:
  """Returns `large(a, x)` for large parameters `a`, and `ordinary(a, x)` for all others."""
  least = _LARGE[np.dtype(a.dtype)]
  is_large = a > least
  ones = jnp.ones_like(a)
  others = ordinary(jnp.where(is_large, ones, a), jnp.where(is_large, ones, x))
  return jnp.where(is_large, large(jnp.where(is_large, a, least), jnp.where(is_large, x, least)), others)


def large_lower(a: Array, x: Array) -> Array:
  """Returns the regularized lower incomplete gamma function."""
  eta, first = _expansion(a, x)
  return 0.5 * jsp.erfc(-eta * jnp.sqrt(a / 2)) - _tail(a, eta) * first


def large_upper(a: Array, x: Array) -> Array:
  """Returns the regularized upper incomplete gamma function."""
  eta, first = _expansion(a, x)
  return 0.5 * jsp.erfc(eta * jnp.sqrt(a / 2)) + _tail(a, eta) * first


def large_density(a: Array, x: Array) -> Array:
  """Returns the derivative of the lower function with respect to `x`."""
  is_zero = x == 0
  x = jnp.where(is_zero, a, x)
  eta, _ = _expansion(a, x)
  return jnp.where(is_zero, 0, _tail(a, eta) * (a / x))


def large_derivative(a: Array, x: Array) -> Array:
  """Returns the derivative of a quantile `x` with respect to `a`, wherever the density is not 0."""
  mu = _excess(a, x)
  is_mode = mu == 0
  other = jnp.where(is_mode, 1, mu)
  return jnp.where(is_mode, 1, (1 + other) * (jnp.log1p(other) / other)) + 1 / (6 * a)


def _tail(a: Array, eta: Array) -> Array:
  return jnp.exp(-a * eta * eta / 2) / (np.sqrt(2 * np.pi).astype(a.dtype) * jnp.sqrt(a))


def _excess(a: Array, x: Array) -> Array:
  return (jnp.minimum(x, jnp.finfo(x.dtype).max) - a) / a


def _expansion(a: Array, x: Array) -> tuple[jax.Array, jax.Array]:
  """Returns `eta` and the first coefficient of Temme's uniform asymptotic expansion (DLMF 8.12)."""
  mu = _excess(a, x)
  is_small = jnp.abs(mu) < _SMALL
  small, other = jnp.where(is_small, mu, 0), jnp.where(is_small, 1, mu)
  # eta**2 / mu**2 = 2 (mu - log1p(mu)) / mu**2, and what it is less 1, divided by mu.
  ratio = sum(2 * (-small) ** k / (k + 2) for k in range(_NUM_TERMS))
  slope = sum(-2 * (-small) ** k / (k + 3) for k in range(_NUM_TERMS))
  root = jnp.sqrt(ratio)
  eta = jnp.sign(other) * jnp.sqrt(2 * (other - jnp.log1p(other)))
  return jnp.where(is_small, small * root, eta), jnp.where(is_small, slope / (root * (root + 1)), 1 / other - 1 / eta)
