"""Functions of one element, or of two of the same position."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax.scipy import special

from graftax.testing.jax_functions.case import SHARED, Case, bf16, c64, f32, f64

_INTS = np.array([[-7, -2, 0, 3], [1, 5, 2147483647, -2147483648], [9, 12, -1, 64]], np.int32)
_UINTS = np.array([[0, 1, 2, 255], [128, 7, 60, 254]], np.uint8)
_BOOLS = np.array([[True, False, True, False], [True, True, False, False]])


def _unary(name: str, function: Callable[..., Any], low: float = -0.9, high: float = 0.9, **settings: Any) -> Case:
  return Case(name, function, (f32(3, 4),), ("b, _",), low, high, **settings)


def _binary(name: str, function: Callable[..., Any], low: float = 0.4, high: float = 2.0, **settings: Any) -> Case:
  return Case(name, function, (f32(3, 4), f32(3, 4)), ("b, _", "b, _"), low, high, **settings)


def _of(name: str, function: Callable[..., Any], *inputs: Any, **settings: Any) -> Case:
  return Case(name, function, inputs, tuple("b, _" for _ in inputs), **settings)


CASES = (
  _unary("abs", jnp.abs),
  _unary("negative", jnp.negative),
  _unary("sign", jnp.sign),
  _unary("exp", jnp.exp),
  _unary("exp2", jnp.exp2),
  _unary("expm1", jnp.expm1),
  _unary("log", jnp.log, 0.2, 3.0),
  _unary("log1p", jnp.log1p),
  _unary("log2_log10", lambda x: jnp.log2(x) * jnp.log10(x), 0.2, 3.0),
  _unary("sin", jnp.sin),
  _unary("cos", jnp.cos),
  _unary("tan", jnp.tan),
  _unary("asin", jnp.arcsin),
  _unary("acos", jnp.arccos),
  _unary("atan", jnp.arctan),
  _unary("sinh", jnp.sinh),
  _unary("cosh", jnp.cosh),
  _unary("tanh", jnp.tanh),
  _unary("asinh", jnp.arcsinh),
  _unary("acosh", jnp.arccosh, 1.2, 3.0),
  _unary("atanh", jnp.arctanh),
  _unary("erf", lax.erf),
  _unary("erfc", lax.erfc),
  _unary("erf_inv", lax.erf_inv),
  _unary("logistic", lax.logistic),
  _unary("sqrt", jnp.sqrt, 0.2, 3.0),
  _unary("rsqrt", lax.rsqrt, 0.2, 3.0),
  _unary("cbrt", jnp.cbrt, 0.2, 3.0),
  _unary("square_reciprocal", lambda x: jnp.square(x) + 1 / x, 0.3, 2.0),
  _unary("integer_power", lambda x: x**3 - x**-2, 0.5, 2.0),
  _unary("rounding", lambda x: jnp.floor(x) + jnp.ceil(x) + jnp.round(x, 1) + jnp.trunc(x) + jnp.rint(x), -3.0, 3.0),
  _unary("clip", lambda x: jnp.clip(x, -0.5, 0.5)),
  _unary("where", lambda x: jnp.where(x > 0, jnp.sin(x), x)),
  _unary("select_n", lambda x: lax.select_n((x > 0).astype(np.int32) + (x > 0.5), x, x * 2, x * 3)),
  _unary("nan_to_num", lambda x: jnp.nan_to_num(jnp.log(x - 0.2)) + jnp.isfinite(jnp.sqrt(x)), gradient=False),
  _unary("sinc", jnp.sinc),
  _unary("deg2rad_heaviside", lambda x: jnp.deg2rad(x) + jnp.heaviside(x, 0.5)),
  _unary("frexp_ldexp", lambda x: jnp.ldexp(*jnp.frexp(x)) + jnp.modf(x)[0], gradient=False),
  _unary("bitcast", lambda x: lax.bitcast_convert_type(x, np.int32) >> 3),
  _unary("reduce_precision", lambda x: lax.reduce_precision(x, 8, 7)),
  _unary("casts", lambda x: x.astype(jnp.bfloat16).astype(np.float32) + x.astype(np.float16) + (x * 9).astype(np.int8)),
  _unary("comparisons", lambda x: (x > 0.1, x <= 0.3, x == 0, x != x, jnp.logical_xor(x > 0, x < 0.5))),
  _binary("add_subtract_divide", lambda x, y: (x + y) * (x - y) / y),
  _binary("power", lambda x, y: x**y),
  _binary("atan2", jnp.arctan2, -1.0, 1.0),
  _binary("hypot", jnp.hypot),
  _binary("logaddexp", jnp.logaddexp),
  _binary("maximum_minimum", SHARED["maximum_minimum"]),
  _binary("remainder", lambda x, y: jnp.remainder(x, y) + jnp.fmod(-x, y) + x // y),
  _binary("nextafter_copysign", lambda x, y: jnp.nextafter(x, y) + jnp.copysign(x, -y), gradient=False),
  _of("broadcasting", lambda x, y: x * y[:1] + y[:, :1], f32(3, 4), f32(3, 4)),
  # special functions
  _unary("lgamma", lax.lgamma, 0.5, 4.0),
  _unary("digamma", lax.digamma, 0.5, 4.0),
  _unary("polygamma", SHARED["polygamma"], 0.5, 3.0),
  _unary("zeta", SHARED["zeta"], 1.5, 3.0, gradient=False),
  _binary("igamma", lambda a, x: lax.igamma(a, x) - 0.5 * lax.igammac(a, x)),
  _binary("betainc", lambda a, x: lax.betainc(a, a + 1, x / 3), gradient=False),
  _unary("bessel", SHARED["bessel"], 0.2, 3.0),
  _unary("ndtr", lambda x: special.ndtr(x) + special.log_ndtr(x), -2.0, 2.0),
  _unary("ndtri", special.ndtri, 0.1, 0.9),
  _unary("entr_logit", lambda x: special.entr(x) + special.logit(x), 0.1, 0.9),
  _binary("xlogy", lambda x, y: special.xlogy(x, y) + special.xlog1py(x, y)),
  _unary("expi_spence", lambda x: special.expi(x) + special.spence(x), 0.3, 2.0),
  # activations
  _unary("relu", nn.relu),
  _unary("relu6_hard", lambda x: nn.relu6(x * 8) + nn.hard_sigmoid(x) + nn.hard_swish(x) + nn.hard_tanh(x)),
  _unary("gelu", lambda x: nn.gelu(x) + nn.gelu(x, approximate=False)),
  _unary("silu_softplus", lambda x: nn.silu(x) + nn.softplus(x) + nn.log_sigmoid(x) + nn.mish(x)),
  _unary("elu_selu", lambda x: nn.elu(x) + nn.selu(x) + nn.celu(x, 0.7) + nn.leaky_relu(x)),
  _unary("glu", lambda x: nn.glu(x) + nn.soft_sign(x)[:, :2] + nn.squareplus(x)[:, 2:]),
  # other types
  _of("integers", lambda x: x // 3 + x % 5 + x * x - jnp.abs(x) + jnp.sign(x), _INTS),
  _of("bits", lambda x: (x << 2) ^ (x >> 1) | (x & 12) + lax.population_count(x) - lax.clz(x) + ~x, _INTS),
  _of("shift_right_logical", lambda x: lax.shift_right_logical(x, jnp.full_like(x, 3)), _INTS),
  _of("unsigned", lambda x: (x * 3 + 1) // 2 + (x >> 2) - jnp.minimum(x, 9), _UINTS),
  _of("booleans", lambda x: (x & ~x[:, ::-1], jnp.logical_or(x, x[:1]), x.astype(np.float32)), _BOOLS),
  _of("gcd", lambda x: jnp.gcd(x, 12), np.array([[8, 9], [10, 36]], np.int32)),
  _of("bfloat16", lambda x, y: jnp.sin(x) * y + jnp.exp(y), bf16(3, 4), bf16(3, 4)),
  _of("float64", lambda x: jnp.sin(x) + jnp.cosh(x) * jnp.arcsin(x) + lax.erf(x), f64(3, 4)),
  _of("complex", lambda x, y: x * y + jnp.exp(x) / (y + 3) + jnp.conj(x), c64(3, 4), c64(3, 4)),
  _of("complex_parts", lambda x: jnp.abs(x) + jnp.angle(x) + jnp.real(x) * jnp.imag(x), c64(3, 4)),
  _of("complex_functions", lambda x: jnp.sqrt(x + 2) + jnp.log(x + 2) + jnp.tanh(x) + jnp.sin(x), c64(3, 4)),
  _of("complex_inverse", lambda x: jnp.arcsin(x / 2) + jnp.arctanh(x / 2) + jnp.arcsinh(x) + jnp.arccosh(x), c64(3, 4)),
  _of("lax_complex", lambda x, y: jnp.abs(lax.complex(x, y)) ** 2, f32(3, 4), f32(3, 4)),
  _of("jitted_inside", lambda x: jax.jit(lambda a: jnp.sin(a) * 2)(x) + jax.jit(jnp.cos)(x), f32(3, 4)),
)
