import jax
import numpy as np
import pytest

from graftax.ops_jax._core.result_sizes import _key


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.bool_])
def test_large_integers_are_told_apart_by_shape_and_small_ones_by_value(dtype):
  zeros, ones = np.zeros((100, 100), dtype), np.ones((100, 100), dtype)
  none = frozenset()
  assert _key([zeros], none) == _key([ones], none) is not None
  assert _key([zeros], none) != _key([zeros[1:]], none)
  assert _key([zeros[0, :2]], none) != _key([ones[0, :2]], none)
  assert _key([zeros[0, :2]], none) == _key([zeros[1, :2]], none)
  assert _key([jax.numpy.asarray(zeros)], none) is not None
