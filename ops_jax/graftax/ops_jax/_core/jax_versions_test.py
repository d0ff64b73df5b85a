"""The forms for older versions of JAX against SciPy."""

import jax
import numpy as np
import pytest
import scipy.special

from graftax.ops_jax._core.jax_versions import dawsn, dawsn_by_sampling


@pytest.mark.parametrize("function", [dawsn, dawsn_by_sampling])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 2e-6), (np.float16, 2e-3)])
def test_dawson_integral_is_that_of_scipy(function, dtype, rtol):
  x = np.concatenate([np.linspace(-12, 12, 1001), np.geomspace(1e-6, 6e4, 300), [0, np.inf, -np.inf, np.nan]]).astype(
    dtype
  )
  with jax.enable_x64(dtype == np.float64):
    got = jax.jit(function)(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, scipy.special.dawsn(x.astype(np.float64)), rtol=rtol, atol=np.finfo(dtype).tiny)
