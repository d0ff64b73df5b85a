"""Special functions against TensorFlow."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax import lowering
from graftax.testing.raw_ops import check_raw_op

_ANY = np.array([-30.3, -7.2, -2.5, -1.0, -0.3, -1e-3, 0.0, 1e-3, 0.3, 1.0, 2.5, 7.9, 8.1, 30.3])
_POSITIVE = np.array([1e-3, 0.1, 0.5, 1.0, 1.5, 1.9, 2.1, 5.0, 7.9, 8.1, 20.0, 60.0])
_UNIT = np.array([0.001, 0.02, 0.13, 0.14, 0.3, 0.5, 0.7, 0.86, 0.87, 0.99])
_DOMAINS = {
  "Lgamma": _POSITIVE,
  "Digamma": _POSITIVE,
  "Erfinv": 2 * _UNIT - 1,
  "Ndtri": _UNIT,
  "BesselI0": _ANY,
  "BesselI0e": _ANY,
  "BesselI1": _ANY,
  "BesselI1e": _ANY,
  "BesselJ0": _ANY,
  "BesselJ1": _ANY,
  "BesselY0": _POSITIVE,
  "BesselY1": _POSITIVE,
  "BesselK0": _POSITIVE,
  "BesselK0e": _POSITIVE,
  "BesselK1": _POSITIVE,
  "BesselK1e": _POSITIVE,
  "Dawsn": _ANY,
  "Expint": _POSITIVE,
  "FresnelCos": _ANY,
  "FresnelSin": _ANY,
  "Spence": _POSITIVE,
}
# Both sides are polynomial approximations; in float32 each is off by up to 1e-5 near zeros of the function.
_TOLERANCES = {np.float64: (1e-9, 1e-10), np.float32: (1e-4, 2e-5), np.float16: (4e-3, 4e-3)}


@pytest.mark.parametrize("op", _DOMAINS)
def test_values_and_gradients(op):
  tolerance = _TOLERANCES[np.float64]
  check_raw_op(op, [_DOMAINS[op]], grad=True, tolerance=tolerance, grad_tolerance=(1e-7, 1e-7))


@pytest.mark.parametrize("op", _DOMAINS)
def test_float32(op):
  x = np.clip(_DOMAINS[op], -9, 9).astype(np.float32)
  check_raw_op(op, [x], vmap=False, known=False, tolerance=_TOLERANCES[np.float32])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", _DOMAINS)
def test_narrow_types_are_rounded_float32(op, dtype):
  # TensorFlow's kernels for these types, where it has any, convert to float32 too.
  x = np.clip(_DOMAINS[op], -9, 9).astype(dtype)
  function = lowering(op).function
  got = function(jnp.asarray(x))
  assert got.dtype == dtype
  np.testing.assert_array_equal(got, function(jnp.asarray(x, np.float32)).astype(dtype))


@pytest.mark.parametrize("op", sorted(op for op in _DOMAINS if op.startswith(("Bessel", "Lgamma", "Digamma"))))
def test_float16(op):
  x = np.clip(_DOMAINS[op], -9, 9).astype(np.float16)
  check_raw_op(op, [x], vmap=False, known=False, tolerance=_TOLERANCES[np.float16])


@pytest.mark.parametrize("op", sorted(set(_DOMAINS) - {"Expint", "Dawsn", "FresnelCos", "FresnelSin", "Spence"}))
def test_edges_of_the_domain(op):
  x = np.array([0.0, np.nan] if op.startswith(("Bessel", "Lgamma")) else [np.nan])
  check_raw_op(op, [x], vmap=False)


def test_poles_and_ends():
  check_raw_op("Expint", [np.array([-2.0, 0.0, np.inf, np.nan])], vmap=False)
  for op in ("Dawsn", "FresnelCos", "FresnelSin"):
    check_raw_op(op, [np.array([np.inf, -np.inf, np.nan])], vmap=False)
  check_raw_op("Lgamma", [np.array([0.0, -1.0, -2.5, np.inf])], grad=True, grad_order=2, vmap=False)
  check_raw_op("Erfinv", [np.array([-1.0, 1.0, 2.0])], vmap=False)
  check_raw_op("Ndtri", [np.array([0.0, 1.0])], vmap=False)
  check_raw_op("Spence", [np.array([0.0, -1.0])], vmap=False)
  for op in ("BesselY0", "BesselY1", "BesselK0", "BesselK1", "BesselK0e", "BesselK1e"):
    check_raw_op(op, [np.array([0.0, -1.0])], vmap=False)


_A = np.array([[0.1], [0.7], [2.0], [15.0]])
_X = np.array([[0.01, 0.5, 1.0, 2.5, 20.0]])


@pytest.mark.parametrize("op", ["Igamma", "Igammac"])
def test_incomplete_gamma(op):
  check_raw_op(op, [_A, _X], grad=True, tolerance=(1e-9, 1e-11), grad_tolerance=(1e-6, 1e-8))
  check_raw_op(op, [_A.astype(np.float32), _X.astype(np.float32)], vmap=False, tolerance=(2e-4, 1e-5))
  check_raw_op(op, [np.array([0.0, -1.0, np.nan, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, -1.0, np.inf])], vmap=False)


@pytest.mark.parametrize("op", ["IgammaGradA", "RandomGammaGrad"])
def test_gradients_of_incomplete_gamma(op):
  check_raw_op(op, [_A, _X], tolerance=(1e-6, 1e-8))
  # TensorFlow's float32 derivative underflows to 0 far out in the tail.
  check_raw_op(op, [_A[:3].astype(np.float32), _X.astype(np.float32)], vmap=False, tolerance=(2e-3, 1e-4))


def test_incomplete_beta():
  x = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
  a, b = np.array([0.5, 1.0, 2.0, 3.0, 4.0]), np.array([2.0, 1.0, 0.5, 3.0, 9.0])
  check_raw_op("Betainc", [a, b, x], tolerance=(1e-9, 1e-11))
  check_raw_op("Betainc", [a[1:4], b[1:4], x[1:4]], grad=True, tolerance=(1e-9, 1e-9), forward=False)
  check_raw_op("Betainc", [np.float64(2), np.float64(3), x], tolerance=(1e-9, 1e-11))
  check_raw_op("Betainc", [a.astype(np.float32), b.astype(np.float32), x.astype(np.float32)], tolerance=(1e-4, 1e-5))


def test_polygamma_and_zeta():
  order, x = np.array([[0.0], [1.0], [3.0], [6.0]]), np.array([[0.3, 1.0, 5.5]])
  check_raw_op("Polygamma", [order, x], grad=True, tolerance=(1e-9, 1e-9), forward=False)
  check_raw_op("Polygamma", [np.array([-1.0, 0.5]), np.array([2.0, 2.0])])
  check_raw_op("Polygamma", [order.astype(np.float32), x.astype(np.float32)], tolerance=(1e-4, 1e-5))
  check_raw_op("Zeta", [np.array([[1.5], [2.0], [7.0]]), x], grad=True, tolerance=(1e-9, 1e-9), forward=False)
  check_raw_op("Zeta", [np.array([1.0, 0.5, 2.0]), np.array([1.0, 1.0, 0.0])], vmap=False)


def test_zeta_and_polygamma_at_infinity():
  i, n = np.inf, np.nan
  for dtype in (np.float32, np.float64):
    x = np.array([2, 1.5, i, i, i, i, i, i, 1e20, 1e20, 1e20, 1e20, i, 2, n, 0.5], dtype)
    q = np.array([i, i, 2, 1, 0.5, -3.5, -2, i, 2, 1, 0.5, 1e10, n, n, i, i], dtype)
    check_raw_op("Zeta", [x, q], vmap=False)
    order = np.array([1, 2, 3, 7, 0, 1, 2, 1, 2], dtype)
    at = np.array([i, i, i, i, i, n, n, -0.5, 1e20], dtype)
    check_raw_op("Polygamma", [order, at], vmap=False)


def test_zeta_of_large_exponents():
  # XLA's coefficients overflow in float32 from about 2000 on.
  x, q = np.float32([[3000], [1e4], [1e10]]), np.float32([0.9999, 1, 1.0001, 1.01, 1.1, 5, 1e4])
  check_raw_op("Zeta", [x, q], tolerance=(1e-3, 1e-30), vmap=False)


def test_gradients_of_zeta_and_polygamma_at_infinity_are_zero():
  i = np.inf
  zeta, polygamma, digamma = (lowering(op).function for op in ("Zeta", "Polygamma", "Digamma"))
  with jax.enable_x64(True):
    for x, q in ((2.0, i), (i, 2.0), (1e20, 2.0), (i, i)):
      assert jax.grad(zeta, 1)(x, q) == 0
    for order in (0.0, 1.0, 2.0):
      assert jax.grad(polygamma, 1)(order, i) == 0
      assert jax.grad(jax.grad(polygamma, 1), 1)(order, i) == 0
    assert jax.grad(digamma)(i) == jax.grad(jax.grad(digamma))(i) == 0


def test_bessel_functions_of_large_arguments():
  scipy_special = pytest.importorskip("scipy.special")
  x = np.linspace(0.01, 200, 5001)
  with jax.enable_x64(True):
    for op, name in (("J0", "j0"), ("J1", "j1"), ("Y0", "y0"), ("Y1", "y1"), ("K0e", "k0e"), ("K1e", "k1e")):
      want = getattr(scipy_special, name)(x)
      got = lowering(f"Bessel{op}").function(jnp.asarray(x))
      np.testing.assert_allclose(got, want, rtol=1e-12, atol=2e-14 * max(1, np.abs(want).max()), err_msg=op)


@pytest.mark.parametrize("op", ["Igamma", "Igammac"])
def test_incomplete_gamma_outside_its_domain(op):
  # In order: a < 0, x < 0, x = 0, a = 0, both 0, a < 0 with x = 0, NaN, infinities.
  a = np.array([-1.5, 2, 2, 0, 0, -1, 2, np.nan, 1.5, np.inf, 2], np.float32)
  x = np.array([2, -1, 0, 1, 0, 0, np.nan, 1, np.inf, 1, np.inf], np.float32)
  check_raw_op(op, [a, x], grad=True, forward=False, vmap=False, without_x64=False)


def test_derivatives_of_gamma_parameters_outside_their_domain():
  a = np.array([-1, 0, 0, 1, -1, np.nan, 1], np.float32)
  x = np.array([0, 0, 1, -1, 1, 1, np.nan], np.float32)
  check_raw_op("IgammaGradA", [a, x], vmap=False, without_x64=False)
  check_raw_op("RandomGammaGrad", [a, x], vmap=False, without_x64=False)


def test_incomplete_beta_outside_its_domain():
  n, i = np.nan, np.inf
  a = np.array([1, 0, -1, n, 1, 1, i, 1, i, 0, 1, 0, 1, 2, 2, i, i, 1, 1], np.float32)
  b = np.array([1, 1, 1, 1, n, 1, 1, i, i, 0, 0, 1, 1, 3, 3, 1, 1, i, i], np.float32)
  x = np.array([0.5, 0.5, 0.5, 0.5, 0.5, n, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, -1, 2, 0, 1, 0, 1], np.float32)
  check_raw_op("Betainc", [a, b, x], vmap=False, without_x64=False)


def test_exponential_integral_of_huge_arguments_is_infinite():
  check_raw_op("Expint", [np.array([100, 1e6, 62360016, 1e30], np.float32)], vmap=False)


def test_exponential_integral_of_tiny_and_negative_arguments_returns():
  x = np.array([4.2e-07, -8.5e-08, 8.8e-18, 62360016, 0.37, 2, 39, 41], np.float32)
  check_raw_op("Expint", [x], vmap=False)


def test_digamma_at_its_poles_and_limits():
  x = np.array([0.0, -0.0, -1.0, np.inf, -np.inf, np.nan])
  check_raw_op("Digamma", [x.astype(np.float32)], vmap=False)
  check_raw_op("Polygamma", [np.zeros(3), x[:3]], vmap=False)


def test_derivative_of_digamma_far_below_zero():
  check_raw_op("Digamma", [np.array([-0.3, -1.5, -7.8, -33.25, 0.5, 2.0])], grad=True, grad_order=2, vmap=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incomplete_gamma_of_large_parameters_ends_with_the_right_value(dtype):
  special = pytest.importorskip("scipy.special")
  a = np.repeat(np.array([2e7, 1e10, 1e15, 1e38]), 5)
  x = a + np.tile([-1, -0.1, 0, 0.3, 2], 4) * np.sqrt(a)
  a, x = a.astype(dtype), x.astype(dtype)
  with jax.enable_x64(dtype is np.float64):
    lower, upper = (lowering(op).function(a, x) for op in ("Igamma", "Igammac"))
    slope = jax.vmap(jax.grad(lowering("Igamma").function, 1))(jnp.asarray(a), jnp.asarray(x))
  wide = a.astype(np.float64), x.astype(np.float64)
  rtol = {np.float32: 1e-5, np.float64: 1e-10}[dtype]
  np.testing.assert_allclose(lower, special.gammainc(*wide), rtol=rtol)
  np.testing.assert_allclose(upper, special.gammaincc(*wide), rtol=rtol)
  density = np.exp(-((wide[1] - wide[0]) ** 2) / (2 * wide[0])) / np.sqrt(2 * np.pi * wide[0])
  np.testing.assert_allclose(slope, density, rtol=1e-3)


def test_tails_of_the_incomplete_gamma_function_of_a_large_parameter():
  # The density of a standardized gamma distribution, integrated up to -6 and from 6; SciPy's lower tail is 6% off.
  a = 2e7
  for op, ends in (("Igamma", (-14, -6)), ("Igammac", (6, 14))):
    t = np.linspace(*ends, 400_001)
    density = np.exp((a - 1) * np.log1p(t / np.sqrt(a)) - t * np.sqrt(a) - 1 / (12 * a)) / np.sqrt(2 * np.pi)
    with jax.enable_x64(True):
      got = lowering(op).function(np.float64(a), np.float64(a + (-6 if op == "Igamma" else 6) * np.sqrt(a)))
    np.testing.assert_allclose(got, np.trapezoid(density, t), rtol=1e-7)


@pytest.mark.parametrize("a", [1.1e4, 1e5, 9e6])
def test_incomplete_gamma_in_float32_keeps_its_digits(a):
  special = pytest.importorskip("scipy.special")
  x = np.float32(a + np.array([-4, -1, 0, 0.5, 2, 4]) * np.sqrt(a))
  a = np.full_like(x, a)
  wide, step = (a.astype(np.float64), x.astype(np.float64)), 1e-5 * a[0]
  np.testing.assert_allclose(lowering("Igamma").function(a, x), special.gammainc(*wide), rtol=1e-4)
  np.testing.assert_allclose(lowering("Igammac").function(a, x), special.gammaincc(*wide), rtol=1e-4)
  above, below = (special.gammaincinv(wide[0] + d, special.gammainc(*wide)) for d in (step, -step))
  np.testing.assert_allclose(lowering("RandomGammaGrad").function(a, x), (above - below) / (2 * step), rtol=1e-5)


def test_derivatives_of_the_incomplete_gamma_function_of_a_large_parameter_at_zero():
  for op in ("Igamma", "Igammac"):
    check_raw_op(op, [np.full(1, 2e7), np.zeros(1)], grad=["x"], vmap=False)
