"""The forms for older versions of JAX against numpy and against the newer form."""

import jax
import numpy as np
import pytest

from graftax.xla_call_module.jax_versions import mulhi, mulhi_of_halves

_RNG = np.random.default_rng(0)


@pytest.mark.parametrize("function", [mulhi, mulhi_of_halves])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_high_words_of_products_are_exact(function, dtype):
  info = np.iinfo(dtype)
  edges = np.array([info.min, info.min + 1, info.max // 2, info.max - 1, info.max, 0, 1], dtype)
  x = np.concatenate([np.repeat(edges, edges.size), _RNG.integers(info.min, info.max, 500, dtype)])
  y = np.concatenate([np.tile(edges, edges.size), _RNG.integers(info.min, info.max, 500, dtype)])
  expected = (x.astype(object) * y.astype(object)) >> info.bits
  got = jax.jit(function)(x, y)
  assert got.dtype == dtype
  np.testing.assert_array_equal(got, expected.astype(dtype))
