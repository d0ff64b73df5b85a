"""Local response normalization against TensorFlow."""

import numpy as np
import pytest

from graftax.ops_jax.nn.lrn import lrn
from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_X = np.random.default_rng(0).normal(size=(2, 2, 3, 9)).astype(np.float32)


@pytest.mark.parametrize("attrs", [{}, {"depth_radius": 2, "bias": 2.0, "alpha": 0.3, "beta": 0.75}])
def test_lrn(attrs):
  check_raw_op("LRN", [_X], attrs, grad=True, tolerance=(1e-4, 1e-5))
  y = np.asarray(lrn(_X, **attrs))
  check_raw_op("LRNGrad", [_X[::-1].copy(), _X, y], attrs, vmap=["input_grads"], tolerance=(1e-3, 1e-3))
  check_raw_op("LRN", [_X.astype(np.float16)], attrs, vmap=False, tolerance=(1e-2, 1e-2))
