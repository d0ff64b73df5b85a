"""XLA's random bits against TensorFlow's bridge to XLA."""

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.tf2xla.random_bits import xla_rng_bit_generator


@pytest.mark.parametrize(("algorithm", "state"), [(2, [2**40 + 3, 7]), (1, [2**40 + 3, 2**64 - 2, 9])])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_bits_and_the_state_after(algorithm, state, dtype):
  import tensorflow as tf
  from tensorflow.compiler.tf2xla.ops import gen_xla_ops

  state = np.array(state, np.uint64)

  @tf.function(jit_compile=True)
  def draw():
    return gen_xla_ops.xla_rng_bit_generator(algorithm=algorithm, initial_state=state, shape=[9], dtype=dtype)

  want_state, want = (x.numpy() for x in draw())
  with jax.enable_x64(True):
    got_state, got = xla_rng_bit_generator(algorithm, state, (9,), dtype=np.dtype(dtype))
  np.testing.assert_array_equal(got, want, strict=True)
  np.testing.assert_array_equal(got_state, want_state)


def test_other_algorithms_raise():
  with pytest.raises(InvalidInputError, match="algorithm 5"):
    xla_rng_bit_generator(5, np.zeros(2, np.uint64), (3,), dtype=np.dtype(np.uint32))
