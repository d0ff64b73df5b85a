"""Elementwise functions of one argument: Abs, Neg, Sqrt, Exp, Log, Round, Sin, Tanh, Erf and their gradients."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.fast_dispatch import fast_dispatch
from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.xla_call_module.lax_extras import keeping_zero_tangents

__all__ = [
  "abs_",
  "acos",
  "acosh",
  "asin",
  "asinh",
  "atan",
  "atanh",
  "ceil",
  "cos",
  "cosh",
  "erf",
  "erfc",
  "exp",
  "expm1",
  "floor",
  "log",
  "log1p",
  "neg",
  "reciprocal",
  "reciprocal_grad",
  "rint",
  "round_",
  "rsqrt",
  "rsqrt_grad",
  "sigmoid",
  "sign",
  "sin",
  "sinh",
  "sqrt",
  "sqrt_grad",
  "square",
  "tan",
  "tanh",
]


@register("Abs", ignores=("T",), symbolic=True)
def abs_(x: Array) -> Array:
  """Returns `|x|`, same shape and dtype; the smallest integer stays itself. Derivative 0 at 0."""
  return keep_known(np.abs, _abs_of_real, x)


# JAX's own derivative at 0 is 1.
_abs_of_real = with_partials(jnp.abs, lambda t, y, x: t * jnp.sign(x))


@register("Neg", ignores=("T",), symbolic=True)
def neg(x: Array) -> Array:
  """Returns `-x`, same shape and dtype; integers wrap."""
  return keep_known(np.negative, fast_dispatch(lax.neg, jnp.negative), x)


@register("Sign", ignores=("T",))
def sign(x: Array) -> Array:
  """Returns -1, 0 or 1 (NaN for NaN); for complex numbers `x / |x|`, 0 at 0. Same shape and dtype."""
  return keep_known(np.sign, jnp.sign, x)


@register("Square", ignores=("T",), symbolic=True)
def square(x: Array) -> Array:
  """Returns `x * x`, same shape and dtype; integers wrap."""
  return keep_known(lambda a: np.multiply(a, a), lambda a: jnp.multiply(a, a), x)


@register("Reciprocal", "Inv", ignores=("T",))
def reciprocal(x: Array) -> Array:
  """Returns `1 / x`, same shape and dtype. A gradient of 0 stays 0, also at 0."""
  return _reciprocal(jnp.asarray(x))


_reciprocal = keeping_zero_tangents(lambda x: lax.div(jnp.ones_like(x), x))


@register("Sqrt", ignores=("T",))
def sqrt(x: Array) -> Array:
  """Returns the square root, NaN below 0. Same shape and dtype. A gradient of 0 stays 0, also at 0 and below."""
  return _sqrt(jnp.asarray(x))


_sqrt = keeping_zero_tangents(lax.sqrt)


@register("Rsqrt", ignores=("T",))
def rsqrt(x: Array) -> Array:
  """Returns `1 / sqrt(x)`, same shape and dtype. A gradient of 0 stays 0, also at 0 and below."""
  return _rsqrt(jnp.asarray(x))


_rsqrt = keeping_zero_tangents(lax.rsqrt)


@register("SqrtGrad", ignores=("T",))
def sqrt_grad(y: Array, dy: Array) -> Array:
  """Returns the gradient of `Sqrt`, given its result `y`: `dy * 0.5 / conj(y)`, or 0 if `dy` is 0.

  Same shape and dtype.
  """
  y, dy = jnp.conj(jnp.asarray(y)), jnp.asarray(dy)
  return _zero_for_zero(dy, dy * jnp.asarray(0.5, y.dtype) / y)


@register("RsqrtGrad", ignores=("T",))
def rsqrt_grad(y: Array, dy: Array) -> Array:
  """Returns the gradient of `Rsqrt`, given its result `y`: `dy * -0.5 * conj(y) ** 3`, or 0 if `dy` is 0.

  Same shape and dtype.
  """
  y, dy = jnp.conj(jnp.asarray(y)), jnp.asarray(dy)
  return _zero_for_zero(dy, dy * (jnp.asarray(-0.5, y.dtype) * y) * (y * y))


@register("ReciprocalGrad", "InvGrad", ignores=("T",))
def reciprocal_grad(y: Array, dy: Array) -> Array:
  """Returns the gradient of `Reciprocal`, given its result `y`: `-dy * conj(y) ** 2`, or 0 if `dy` is 0.

  Same shape and dtype.
  """
  y, dy = jnp.conj(jnp.asarray(y)), jnp.asarray(dy)
  return _zero_for_zero(dy, -dy * y * y)


def _zero_for_zero(dy: Array, gradient: Array) -> Array:
  return jnp.where(dy == 0, jnp.zeros_like(gradient), gradient)


@register("Floor", ignores=("T",))
def floor(x: Array) -> Array:
  """Rounds down to a whole number; same shape and dtype."""
  return keep_known(np.floor, lax.floor, x)


@register("Ceil", ignores=("T",))
def ceil(x: Array) -> Array:
  """Rounds up to a whole number; same shape and dtype."""
  return keep_known(np.ceil, lax.ceil, x)


@register("Rint", ignores=("T",))
def rint(x: Array) -> Array:
  """Rounds to the nearest whole number, halves to even; same shape and dtype."""
  return keep_known(np.rint, _round_to_even, x)


@register("Round", ignores=("T",))
def round_(x: Array) -> Array:
  """Rounds to the nearest whole number, halves to even; same shape and dtype.

  Source op: `tf.raw_ops.Round`.

  Args:
    x: any shape; floating point or integer.

  Differs from TF: integers come back unchanged, as in XLA; TensorFlow's CPU kernel returns zeros for them.
  """
  if jnp.issubdtype(x.dtype, jnp.integer):
    return x
  return keep_known(np.rint, _round_to_even, x)


def _round_to_even(x: Array) -> Array:
  return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@register("Exp", ignores=("T",))
def exp(x: Array) -> Array:
  """Returns `e ** x`, same shape and dtype."""
  return lax.exp(x)


@register("Expm1", ignores=("T",))
def expm1(x: Array) -> Array:
  """Returns `e ** x - 1`, accurate near 0. Same shape and dtype."""
  return lax.expm1(x)


@register("Log", ignores=("T",))
def log(x: Array) -> Array:
  """Returns the natural logarithm, -inf at 0. Same shape and dtype."""
  return lax.log(x)


@register("Log1p", ignores=("T",))
def log1p(x: Array) -> Array:
  """Returns `log(1 + x)`, accurate near 0. Same shape and dtype."""
  return lax.log1p(x)


@register("Sigmoid", ignores=("T",))
def sigmoid(x: Array) -> Array:
  """Returns `1 / (1 + exp(-x))`, same shape and dtype."""
  return lax.logistic(x)


@register("Sin", ignores=("T",))
def sin(x: Array) -> Array:
  """Returns the sine of an angle in radians; same shape and dtype."""
  return lax.sin(x)


@register("Cos", ignores=("T",))
def cos(x: Array) -> Array:
  """Returns the cosine of an angle in radians; same shape and dtype."""
  return lax.cos(x)


@register("Tan", ignores=("T",))
def tan(x: Array) -> Array:
  """Returns the tangent of an angle in radians; same shape and dtype."""
  return lax.tan(x)


@register("Asin", ignores=("T",))
def asin(x: Array) -> Array:
  """Returns the inverse sine in radians, NaN outside [-1, 1] for real numbers. Same shape and dtype."""
  return lax.asin(x)


@register("Acos", ignores=("T",))
def acos(x: Array) -> Array:
  """Returns the inverse cosine in radians, NaN outside [-1, 1] for real numbers. Same shape and dtype."""
  return lax.acos(x)


@register("Atan", ignores=("T",))
def atan(x: Array) -> Array:
  """Returns the inverse tangent in radians; same shape and dtype."""
  return lax.atan(x)


@register("Sinh", ignores=("T",))
def sinh(x: Array) -> Array:
  """Returns the hyperbolic sine; same shape and dtype."""
  return lax.sinh(x)


@register("Cosh", ignores=("T",))
def cosh(x: Array) -> Array:
  """Returns the hyperbolic cosine; same shape and dtype."""
  return lax.cosh(x)


@register("Tanh", ignores=("T",))
def tanh(x: Array) -> Array:
  """Returns the hyperbolic tangent; same shape and dtype."""
  return lax.tanh(x)


@register("Asinh", ignores=("T",))
def asinh(x: Array) -> Array:
  """Returns the inverse hyperbolic sine; same shape and dtype."""
  return lax.asinh(x)


@register("Acosh", ignores=("T",))
def acosh(x: Array) -> Array:
  """Returns the inverse hyperbolic cosine, NaN below 1 for real numbers. Same shape and dtype."""
  return _acosh_of_complex(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else _acosh_of_real(x)


# JAX's derivative is a number where the function is not defined.
_acosh_of_real = with_partials(
  lax.acosh, lambda t, y, x: t * jnp.where(x >= 1, lax.rsqrt((x - 1) * (x + 1)), jnp.asarray(jnp.nan, x.dtype))
)


# JAX's derivative, 1 / sqrt((x - 1) * (x + 1)), is on the wrong branch where the real part is negative.
_acosh_of_complex = with_partials(lax.acosh, lambda t, y, x: t / (lax.sqrt(x - 1) * lax.sqrt(x + 1)))


@register("Atanh", ignores=("T",))
def atanh(x: Array) -> Array:
  """Returns the inverse hyperbolic tangent, NaN outside [-1, 1] for real numbers. Same shape and dtype."""
  return lax.atanh(x)


@register("Erf", ignores=("T",))
def erf(x: Array) -> Array:
  """Returns the error function; same shape and dtype."""
  return lax.erf(x)


@register("Erfc", ignores=("T",))
def erfc(x: Array) -> Array:
  """Returns the complementary error function `1 - erf(x)`; same shape and dtype."""
  return lax.erfc(x)
