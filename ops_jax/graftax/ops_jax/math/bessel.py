"""Bessel functions of order 0 and 1, with TensorFlow's derivatives: BesselI0, BesselJ0, BesselY0, BesselK0 and so on.

For `x` up to 8 (up to 2 for K), an even function of `x` is computed as a Chebyshev series in `x^2`. For larger `x`, the
amplitudes `P` and `x Q` of `sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase))` are series in `(8 / x)^2`, and
`exp(x) sqrt(x) K(x)` is a series in `2 / x`.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.math import bessel_tables as tables
from graftax.ops_jax.math.special import with_derivative

__all__ = [
  "bessel_i0",
  "bessel_i0e",
  "bessel_i1",
  "bessel_i1e",
  "bessel_j0",
  "bessel_j1",
  "bessel_k0",
  "bessel_k0e",
  "bessel_k1",
  "bessel_k1e",
  "bessel_y0",
  "bessel_y1",
]

_SMALL_LIMIT, _MODIFIED_LIMIT = 8.0, 2.0


def _chebyshev(coefficients: np.ndarray, t: jax.Array) -> jax.Array:
  """Returns the series at `t` in [-1, 1], by Clenshaw's recurrence."""
  kept = np.flatnonzero(np.abs(coefficients) > np.abs(coefficients).max() * float(jnp.finfo(t.dtype).eps) / 16)[-1] + 1
  current, previous = jnp.zeros_like(t), jnp.zeros_like(t)
  for c in coefficients[1:kept][::-1]:
    current, previous = 2 * t * current - previous + np.asarray(c, t.dtype), current
  return t * current - previous + np.asarray(coefficients[0], t.dtype)


def _small(coefficients: np.ndarray, x: Array, limit: float) -> jax.Array:
  x = jnp.minimum(jnp.abs(x), limit)
  return _chebyshev(coefficients, 2 * x * x / (limit * limit) - 1)


def _amplitudes(order: int, x: Array) -> tuple[Array, Array, Array]:
  """Returns the factor, and the phase as its sine and cosine, of the oscillating form for `x` of at least 8."""
  x = jnp.maximum(x, _SMALL_LIMIT)
  t = 2 * (_SMALL_LIMIT / x) ** 2 - 1
  in_phase = _chebyshev((tables.P0_LARGE, tables.P1_LARGE)[order], t)
  quadrature = _chebyshev((tables.Q0_LARGE, tables.Q1_LARGE)[order], t) / x
  # x - (2 order + 1) pi / 4 through the sums of sines and cosines of x, so that a large x is reduced only once.
  sine, cosine = jnp.sin(x), jnp.cos(x)
  half = math.sqrt(0.5)
  cos_phase, sin_phase = ((cosine + sine) * half, (sine - cosine) * half)
  if order == 1:
    cos_phase, sin_phase = sin_phase, -cos_phase
  scale = jnp.sqrt(2 / (math.pi * x))
  return scale, in_phase * cos_phase - quadrature * sin_phase, in_phase * sin_phase + quadrature * cos_phase


def _j0(x: Array) -> Array:
  magnitude = jnp.abs(x)
  scale, first, _ = _amplitudes(0, magnitude)
  return jnp.where(magnitude <= _SMALL_LIMIT, _small(tables.J0_SMALL, magnitude, _SMALL_LIMIT), scale * first)


def _j1(x: Array) -> Array:
  magnitude = jnp.abs(x)
  scale, first, _ = _amplitudes(1, magnitude)
  value = jnp.where(
    magnitude <= _SMALL_LIMIT, magnitude * _small(tables.J1_SMALL, magnitude, _SMALL_LIMIT), scale * first
  )
  return jnp.where(x < 0, -value, value)


def _y0(x: Array) -> Array:
  scale, _, second = _amplitudes(0, x)
  inner = jnp.minimum(x, _SMALL_LIMIT)
  small = _small(tables.Y0_SMALL, x, _SMALL_LIMIT) + 2 / math.pi * jnp.log(inner) * _j0(inner)
  return jnp.where(x <= 0, -jnp.inf, jnp.where(x <= _SMALL_LIMIT, small, scale * second))


def _y1(x: Array) -> Array:
  scale, _, second = _amplitudes(1, x)
  inner = jnp.minimum(x, _SMALL_LIMIT)
  small = inner * _small(tables.Y1_SMALL, x, _SMALL_LIMIT) + 2 / math.pi * (jnp.log(inner) * _j1(inner) - 1 / inner)
  return jnp.where(x <= 0, -jnp.inf, jnp.where(x <= _SMALL_LIMIT, small, scale * second))


