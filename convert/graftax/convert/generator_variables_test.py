"""Generators of converted functions through `jit` with 64-bit types off: numbers and states are TensorFlow's."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import convert
from graftax.ops_jax import Int64Pair, InvalidInputError

# A counter that is about to pass from its low to its high half, and a key of 64 bits.
_STATE = np.array([2**63 - 5, 3, -(2**62) + 12345])


class _Model(tf.Module):
  def __init__(self):
    super().__init__()
    self.generator = tf.random.Generator.from_state(_STATE, "philox")
    self.count = tf.Variable(np.array([1, 2, 3]))

  def straight(self, x):
    self.count.assign_add([1, 1, 1])
    return x * self.generator.uniform([4])

  def in_a_loop(self, x):
    for _ in tf.range(tf.cast(x[0], tf.int32)):
      x = x + self.generator.uniform([4])
    return x

  def in_a_branch(self, x):
    if x[0] > 0:
      x = x + self.generator.uniform([4])
    return x

  def keys(self, x):
    return x + tf.random.stateless_uniform([4], self.generator.make_seeds(2)[:, 1])

  def reset(self, x):
    self.generator.reset_from_seed(tf.cast(x[0], tf.int64))
    return x + self.generator.uniform([4])


@pytest.mark.parametrize("name", ["straight", "in_a_loop", "in_a_branch", "keys", "reset"])
def test_numbers_and_states_under_jit(name):
  model = _Model()
  x = np.array([3, 1, 2, 4], np.float32)
  function = tf.function(getattr(model, name))
  with jax.enable_x64(False):
    converted, params = convert(function, x)
    (state_name,) = [key for key, value in params.items() if isinstance(value, Int64Pair)]
    call = jax.jit(converted)
    for _ in range(2):
      got, params = call(params, x)
      np.testing.assert_allclose(got, function(x).numpy(), rtol=1e-6)
      np.testing.assert_array_equal(np.asarray(params[state_name]), model.generator.state.numpy(), strict=True)


def test_a_state_in_numpy_is_exact_without_jit():
  model = _Model()
  x = np.array([3, 1, 2, 4], np.float32)
  function = tf.function(model.straight)
  with jax.enable_x64(False):
    converted, params = convert(function, x)
    params = {name: np.asarray(value) for name, value in params.items()}
    got, params = converted(params, x)
    np.testing.assert_array_equal(got, function(x).numpy())
    cut = {name: np.asarray(value) for name, value in params.items()}
    with pytest.raises(InvalidInputError, match=r"generator's state .* int32.*as_int64_pair"):
      jax.jit(converted)(cut, x)


def test_with_64_bit_types_a_state_is_an_ordinary_array():
  model = _Model()
  x = np.array([3, 1, 2, 4], np.float32)
  function = tf.function(model.straight)
  with jax.enable_x64(True):
    converted, params = convert(function, x)
    assert not any(isinstance(value, Int64Pair) for value in params.values())
    got, params = jax.jit(converted)(params, x)
  np.testing.assert_array_equal(got, function(x).numpy())
