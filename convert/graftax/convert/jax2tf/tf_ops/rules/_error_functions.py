"""The error functions, an inverse and `exp(-x * x)` of float32, for consumers without Erf, Erfc, Erfinv or Bitcast."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.rules._common import compare, full, select
from graftax.convert.jax2tf.tf_ops.tensors import Tensor

__all__ = ["erf", "erf_inv", "erfc", "exp_of_negative_square"]

# Interpolated at Chebyshev points, constant terms first. Relative errors before rounding are below 2e-9.
# exp(x**2) * erfc(x) * (1 + 2 * x) as a polynomial of (x - 3) / (x + 3), for x from 0 to 11:
_TAIL = (
  1.253008059,
  -0.1356211087,
  -0.04756240441,
  0.1296452434,
  -0.1192713771,
  0.06830799958,
  -0.02378773598,
  0.002520801155,
  0.001943095157,
  -0.0007303181339,
  -0.0001651388618,
  4.188165174e-05,
)
# erf(x) / x as a polynomial of x**2, for x from 0 to 1:
_NEAR_ZERO = (
  1.128379166,
  -0.3761262667,
  0.1128359472,
  -0.02685421201,
  0.005189087425,
  -0.0008016864302,
  7.875875112e-05,
)
# The inverse of erf divided by its argument x, as polynomials of `w - 2.5` for `w < 5` and of `sqrt(w) - 3` above, with
# `w = -log(1 - x * x)`: M. Giles, "Approximating the erfinv function", 2012.
_INVERSE_NEAR = (
  1.50140941,
  0.246640727,
  -0.00417768164,
  -0.00125372503,
  0.00021858087,
  -4.39150654e-06,
  -3.5233877e-06,
  3.43273939e-07,
  2.81022636e-08,
)
_INVERSE_FAR = (
  2.83297682,
  1.00167406,
  0.00943887047,
  -0.0076224613,
  0.00573950773,
  -0.00367342844,
  0.00134934322,
  0.000100950558,
  -0.000200214257,
)
_LARGEST = 11.0
"""From here on `erfc` is zero in float32."""


def erf(b: Builder, x: Tensor) -> Tensor:
  """Returns the error function of float32."""
  size = b.op("Abs", x, shape=x.shape)
  far = _op(b, "Mul", b.op("Sign", x, shape=x.shape), _op(b, "Sub", full(b, x, 1), _tail(b, size)))
  # NaN is not less.
  return select(b, compare(b, "Less", size, 0.5), _near_zero(b, x), far, x.shape)


def erfc(b: Builder, x: Tensor) -> Tensor:
  """Returns one minus the error function of float32, with the relative error of float32 in the tail, too."""
  size = b.op("Abs", x, shape=x.shape)
  tail = _tail(b, size)
  far = select(b, compare(b, "Less", x, 0), _op(b, "Sub", full(b, x, 2), tail), tail, x.shape)
  near = _op(b, "Sub", full(b, x, 1), _near_zero(b, x))
  return select(b, compare(b, "Less", size, 0.5), near, far, x.shape)


def erf_inv(x: jax.Array) -> jax.Array:
  """Returns the inverse of the error function of float32: infinite for 1 and -1, and NaN beyond."""
  w = -jnp.log1p(-x * x)
  near = jnp.polyval(jnp.array(_INVERSE_NEAR[::-1], x.dtype), w - 2.5, unroll=16)
  far = jnp.polyval(jnp.array(_INVERSE_FAR[::-1], x.dtype), jnp.sqrt(w) - 3, unroll=16)
  return jnp.where(jnp.abs(x) == 1, x * jnp.inf, jnp.where(w < 5, near, far) * x)


def exp_of_negative_square(b: Builder, x: Tensor) -> Tensor:
  """Returns `exp(-x * x)` of float32 with the relative error of float32: the square is computed in two parts."""
  limited = b.op("Minimum", b.op("Abs", x, shape=x.shape), full(b, x, _LARGEST), shape=x.shape)
  # The first half of the bits of a float; its square is exact.
  scaled = _op(b, "Mul", limited, full(b, x, 4097))
  high = _op(b, "Sub", scaled, _op(b, "Sub", scaled, limited))
  rest = _op(b, "Mul", _op(b, "Sub", limited, high), _op(b, "AddV2", limited, high))
  of_high = b.op("Exp", b.op("Neg", _op(b, "Mul", high, high), shape=x.shape), shape=x.shape)
  return _op(b, "Mul", of_high, b.op("Exp", b.op("Neg", rest, shape=x.shape), shape=x.shape))


def _tail(b: Builder, size: Tensor) -> Tensor:
  """Returns `erfc` of numbers that are not negative."""
  limited = b.op("Minimum", size, full(b, size, _LARGEST), shape=size.shape)
  position = _op(b, "RealDiv", _op(b, "Sub", limited, full(b, size, 3)), _op(b, "AddV2", limited, full(b, size, 3)))
  scale = _op(b, "AddV2", _op(b, "AddV2", limited, limited), full(b, size, 1))
  scaled = _op(b, "RealDiv", _polynomial(b, position, _TAIL), scale)
  return _op(b, "Mul", scaled, exp_of_negative_square(b, size))


def _near_zero(b: Builder, x: Tensor) -> Tensor:
  limited = b.op("Minimum", b.op("Abs", x, shape=x.shape), full(b, x, 1), shape=x.shape)
  return _op(b, "Mul", x, _polynomial(b, _op(b, "Mul", limited, limited), _NEAR_ZERO))


def _polynomial(b: Builder, x: Tensor, coefficients: Sequence[float]) -> Tensor:
  found = full(b, x, coefficients[-1])
  for coefficient in reversed(coefficients[:-1]):
    found = _op(b, "AddV2", _op(b, "Mul", x, found), full(b, x, coefficient))
  return found


def _op(b: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
  return b.op(op, x, y, shape=x.shape or y.shape)
