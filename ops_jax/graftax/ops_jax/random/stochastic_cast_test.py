"""Rounding at random: averages and edges."""

import jax
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax.random.stochastic_cast import stochastic_cast_to_int

_KEY, _COUNTER = np.array([7], np.uint64), np.array([1, 2], np.uint64)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("tout", [np.int8, np.int16, np.int32])
def test_the_average_is_the_input(dtype, tout):
  with jax.enable_x64(True):
    rounded = stochastic_cast_to_int(np.full(4000, -2.25, dtype), _KEY, _COUNTER, 1, Tout=np.dtype(tout))
  assert rounded.dtype == tout
  assert set(np.asarray(rounded).tolist()) == {-3, -2}
  assert abs(np.mean(np.asarray(rounded, np.float64)) + 2.25) < 0.04


@pytest.mark.parametrize("tout", [np.int8, np.int16, np.int32])
def test_whole_numbers_stay_and_the_rest_is_cut(tout):
  x = np.array([0.0, 5.0, -7.0, np.nan, np.inf, -np.inf, 1e30], np.float32)
  rounded = np.asarray(stochastic_cast_to_int(x, _KEY, _COUNTER, 3, Tout=np.dtype(tout)))
  np.testing.assert_array_equal(rounded[:4], [0, 5, -7, 0])
  assert rounded[5] == np.iinfo(tout).min
  assert (rounded[[4, 6]] == np.iinfo(tout).max).all()
