"""Which operands go to a primitive, and that it gives what the function of `jax.numpy` does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.ops_jax._core.fast_dispatch import fast_dispatch

_X = jnp.arange(3.0)


@pytest.mark.parametrize(
  ("x", "y", "is_fast"),
  [
    (_X, _X, True),
    (_X, jnp.float32(1), False),
    (_X, jnp.arange(3), False),
    (_X, np.arange(3, dtype=np.float32), False),
    (np.arange(3, dtype=np.float32), _X, False),
    (_X, 2.0, False),
    (_X > 0, _X > 1, False),
    (jnp.bfloat16(1), jnp.bfloat16(2), True),
  ],
)
def test_arrays_of_one_shape_and_dtype_go_to_the_primitive(x, y, is_fast):
  called = []

  def primitive(x, y):
    called.append(True)
    return lax.add(x, y)

  add = fast_dispatch(primitive, jnp.add)
  expected = jnp.add(x, y)
  for call in (add, jax.jit(add)):
    found = call(x, y)
    assert (found.shape, found.dtype, found.weak_type) == (expected.shape, expected.dtype, expected.weak_type)
    np.testing.assert_array_equal(np.float32(found), np.float32(expected))
    if call is add:
      assert bool(called) == is_fast
