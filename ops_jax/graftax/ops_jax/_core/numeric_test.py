"""Shared numeric helpers against numpy and hand-written values."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax._core.numeric import highest_finite, lowest_finite, round_half_away, search_sorted
from graftax.xla_call_module.lax_extras import highest, lowest


def test_only_halves_and_more_round_away_from_zero():
  x = np.array([0.5, -0.5, 2.5, 0.49999997, -0.49999997, 8388609, -8388609, 4194303.5, np.inf], np.float32)
  want = np.array([1, -1, 3, 0, 0, 8388609, -8388609, 4194304, np.inf], np.float32)
  np.testing.assert_array_equal(round_half_away(x), want)
  np.testing.assert_array_equal(jax.jit(round_half_away)(x), want)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_ends_of_floats(dtype):
  info = ml_dtypes.finfo(dtype)
  assert lowest(dtype) == -np.inf and highest(dtype) == np.inf
  assert lowest_finite(dtype) == info.min and highest_finite(dtype) == info.max
  assert {f(dtype).dtype for f in (lowest, highest, lowest_finite, highest_finite)} == {np.dtype(dtype)}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_ends_of_integers(dtype):
  info = np.iinfo(dtype)
  assert lowest(dtype) == lowest_finite(dtype) == info.min
  assert highest(dtype) == highest_finite(dtype) == info.max


def test_ends_of_floats_without_infinity_are_finite():
  # NumPy turns infinity into NaN, which would win every maximum.
  dtype = ml_dtypes.float8_e4m3fn
  assert (lowest(dtype), highest(dtype)) == (-448, 448) == (lowest_finite(dtype), highest_finite(dtype))


@pytest.mark.parametrize("side", ["left", "right"])
def test_search_in_a_symbolic_number_of_elements(side):
  export = jax.export.export(jax.jit(lambda a, v: search_sorted(a, v, side)))
  exported = export(*jax.export.symbolic_args_specs((np.zeros(3, np.float32), np.zeros(3, np.float32)), "n"))
  rng = np.random.default_rng(0)
  for size in (1, 2, 3, 8, 1000):
    ordered, values = np.sort(rng.integers(0, 9, size)).astype(np.float32), rng.integers(-2, 11, size)
    values = values.astype(np.float32)
    ordered[size - size // 3 :] = values[: size // 3] = np.nan
    np.testing.assert_array_equal(exported.call(ordered, values), np.searchsorted(ordered, values, side))