def _modified(order: int, scaled: bool) -> Callable[[Array], Array]:
  def value(x: Array) -> Array:
    inner, outer = jnp.clip(x, 0, _MODIFIED_LIMIT), jnp.maximum(x, _MODIFIED_LIMIT)
    t = 2 * (2 / outer) - 1
    if order == 0:
      small = _small(tables.K0_SMALL, inner, _MODIFIED_LIMIT) - jnp.log(inner / 2) * jsp.i0(inner)
      large = _chebyshev(tables.K0_LARGE, t) / jnp.sqrt(outer)
    else:
      small = _small(tables.K1_SMALL, inner, _MODIFIED_LIMIT) / inner + jnp.log(inner / 2) * jsp.i1(inner)
      large = _chebyshev(tables.K1_LARGE, t) / jnp.sqrt(outer)
    small, large = (small * jnp.exp(inner), large) if scaled else (small, large * jnp.exp(-outer))
    return jnp.where(x <= 0, jnp.inf, jnp.where(x <= _MODIFIED_LIMIT, small, large))

  return value


_k0, _k0e, _k1, _k1e = _modified(0, False), _modified(0, True), _modified(1, False), _modified(1, True)


def _over(y: Array, x: Array, at_zero: float) -> Array:
  """Returns `y / x`, or the limit `at_zero` if `x` is 0."""
  return jnp.where(x == 0, at_zero, y / jnp.where(x == 0, 1, x))


@register("BesselI0", ignores=("T",))
def bessel_i0(x: Array) -> Array:
  """Returns the modified Bessel function of the first kind of order 0.

  Source op: `tf.raw_ops.BesselI0`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(jsp.i0, lambda x, y: bessel_i1(x), x)


@register("BesselI0e", ignores=("T",))
def bessel_i0e(x: Array) -> Array:
  """Returns `exp(-|x|)` times the modified Bessel function of the first kind of order 0.

  Source op: `tf.raw_ops.BesselI0e`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(jsp.i0e, lambda x, y: bessel_i1e(x) - jnp.sign(x) * y, x)


@register("BesselI1", ignores=("T",))
def bessel_i1(x: Array) -> Array:
  """Returns the modified Bessel function of the first kind of order 1.

  Source op: `tf.raw_ops.BesselI1`. As there, the derivative at 0 is 1 (the true one is 1/2).

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(jsp.i1, lambda x, y: jnp.where(x == 0, 1, bessel_i0(x) - _over(y, x, 0)), x)


@register("BesselI1e", ignores=("T",))
def bessel_i1e(x: Array) -> Array:
  """Returns `exp(-|x|)` times the modified Bessel function of the first kind of order 1.

  Source op: `tf.raw_ops.BesselI1e`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(jsp.i1e, lambda x, y: bessel_i0e(x) - y * jnp.sign(x) - _over(y, x, 0.5), x)


@register("BesselJ0", ignores=("T",))
def bessel_j0(x: Array) -> Array:
  """Returns the Bessel function of the first kind of order 0.

  Source op: `tf.raw_ops.BesselJ0`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_j0, lambda x, y: -bessel_j1(x), x)


@register("BesselJ1", ignores=("T",))
def bessel_j1(x: Array) -> Array:
  """Returns the Bessel function of the first kind of order 1.

  Source op: `tf.raw_ops.BesselJ1`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_j1, lambda x, y: bessel_j0(x) - _over(y, x, 0.5), x)


@register("BesselY0", ignores=("T",))
def bessel_y0(x: Array) -> Array:
  """Returns the Bessel function of the second kind of order 0; minus infinity from 0 down.

  Source op: `tf.raw_ops.BesselY0`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_y0, lambda x, y: -bessel_y1(x), x)


@register("BesselY1", ignores=("T",))
def bessel_y1(x: Array) -> Array:
  """Returns the Bessel function of the second kind of order 1; minus infinity from 0 down.

  Source op: `tf.raw_ops.BesselY1`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_y1, lambda x, y: bessel_y0(x) - y / x, x)


@register("BesselK0", ignores=("T",))
def bessel_k0(x: Array) -> Array:
  """Returns the modified Bessel function of the second kind of order 0; infinity from 0 down.

  Source op: `tf.raw_ops.BesselK0`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_k0, lambda x, y: -bessel_k1(x), x)


@register("BesselK0e", ignores=("T",))
def bessel_k0e(x: Array) -> Array:
  """Returns `exp(x)` times the modified Bessel function of the second kind of order 0.

  Source op: `tf.raw_ops.BesselK0e`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_k0e, lambda x, y: y - bessel_k1e(x), x)


@register("BesselK1", ignores=("T",))
def bessel_k1(x: Array) -> Array:
  """Returns the modified Bessel function of the second kind of order 1; infinity from 0 down.

  Source op: `tf.raw_ops.BesselK1`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_k1, lambda x, y: -bessel_k0(x) - y / x, x)


@register("BesselK1e", ignores=("T",))
def bessel_k1e(x: Array) -> Array:
  """Returns `exp(x)` times the modified Bessel function of the second kind of order 1.

  Source op: `tf.raw_ops.BesselK1e`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(_k1e, lambda x, y: y * (1 - 1 / x) - bessel_k0e(x), x)
