"""XlaDequantize against what XLA returned in TensorFlow 2.21."""

import jax
import numpy as np
import pytest

from graftax.ops_jax import UnsupportedAttrError
from graftax.ops_jax.tf2xla.dequantize import xla_dequantize

_X = np.array([[0x01020304, 0xF0E0D0C0], [0xFFFFFFFF, 0x80000000]], np.uint32)
_EXPECTED = {
  (0.0, 10.0): [
    [0.03930664, 0.07861328, 0.11816406, 0.15722656, 9.4375, 8.8125, 8.1875, 7.5625],
    [10.0, 10.0, 10.0, 10.0, 5.03125, 0.0, 0.0, 0.0],
  ],
  (-3.7, 10.3): [
    [-3.640625, -3.59375, -3.53125, -3.484375, 9.5, 8.625, 7.75, 6.875],
    [10.3125, 10.3125, 10.3125, 10.3125, 3.328125, -3.703125, -3.703125, -3.703125],
  ],
}


@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
@pytest.mark.parametrize("limits", _EXPECTED)
def test_bytes_are_unpacked_in_bfloat16_as_in_xla(limits, run):
  low, high = limits
  for transposed in (False, True):
    attrs = {"min_range": low, "max_range": high, "mode": "MIN_COMBINED", "transpose_output": transposed}
    found = np.asarray(run(lambda x, attrs=attrs: xla_dequantize(x, **attrs))(_X), np.float32)
    np.testing.assert_allclose(found.T if transposed else found, _EXPECTED[limits], rtol=1e-6)


def test_other_modes_are_refused_as_in_xla():
  with pytest.raises(UnsupportedAttrError, match="mode='MIN_FIRST'"):
    xla_dequantize(_X, min_range=0.0, max_range=1.0, mode="MIN_FIRST", transpose_output=False)
