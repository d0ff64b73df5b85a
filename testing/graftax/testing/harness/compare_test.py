"""The one comparison is as strict as each of the six rules that it replaced."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from graftax.testing.harness.compare import Difference, check_equal, difference, largest_error, scale_of, unequal

_NAN, _INF = np.nan, np.inf
_BITS = [0.0, -0.0, 1.0, 1.0 + 1e-6, 1.0 + 1e-5, 1.0 + 3e-5, -1.0, 1e-6, 3e-6, 1e30, 1.0001e30, _NAN, _INF, -_INF]
_FLOATS = [np.array(pair) for pair in itertools.product(_BITS, [0.0, 5.0, _NAN, _INF])]
_COMPLEX = [
  np.array([complex(a, b), 2j])
  for a, b in itertools.product([0.0, 1.0, 1.0 + 8e-6, 1.0 + 3e-5, _NAN, _INF, -_INF], repeat=2)
]
_EXACT = [np.array(x) for x in ([1, 2], [1, 3])] + [np.array([True, False]), np.array([True, True])]
_TEXT = [np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)]
_RTOL, _ATOL = 1e-5, 1e-6


def _wide(x):
  return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _elements_or_largest(got, want):
  """The rule of whole programs."""
  if want.dtype.kind in "biuSO":
    return np.array_equal(got, want)
  scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
  return np.allclose(got, want, rtol=_RTOL, atol=_ATOL * scale, equal_nan=True)


def _parts(got, want):
  """The rule of generated cases."""
  if want.dtype.kind in "biuSO":
    return not (got != want).any()

  def far(got, want, size):
    close = (np.abs(got - want) <= _ATOL + _RTOL * size) & np.isfinite(want) & np.isfinite(got)
    return ~(close | (got == want) | (np.isnan(got) & np.isnan(want)))

  size = np.abs(np.where(np.isfinite(want), want, 0))
  return not (far(got.real, want.real, size) | far(got.imag, want.imag, size)).any()


def _elements(got, want):
  """The rule of single ops, and of plain ops."""
  if want.dtype.kind in "biuSO":
    return np.array_equal(got, want)
  return np.allclose(_wide(got), _wide(want), rtol=_RTOL, atol=_ATOL, equal_nan=True)


def _largest(got, want):
  """The rule of JAX functions in TensorFlow."""
  got, want = _wide(got), _wide(want)
  finite = np.isfinite(want)
  if not np.array_equal(np.isfinite(got), finite) or not np.array_equal(got[~finite], want[~finite], equal_nan=True):
    return False
  scale = max(1.0, float(np.abs(want[finite]).max(initial=0.0)))
  return float(np.abs(got[finite] - want[finite]).max(initial=0.0)) / scale <= _RTOL


# The last rule, of `call_tf`, was `_largest` for finite values.
_RULES = {
  "programs": (_elements_or_largest, lambda got, want: not unequal(got, want, *_programs(want)).any()),
  "generated": (_parts, lambda got, want: not unequal(got, want, *_tolerance(want)).any()),
  "elements": (_elements, lambda got, want: not unequal(got, want, *_tolerance(want)).any()),
  "largest": (_largest, lambda got, want: largest_error(got, want) <= _RTOL),
}


def _tolerance(want):
  return (_RTOL, _ATOL) if want.dtype.kind in "fc" else (0.0, 0.0)


def _programs(want):
  return (_RTOL, _ATOL * scale_of(want)) if want.dtype.kind in "fc" else (0.0, 0.0)


@pytest.mark.parametrize("rule", _RULES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_failed_before_fails(rule):
  before, now = _RULES[rule]
  groups = [_FLOATS, _COMPLEX, _EXACT[:2], _EXACT[2:]] + ([] if rule == "largest" else [_TEXT])
  failed = 0
  for group in groups:
    for got, want in itertools.product(group, repeat=2):
      if not before(got, want):
        failed += 1
        assert not now(got, want), (got, want)
  assert failed > 1000


@pytest.mark.parametrize("rule", _RULES)
def test_equal_arrays_are_equal(rule):
  for x in [*_FLOATS, *_COMPLEX, *_EXACT]:
    assert _RULES[rule][1](x, x.copy()), x


def test_a_part_of_a_complex_number_counts_beside_an_undefined_one():
  assert unequal(np.array([complex(_NAN, 1.0)]), np.array([complex(_NAN, 2.0)]), _RTOL, _ATOL).all()


def test_the_bound_of_complex_numbers_is_for_their_distance():
  want = np.array([1.0 + 0j])
  assert unequal(want + 0.9e-5 * (1 + 1j), want, 1e-5).all() and not unequal(want + 0.7e-5 * (1 + 1j), want, 1e-5).any()


def test_dtype_and_shape_come_first():
  x = np.ones(2, np.float32)
  assert difference(x.astype(np.float16), x) == "dtype float16 instead of float32"
  assert difference(x[:1], x) == "shape (1,) instead of (2,)"
  assert difference(x, x.astype(np.float64), dtype=np.dtype(np.float32)) == ""
  # A 32-bit result is compared with the 64-bit value, which may not fit.
  assert "differ" in difference(np.int32([1]), np.int64([(1 << 32) + 1]), dtype=np.dtype(np.int32))


def test_short_floats_are_numbers():
  x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
  check_equal("x", x, x)
  with pytest.raises(Difference, match="x: off by up to 1 where values go up to 2"):
    check_equal("x", x + np.array(1, ml_dtypes.bfloat16), x, 1e-2, 1e-2)


def test_the_first_place_is_told():
  with pytest.raises(Difference, match=r"y: 1 of 3 elements differ, first at \[1\]: .*5.* instead of .*2"):
    check_equal("y", np.array([1, 5, 3]), np.array([1, 2, 3]))


@pytest.mark.parametrize(
  ("got", "want"),
  [
    (np.array([1000000, 5]), np.array([1000000, 95])),
    (np.array([True]), np.array([False])),
    (np.array([b"a"], object), np.array([b"b"], object)),
    (np.array(["a"]), np.array([1.0])),
    (np.array([None]), np.array([1.0])),
  ],
)
def test_error_of_what_is_compared_exactly_is_zero_or_infinite(got, want):
  assert largest_error(got, want) == largest_error(want, got) == math.inf
  assert largest_error(got, got.copy()) == largest_error(want, want.copy()) == 0


def test_integers_are_equal_to_the_same_ones_of_another_width():
  assert largest_error(np.int32([7, 5]), np.int64([7, 5])) == 0
  assert largest_error(np.int64([2**53 + 1]), np.uint64([2**53])) == math.inf


def test_imaginary_part_of_a_result_counts_if_the_oracle_is_real():
  real, imaginary = np.array([1.0, 2.0]), np.array([1.0 + 0.5j, 2.0])
  assert largest_error(imaginary, real) == largest_error(real, imaginary) == 0.25
  assert unequal(imaginary, real, _RTOL, _ATOL).tolist() == [True, False]
  assert largest_error(real.astype(complex), real) == 0
