"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

import jax
import numpy as np

from graftax.ops_jax import supported_ops
from graftax.ops_jax.math.cumulative import cumsum

assert "MatMul" in supported_ops()
np.testing.assert_array_equal(jax.jit(lambda x: cumsum(x, 0, exclusive=True))(np.array([3, 1, 4], np.int32)), [0, 3, 4])
