"""Special functions: Lgamma, Digamma, Igamma, Betainc, Zeta, Erfinv, Ndtri, Expint, FresnelCos, Spence."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from graftax.ops_jax._core import jax_versions
from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.math.large_gamma import (
  in_two_ranges,
  large_density,
  large_derivative,
  large_lower,
  large_upper,
)
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = [
  "betainc",
  "dawsn",
  "digamma",
  "erfinv",
  "expint",
  "fresnel_cos",
  "fresnel_sin",
  "igamma",
  "igamma_grad_a",
  "igammac",
  "lgamma",
  "ndtri",
  "polygamma",
  "random_gamma_grad",
  "spence",
  "with_derivative",
  "zeta",
]


def with_derivative(
  function: Callable[[jax.Array], Array], derivative: Callable[[jax.Array, jax.Array], Array], x: Array
) -> jax.Array:
  """Evaluates an elementwise function that is differentiated by a formula; 16-bit types are computed in float32.

  Args:
    function: the function.
    derivative: of the argument and the function's value.
    x: any shape; floating.
  """
  x = jnp.asarray(x)

  @jax.custom_jvp
  def evaluate(x: jax.Array) -> jax.Array:
    return _in_float32(function, x)

  @default_promotion()
  def evaluate_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    y = evaluate(*primals)
    return y, tangents[0] * derivative(primals[0], y).astype(y.dtype)

  evaluate.defjvp(evaluate_jvp)
  return evaluate(x)


def _in_float32(function: Callable[..., Array], *args: Array) -> jax.Array:
  operands = jnp.broadcast_arrays(*map(jnp.asarray, args))
  dtype = operands[0].dtype
  wide = np.float32 if dtype.itemsize == 2 else dtype
  return jnp.asarray(function(*[x.astype(wide) for x in operands])).astype(dtype)


@register("Lgamma", ignores=("T",))
def lgamma(x: Array) -> Array:
  """Returns the logarithm of the absolute value of the gamma function.

  Source op: `tf.raw_ops.Lgamma`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`; infinity at 0 and negative integers, where the derivative is NaN.
  """
  return with_derivative(lambda x: _in_float32(jax.lax.lgamma, x), lambda x, y: digamma(x), x)


@register("Digamma", ignores=("T",))
def digamma(x: Array) -> Array:
  """Returns the derivative of the logarithm of the gamma function.

  Source op: `tf.raw_ops.Digamma`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`; NaN at 0 and negative integers.
  """
  return with_derivative(_digamma, lambda x, y: _in_float32(_trigamma, x), x)


def _digamma(x: Array) -> Array:
  # Since JAX 0.12, it is -inf at 0.
  return jnp.where(x == 0, jnp.nan, jax.lax.digamma(x))


def _trigamma(x: Array) -> Array:
  # By reflection, because `polygamma` loses digits below -7. The distance to the next integer keeps those of the sine.
  is_negative = x < 0
  # XLA's polygamma is NaN at infinity, and so are its derivatives.
  is_infinite = jnp.isinf(x)
  finite = jnp.where(is_infinite, 1, jnp.where(is_negative, 1 - x, x))
  positive = jnp.where(is_infinite, 0, jax.lax.polygamma(jnp.ones_like(x), finite))
  sine = jnp.sin(np.asarray(np.pi, x.dtype) * jnp.where(is_negative, x - jnp.round(x), 0.5))
  return jnp.where(is_negative, np.asarray(np.pi**2, x.dtype) / (sine * sine) - positive, positive)


@register("Polygamma", ignores=("T",))
def polygamma(a: Array, x: Array) -> Array:
  """Returns the derivative of order `a` of digamma; the arguments broadcast.

  Source op: `tf.raw_ops.Polygamma`.

  Args:
    a: whole numbers from 0 on; float32 or float64. No gradient passes, as in TensorFlow.
    x: dtype of `a`.

  Returns:
    The broadcast shape, dtype of `x`.
  """
  a, x = jnp.broadcast_arrays(a, x)
  a = jax.lax.stop_gradient(a)

  @jax.custom_jvp
  def evaluate(a: Array, x: Array) -> Array:
    sign = jnp.where(a % 2 == 0, -1, 1).astype(x.dtype)
    of_higher_order = sign * jnp.exp(jax.lax.lgamma(a + 1)) * _zeta(a + 1, x)
    value = jnp.where(a == 0, _digamma(x), of_higher_order)
    return jnp.where((a < 0) | (a != jnp.floor(a)), jnp.nan, value)

  @default_promotion()
  def evaluate_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    a, x = primals
    return evaluate(a, x), polygamma(a + 1, x) * tangents[1]

  evaluate.defjvp(evaluate_jvp)
  return evaluate(a, x)


@register("Zeta", ignores=("T",))
def zeta(x: Array, q: Array) -> Array:
  """Returns Hurwitz's zeta function, the sum of `(q + n) ** -x` over all `n` from 0; the arguments broadcast.

  Source op: `tf.raw_ops.Zeta`.

  Args:
    x: float32 or float64. No gradient passes, as in TensorFlow.
    q: dtype of `x`.

  Returns:
    The broadcast shape, dtype of `x`.
  """
  x, q = jnp.broadcast_arrays(x, q)
  x = jax.lax.stop_gradient(x)

  @jax.custom_jvp
  def evaluate(x: Array, q: Array) -> Array:
    return _zeta(x, q)

  @default_promotion()
  def evaluate_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    x, q = primals
    of_next = zeta(x + 1, q)
    # The value falls faster than an infinite x grows.
    derivative = -jnp.where(of_next == 0, 0, x) * of_next
    return evaluate(x, q), derivative * tangents[1]

  evaluate.defjvp(evaluate_jvp)
  return evaluate(x, q)


def _zeta(x: Array, q: Array) -> jax.Array:
  value = jax.lax.zeta(x, q)
  # XLA's coefficients overflow for large x, and its sum has inf * 0 at an infinite q. The sum is then its largest term.
  # The base of that is q, or for a negative q its distance from an integer, whose sign matters if x is odd.
  distance = jnp.where(jnp.isinf(q), 0, jnp.abs(q - jnp.round(q)))
  largest_term = jnp.power(jnp.where(q > 0, q, distance), -x)
  has_limit = (x > 1) & ((q > 0) | (x % 2 == 0) | jnp.isinf(x))
  return jnp.where(jnp.isnan(value) & has_limit, largest_term, value)


@register("Igamma", ignores=("T",))
def igamma(a: Array, x: Array) -> Array:
  """Returns the regularized lower incomplete gamma function; the arguments broadcast.

  Source op: `tf.raw_ops.Igamma`.

  Args:
    a: positive; float16, bfloat16, float32 or float64.
    x: not negative; dtype of `a`.

  Returns:
    The broadcast shape, dtype of `a`; NaN where `a` is not positive.
  """
  return _in_float32(_igamma, a, x)


@register("Igammac", ignores=("T",))
def igammac(a: Array, x: Array) -> Array:
  """Returns the regularized upper incomplete gamma function; the arguments broadcast.

  Source op: `tf.raw_ops.Igammac`.

  Args:
    a: positive; float16, bfloat16, float32 or float64.
    x: not negative; dtype of `a`.

  Returns:
    The broadcast shape, dtype of `a`; NaN where `a` is not positive.
  """
  return _in_float32(_igammac, a, x)


@register("IgammaGradA", ignores=("T",))
def igamma_grad_a(a: Array, x: Array) -> Array:
  """Returns the derivative of the lower incomplete gamma function with respect to its parameter; the arguments
  broadcast.

  Source op: `tf.raw_ops.IgammaGradA`.

  Args:
    a: positive; float32 or float64.
    x: not negative; dtype of `a`.

  Returns:
    The broadcast shape, dtype of `a`.
  """
  return _in_float32(_igamma_grad_a, a, x)


def _gamma_density(a: Array, x: Array) -> Array:
  def ordinary(a: Array, x: Array) -> Array:
    return jnp.exp((a - 1) * jnp.log(x) - x - jax.lax.lgamma(a))

  return in_two_ranges(ordinary, large_density, a, x)


def _where_gamma_is_defined(a: Array, x: Array, inside: Array, at_zero: float) -> Array:
  """Returns `inside`, but `at_zero` for x = 0 whatever `a` is or if `a` is infinite, and NaN outside the domain."""
  is_zero = (x == 0) | ((a == jnp.inf) & (x > 0) & (x < jnp.inf))
  return jnp.where(is_zero, at_zero, jnp.where((a > 0) & (x > 0), inside, jnp.nan))


def _igamma_grad_a(a: Array, x: Array) -> Array:
  def large(a: Array, x: Array) -> Array:
    return -large_density(a, x) * large_derivative(a, x)

  inside = jnp.where(x == jnp.inf, 0.0, in_two_ranges(jax.lax.igamma_grad_a, large, a, x))
  return _where_gamma_is_defined(a, x, inside, 0.0)


# Derivatives with respect to x are those of TensorFlow outside the domain too.
_igamma = with_partials(
  lambda a, x: _where_gamma_is_defined(a, x, in_two_ranges(jax.lax.igamma, large_lower, a, x), 0.0),
  lambda t, y, a, x: t * _igamma_grad_a(a, x),
  lambda t, y, a, x: t * _gamma_density(a, x),
)

_igammac = with_partials(
  lambda a, x: jnp.where(
    a > 0, _where_gamma_is_defined(a, x, in_two_ranges(jax.lax.igammac, large_upper, a, x), 1.0), jnp.nan
  ),
  lambda t, y, a, x: t * -_igamma_grad_a(a, x),
  lambda t, y, a, x: t * -_gamma_density(a, x),
)


@register("RandomGammaGrad", ignores=("T",))
def random_gamma_grad(alpha: Array, sample: Array) -> Array:
  """Returns the derivative of a gamma-distributed sample with respect to the shape parameter; the arguments broadcast.

  Source op: `tf.raw_ops.RandomGammaGrad`.

  Args:
    alpha: positive; float32 or float64.
    sample: positive; dtype of `alpha`.

  Returns:
    The broadcast shape, dtype of `alpha`; 0 if the sample is 0, NaN if one of the two is negative.
  """

  def derivative(a: Array, x: Array) -> Array:
    return _where_gamma_is_defined(a, x, in_two_ranges(jax.lax.random_gamma_grad, large_derivative, a, x), 0.0)

  return _in_float32(derivative, alpha, sample)


@register("Betainc", ignores=("T",))
def betainc(a: Array, b: Array, x: Array) -> Array:
  """Returns the regularized incomplete beta function; scalars broadcast.

  Source op: `tf.raw_ops.Betainc`.

  Args:
    a: positive; float32 or float64. No gradient passes, as in TensorFlow.
    b: positive; dtype of `a`. No gradient passes.
    x: from 0 to 1; dtype of `a`.

  Returns:
    The broadcast shape, dtype of `a`.
  """
  a, b, x = jnp.broadcast_arrays(a, b, x)
  return _betainc(a, b, x)


def _betainc_forward(a: Array, b: Array, x: Array) -> Array:
  is_defined = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
  inside = jnp.where(jnp.isfinite(a) & jnp.isfinite(b), jax.lax.betainc(a, b, x), jnp.nan)
  return jnp.where(is_defined, jnp.where((x == 0) | (x == 1), x, inside), jnp.nan)


def _betainc_partial(tangent: Array, y: Array, a: Array, b: Array, x: Array) -> Array:
  log_beta = jax.lax.lgamma(a) + jax.lax.lgamma(b) - jax.lax.lgamma(a + b)
  return tangent * jnp.exp(jsp.xlog1py(b - 1, -x) + jsp.xlogy(a - 1, x) - log_beta)


_betainc = with_partials(_betainc_forward, None, None, _betainc_partial)


@register("Erfinv", ignores=("T",))
def erfinv(x: Array) -> Array:
  """Returns the inverse of the error function.

  Source op: `tf.raw_ops.Erfinv`.

  Args:
    x: from -1 to 1; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`; infinite at the ends.
  """
  return _in_float32(jax.lax.erf_inv, x)


@register("Ndtri", ignores=("T",))
def ndtri(x: Array) -> Array:
  """Returns the inverse of the standard normal distribution function.

  Source op: `tf.raw_ops.Ndtri`.

  Args:
    x: from 0 to 1; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`; infinite at the ends.
  """
  root_of_two_pi = np.sqrt(2 * np.pi)
  return with_derivative(jsp.ndtri, lambda x, y: jnp.exp(y * y / 2) * np.asarray(root_of_two_pi, y.dtype), x)


@register("Dawsn", ignores=("T",))
def dawsn(x: Array) -> Array:
  """Returns Dawson's integral: `exp(-x^2)` times the integral of `exp(t^2)` from 0 to `x`.

  Source op: `tf.raw_ops.Dawsn`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(jax_versions.dawsn, lambda x, y: 1 - 2 * x * y, x)


