"""Complex numbers: Complex, Real, Imag, Conj, Angle, ComplexAbs."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.known import FLOAT32, to_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["angle", "complex_", "complex_abs", "conj", "imag", "real"]


@register("Complex", ignores=("T", "Tout"))
def complex_(real: Array, imag: Array) -> Array:
  """Returns `real + 1j * imag`, broadcast; complex64 from float32, complex128 from float64."""
  return lax.complex(*jnp.broadcast_arrays(jnp.asarray(real), jnp.asarray(imag)))


@register("Real", ignores=("T",))
def real(input: Array, *, Tout: np.dtype = FLOAT32) -> Array:
  """Returns the real part, same shape, dtype `Tout`."""
  return to_dtype(jnp.real(jnp.asarray(input)), Tout)


@register("Imag", ignores=("T",))
def imag(input: Array, *, Tout: np.dtype = FLOAT32) -> Array:
  """Returns the imaginary part (0 for real input), same shape, dtype `Tout`."""
  return to_dtype(jnp.imag(jnp.asarray(input)), Tout)


@register("Conj", ignores=("T",))
def conj(input: Array) -> Array:
  """Returns the complex conjugate, same shape and dtype."""
  return jnp.conj(jnp.asarray(input))


@register("Angle", ignores=("T",))
def angle(input: Array, *, Tout: np.dtype = FLOAT32) -> Array:
  """Returns the argument in radians, in [-pi, pi]; same shape, dtype `Tout`."""
  input = jnp.asarray(input)
  return to_dtype(lax.atan2(jnp.imag(input), jnp.real(input)), Tout)


@register("ComplexAbs", ignores=("T",))
def complex_abs(x: Array, *, Tout: np.dtype = FLOAT32) -> Array:
  """Returns the absolute value, same shape, dtype `Tout`. Derivative 0 at 0."""
  return to_dtype(jnp.abs(jnp.asarray(x)), Tout)
