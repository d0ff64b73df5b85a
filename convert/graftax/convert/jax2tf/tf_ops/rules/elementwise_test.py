"""Values of elementwise primitives as plain TensorFlow ops, at the edges of their dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert import UnsupportedPrimitiveError
from graftax.testing.plain_ops import check_plain_ops

pytestmark = pytest.mark.tensorflow

_FLOATS = np.array([-np.inf, -2.5, -1.5, -0.5, -0.0, 0.0, 0.49999997, 0.5, 1.5, 2.5, 300.7, np.inf, np.nan], np.float32)
_PAIRS = np.stack(np.meshgrid(_FLOATS, _FLOATS)).reshape(2, -1)
_SIGNED = (np.int8, np.int16, np.int32)
_UNSIGNED = (np.uint8, np.uint16, np.uint32)


def _integers(dtype):
  info = np.iinfo(dtype)
  values = {info.min, info.min + 1, 0, 1, 2, 3, 7, 31, 40, info.max // 2, info.max - 1, info.max}
  values |= {-1, -2, -3, -33} if info.min else set()
  return np.array(sorted(values), dtype)


def _integer_pairs(dtype):
  return np.stack(np.meshgrid(_integers(dtype), _integers(dtype))).reshape(2, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_of_several_known_divisors_are_those_of_jax(dtype):
  def function(x):
    numbers, ones = jnp.arange(1, 17, dtype=x.dtype), jnp.ones(16, x.dtype)
    return x / numbers, numbers / numbers, x - x / ones

  with jax.enable_x64(dtype == np.float64):
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(dtype)
    check_plain_ops(function, x, rtol=0, atol=0)
    limits = np.finfo(dtype)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, 3] * 2, dtype)
    check_plain_ops(lambda x: x / jnp.asarray(special), np.stack([special, special[::-1]]))


def test_floats_of_one_operand_with_special_values():
  def function(x):
    away = lax.RoundingMethod.AWAY_FROM_ZERO
    return (
      [lax.round(x, away), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), lax.sign(x), lax.is_finite(x), -x, abs(x)],
      [lax.floor(x), lax.ceil(x), lax.sqrt(x), lax.rsqrt(x), lax.cbrt(x), lax.square(x), lax.logistic(x), lax.tanh(x)],
      [lax.exp(x), lax.exp2(x / 10), lax.expm1(x), lax.log(x), lax.log1p(x), lax.erf(x), lax.erfc(x)],
      [lax.integer_pow(x, n) for n in (-3, -1, 0, 1, 2, 5, 8)],
    )

  check_plain_ops(function, _FLOATS)


def test_logarithms_to_base_2_and_polynomials():
  # Primitives since JAX 0.12; in vmap and derivatives too.
  x = np.linspace(0.1, 0.9, 9, dtype=np.float32)

  def function(x):
    slopes = jax.vmap(jax.grad(lambda x: jnp.log2(x) + jax.scipy.special.ndtri(x)))(x)
    return slopes, jax.scipy.special.ndtri(x), jax.scipy.special.log_ndtr(-x)

  check_plain_ops(function, x, rtol=2e-5)
  # Without the primitive it is a quotient, which XLA rounds to bfloat16 once and TensorFlow twice, by at most 2**-7.
  is_primitive = "log2" in str(jax.make_jaxpr(jnp.log2)(x))
  check_plain_ops(lambda x: jnp.log2(x.astype(jnp.bfloat16)), x, rtol=2e-5 if is_primitive else 2**-7)
  check_plain_ops(lambda x: (jnp.log2(x), lax.digamma(jnp.maximum(x, 0))), _FLOATS)


def test_polynomials_at_one_point_whose_coefficients_are_arrays():
  coefficients, x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), np.float32(0.7)
  check_plain_ops(lambda c, x: (jnp.polyval(c, x), jax.grad(lambda x: jnp.polyval(c, x).sum())(x)), coefficients, x)
  check_plain_ops(jax.vmap(jnp.polyval, (0, None)), np.stack([coefficients, -coefficients]), x)
  check_plain_ops(jax.vmap(jnp.polyval, (None, 0)), coefficients, np.linspace(0, 1, 5, dtype=np.float32))
  check_plain_ops(jnp.polyval, coefficients, coefficients[0], polymorphic_shapes=("4, n", "n"))


def test_special_functions():
  x = np.linspace(0.1, 0.9, 9, dtype=np.float32)

  def function(x):
    y = x + 1
    return (
      [lax.erf_inv(x), lax.lgamma(y), lax.digamma(y), lax.igamma(y, x), lax.igammac(y, x), lax.betainc(y, x, x)],
      [lax.polygamma(jnp.round(y), y), lax.zeta(y + 1, y), lax.bessel_i0e(x), lax.bessel_i1e(x), lax.nextafter(x, y)],
      [lax.asin(x), lax.acos(x), lax.atan(x), lax.sinh(x), lax.cosh(x), lax.asinh(x), lax.acosh(y), lax.atanh(x)],
      [lax.tan(x), lax.sin(x), lax.cos(x), lax.igamma_grad_a(y, x), lax.random_gamma_grad(y, x)],
    )

  check_plain_ops(function, x, rtol=2e-5)


def test_functions_of_scalars_and_an_array():
  x = np.linspace(0.1, 0.9, 9, dtype=np.float32)
  special = jax.scipy.special
  check_plain_ops(lambda x: (special.betainc(1.0, 2.0, x), special.betainc(x, 2.0, 0.5)), x, rtol=2e-5)
  check_plain_ops(lambda x: (special.gammainc(2.0, x), special.zeta(x + 1.5, 2.0)), x, rtol=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, jnp.bfloat16])
def test_functions_that_tensorflow_computes_less_exactly(dtype):
  inside = np.array([-1, -0.9999999, -1e-4, 1e-8, 0.5, 0.99, 0.9999999, 1], np.float64).astype(dtype)
  wide = np.array([-np.inf, -300, -5, -1e-3, 0.3, 7, 12345, np.inf, np.nan], np.float64).astype(dtype)
  with jax.enable_x64(True):
    check_plain_ops(lax.erf_inv, inside, rtol=1e-6, atol=0)
    check_plain_ops(lambda x: (lax.erf(x), lax.cbrt(x)), wide, rtol=1e-2 if inside.dtype.itemsize == 2 else 1e-6)


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(5, 10), (8, 7), (8, 23), (11, 52)])
def test_reduced_precision_has_no_subnormal_numbers(exponent_bits, mantissa_bits):
  x = np.array([6.2e-5, 5e-5, -1e-6, 0, -0.0, 1.2345678, 65519, 65520, -1e9, np.inf, np.nan], np.float32)
  check_plain_ops(lambda x: lax.reduce_precision(x, exponent_bits, mantissa_bits), x, rtol=0, atol=0)


def test_floats_of_two_operands_with_special_values():
  def function(x, y):
    compared = [x < y, x <= y, x > y, x >= y, x == y, x != y]
    return compared, lax.max(x, y), lax.min(x, y), lax.rem(x, y), x / y, lax.atan2(x, y), lax.pow(x, y), x * y, x - y

  check_plain_ops(function, *_PAIRS)


@pytest.mark.parametrize("dtype", [*_SIGNED, *_UNSIGNED])
def test_integers_overflow_divide_and_shift_as_in_jax(dtype):
  def function(x, y):
    return (
      [x + y, x - y, x * y, lax.div(x, y), lax.rem(x, y), lax.max(x, y), lax.min(x, y), lax.sign(x), -x, abs(x)],
      [x & y, x | y, x ^ y, ~x, lax.population_count(x), lax.clz(x), lax.integer_pow(x, 3), x // y, x % y],
      [lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y)],
      [x < y, x == y, x >= y, lax.div(x, jnp.asarray(3, dtype)), lax.shift_left(x, jnp.asarray(2, dtype))],
    )

  x, y = _integer_pairs(dtype)
  of_all_bits = np.full_like(x, 8 * x.dtype.itemsize)
  check_plain_ops(function, np.append(x, x), np.append(y, of_all_bits))


@pytest.mark.parametrize("dtype", _UNSIGNED)
def test_a_graph_of_one_negation_stays_unsigned_when_it_is_optimized(dtype):
  check_plain_ops(lambda x: -x, _integers(dtype))


@pytest.mark.parametrize("dtype", [*_SIGNED, *_UNSIGNED, np.bool_, np.float16, jnp.bfloat16, np.complex64])
def test_casts_of_floats_saturate(dtype):
  info = np.iinfo(dtype if np.issubdtype(dtype, np.integer) else np.int8)
  beside = np.add.outer([info.min, info.max], [-1, -0.5, 0, 0.5, 1]).ravel()
  x = np.concatenate([_FLOATS, [1e20, -1e20], beside]).astype(np.float32)
  check_plain_ops(lambda x: (x.astype(dtype), (x * 1e7).astype(dtype)), x)


@pytest.mark.parametrize("dtype", [*_SIGNED, *_UNSIGNED])
def test_casts_of_integers_wrap_around(dtype):
  targets = (*_SIGNED, *_UNSIGNED, np.float32, np.bool_)
  check_plain_ops(lambda x: [x.astype(target) for target in targets], _integers(dtype))


@pytest.mark.parametrize("dtype", [jnp.int4, jnp.uint4])
def test_casts_of_integers_below_8_bits(dtype):
  floats, integers = np.append(_FLOATS, [-7.9, 6.9, 99]).astype(np.float32), np.arange(-20, 20, dtype=np.int32)
  check_plain_ops(lambda x, i: (x.astype(dtype).astype(np.float32), i.astype(dtype).astype(bool)), floats, integers)


@pytest.mark.filterwarnings("ignore:Casting complex")  # JAX warns; the cast is what is tested
def test_complex_numbers_become_bools_by_their_real_parts():
  check_plain_ops(lambda z: lax.convert_element_type(z, bool), np.array([0, 1, 1j], np.complex64))


def test_bools_and_selections():
  p = np.array([True, False, True, False])
  q = np.array([True, True, False, False])

  def function(p, q):
    which = p.astype(np.int32) + q
    numbers = [jnp.full(4, n) for n in range(3)]
    logic = [p & q, p | q, p ^ q, ~p, lax.max(p, q), lax.min(p, q), p < q, p == q]
    outside = lax.select_n(which * 4 - 3, *numbers)
    return logic, lax.select_n(which, *numbers), outside, lax.select(p, numbers[1], numbers[2])

  check_plain_ops(function, p, q)


def test_clamp_and_bits():
  def function(x):
    bits = lax.bitcast_convert_type(x, np.int32)
    halves = lax.bitcast_convert_type(bits, np.uint16)
    return lax.clamp(-1.0, x, 2.0), bits, halves, lax.bitcast_convert_type(halves, np.float32)

  check_plain_ops(function, _FLOATS)


def test_complex_numbers():
  x = np.array([1 + 2j, -3 + 0.5j, 0.1j], np.complex64)

  def function(x):
    parts = [x.real, x.imag, abs(x), jnp.conj(x), lax.complex(x.imag, x.real), lax.sign(x)]
    return parts, x * x, x / (x + 1), jnp.exp(x), jnp.sqrt(x), jnp.sin(x), jnp.tanh(x), x == x, x @ x

  check_plain_ops(function, x)


@pytest.mark.parametrize("short", [jnp.float8_e4m3fn, jnp.float8_e5m2])
def test_floats_of_8_bits_are_cast_to_and_from_all_dtypes(short):
  dtypes = [np.bool_, np.int8, np.int32, np.uint16, jnp.int4, jnp.bfloat16, np.float16]
  values = [np.array([0, 1, 3, 5, 7], dtype) for dtype in dtypes]

  def function(x, values):
    return [x.astype(dtype) for dtype in dtypes], [y.astype(short) for y in values]

  check_plain_ops(function, np.array([0, -0.5, 1, 5, 7, np.nan], short), values)


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3b11fnuz, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz])
def test_floats_that_tensorflow_does_not_cast_are_refused(dtype):
  for function, x in ((lambda x: x.astype(dtype), np.float32(1)), (lambda x: x.astype(np.float32), dtype(1))):
    with pytest.raises(UnsupportedPrimitiveError, match=f"no CPU kernel of Cast for {np.dtype(dtype)}"):
      check_plain_ops(function, x)


def test_polygamma_and_zeta_far_below_zero():
  x = np.array([-7.66, -7.3, -6.6, -0.5, 2.5], np.float32)
  check_plain_ops(jax.grad(lambda x: lax.digamma(x).sum()), x, rtol=2e-3)  # JAX itself rounds more there
  check_plain_ops(lambda x: lax.zeta(jnp.full_like(x, 2), x), x)


def test_extremes_of_complex_numbers():
  parts = np.array([-np.inf, -1, -0.0, 0, 2, np.inf], np.float32)
  x, y = (part.reshape(-1).astype(np.complex64) for part in np.meshgrid(parts, parts))
  z = lax.complex(x.real, y.real)

  def function(z):
    other = z.reshape(6, 6).T.reshape(-1)
    return lax.max(z, other), lax.min(z, other), lax.max(z, z[7]), lax.min(z[9], z)

  check_plain_ops(function, np.asarray(z))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_the_next_number_of_16_bits(dtype):
  limits = jnp.finfo(dtype)
  x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, limits.max, limits.min, limits.tiny, 1.5, -300], dtype)
  pairs = np.stack(np.meshgrid(x, x)).reshape(2, -1)
  check_plain_ops(lax.nextafter, *pairs, rtol=0, atol=0)


@pytest.mark.parametrize("bits", [(5, 2), (4, 3), (8, 10), (2, 0), (8, 3), (3, 23)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
def test_numbers_rounded_to_any_number_of_bits(bits, dtype):
  x = np.concatenate([_FLOATS, [1e-8, -6.1e-5, 1.0625, 1.1875, 448, 464, 57344, 61440, -65504, 0.0155, 0.0156]])
  check_plain_ops(lambda x: lax.reduce_precision(x, *bits), x.astype(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, jnp.bfloat16])
def test_incomplete_gamma_and_beta_functions_at_the_edges_of_their_domains(dtype):
  points = np.array([np.nan, np.inf, -np.inf, 0, -1, -2.5, 0.5, 1, 3, 30.25], dtype)
  a, x = np.stack(np.meshgrid(points, points)).reshape(2, -1)
  of_beta = np.stack(np.meshgrid(points, points, points)).reshape(3, -1)

  def function(a, x, of_beta):
    return lax.igamma(a, x), lax.igammac(a, x), lax.igamma_grad_a(a, x), lax.betainc(*of_beta)

  with jax.enable_x64(dtype == np.float64):
    check_plain_ops(function, a, x, of_beta, **({"rtol": 2e-2, "atol": 1e-2} if dtype == jnp.bfloat16 else {}))


def test_incomplete_gamma_functions_of_large_numbers():
  a = np.array([1e4, 1e5], np.float32)
  below, above = check_plain_ops(lambda a: (lax.igamma(a, a), lax.igammac(a, a)), a, rtol=0.15)
  # JAX's own numbers are those of float32 here.
  np.testing.assert_allclose(below, 0.5 + 1 / (3 * np.sqrt(2 * np.pi * a)), rtol=1e-5)
  np.testing.assert_allclose(above, 0.5 - 1 / (3 * np.sqrt(2 * np.pi * a)), rtol=1e-5)