@register("Expint", ignores=("T",))
def expint(x: Array) -> Array:
  """Returns the exponential integral: the integral of `exp(t) / t` up to `x`.

  Source op: `tf.raw_ops.Expint`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`; NaN below 0 and at infinity, as in TensorFlow.
  """
  return with_derivative(_expint, lambda x, y: jnp.exp(x) / x, x)


def _expint(x: Array) -> Array:
  value = jnp.where(x <= _EXPINT_LARGE, _expint_series(x), _expint_asymptotic(x))
  return jnp.where(x == 0, -jnp.inf, jnp.where((x < 0) | (x == jnp.inf), jnp.nan, value))


# `jsp.expi` evaluates its formula for negative arguments too, whose loop need not end for positive ones.
# Above 40, the smallest term of the asymptotic series is below e^-40. Below, 120 terms of the power series suffice.
_EXPINT_LARGE = 40.0
_EXPINT_TERMS = 120


def _expint_series(x: Array) -> jax.Array:
  # log(x) + gamma + the sum of x^k / (k k!), from the inside out: x (1 + x/2 (1/2 + x/3 (1/3 + ...))).
  x = jnp.minimum(x, _EXPINT_LARGE)

  def add(i: jax.Array, inner: jax.Array) -> jax.Array:
    k = (_EXPINT_TERMS - i).astype(x.dtype)
    return 1 / k + x / (k + 1) * inner

  return x * jax.lax.fori_loop(0, _EXPINT_TERMS, add, jnp.zeros_like(x)) + (np.euler_gamma + jnp.log(x))


