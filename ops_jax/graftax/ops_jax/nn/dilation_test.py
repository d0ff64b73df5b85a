"""Grayscale dilation against TensorFlow, ties included."""

import numpy as np
import pytest

from graftax.testing.raw_ops import check_raw_op

pytestmark = pytest.mark.tensorflow

_RNG = np.random.default_rng(0)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rates", [[1, 1, 1, 1], [1, 2, 1, 1]])
def test_dilation(rates, padding):
  attrs = {"strides": [1, 2, 1, 1], "rates": rates, "padding": padding}
  x = _RNG.integers(-2, 2, (2, 6, 7, 2)).astype(np.float32)
  kernel = _RNG.integers(-2, 2, (3, 2, 2)).astype(np.float32)
  check_raw_op("Dilation2D", [x, kernel], attrs, grad=True)
  check_raw_op("Dilation2D", [x.astype(np.int32), kernel.astype(np.int32)], attrs, vmap=False)
  rows = {("SAME", 1): 3, ("SAME", 2): 3, ("VALID", 1): 2, ("VALID", 2): 1}[padding, rates[1]]
  dy = _RNG.normal(size=(2, rows, 7 if padding == "SAME" else 6, 2)).astype(np.float32)
  check_raw_op("Dilation2DBackpropInput", [x, kernel, dy], attrs, vmap=["out_backprop"])
  check_raw_op("Dilation2DBackpropFilter", [x, kernel, dy], attrs, vmap=["out_backprop"])