def _expint_asymptotic(x: Array) -> jax.Array:
  # exp(x) / x times the sum of k! / x^k, from the inside out: 1 + 1/x (1 + 2/x (1 + ...)).
  x = jnp.maximum(x, _EXPINT_LARGE)
  num_terms = int(_EXPINT_LARGE)
  total = jax.lax.fori_loop(
    0, num_terms, lambda i, inner: 1 + (num_terms - i).astype(x.dtype) / x * inner, jnp.ones_like(x)
  )
  return jnp.exp(x) * (1 / x) * total


@register("FresnelCos", ignores=("T",))
def fresnel_cos(x: Array) -> Array:
  """Returns Fresnel's integral of `cos(pi t^2 / 2)` from 0 to `x`.

  Source op: `tf.raw_ops.FresnelCos`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(lambda x: jsp.fresnel(x)[1], lambda x, y: jnp.cos(x * x * np.asarray(np.pi / 2, x.dtype)), x)


@register("FresnelSin", ignores=("T",))
def fresnel_sin(x: Array) -> Array:
  """Returns Fresnel's integral of `sin(pi t^2 / 2)` from 0 to `x`.

  Source op: `tf.raw_ops.FresnelSin`.

  Args:
    x: any shape; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(lambda x: jsp.fresnel(x)[0], lambda x, y: jnp.sin(x * x * np.asarray(np.pi / 2, x.dtype)), x)


@register("Spence", ignores=("T",))
def spence(x: Array) -> Array:
  """Returns Spence's integral of `-log(t) / (t - 1)` from 1 to `x`.

  Source op: `tf.raw_ops.Spence`.

  Args:
    x: not negative; float16, bfloat16, float32 or float64.

  Returns:
    Shape and dtype of `x`.
  """
  return with_derivative(jsp.spence, _spence_derivative, x)


def _spence_derivative(x: Array, y: Array) -> Array:
  del y
  return jnp.where(x == 1, -1, jnp.log(x) / jnp.where(x == 1, 1, 1 - x))
