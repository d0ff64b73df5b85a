"""Random programs of ops whose sizes depend on data: jit, vmap and derivatives against TensorFlow."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.testing.bounded_sizes import check_bounded_sizes

_NUM_STEPS = 6
_INPUTS = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)
_INPUTS[1], _INPUTS[2] = -1 - abs(_INPUTS[1]), 1 + abs(_INPUTS[2])  # no element is kept, or all are


def _labels(x):
  return tf.cast(tf.abs(x) * 2.0, tf.int32) % 4


def _in_parts(x):
  places, parts = (tf.dynamic_partition(y, _labels(x) % 2, 2) for y in (tf.range(tf.size(x)), x))
  return tf.dynamic_stitch(places, [parts[0] * 2.0, parts[1] + 1.0])


# Functions of two vectors.
_STEPS = (
  lambda x, y: tf.boolean_mask(x, x > 0.4),
  lambda x, y: tf.boolean_mask(x, x > tf.reduce_mean(tf.concat([y, [0.1]], 0))),
  lambda x, y: tf.gather(tf.concat([x, [0.5]], 0), tf.minimum(_labels(y), tf.size(x))),
  lambda x, y: tf.concat([x, y], 0),
  lambda x, y: x * tf.reduce_sum(y) - tf.reduce_prod(tf.tanh(y)) + tf.reduce_logsumexp(tf.concat([y, [0.0]], 0)),
  lambda x, y: x - tf.reduce_max(tf.concat([y, [0.3]], 0)),
  lambda x, y: tf.sort(x),
  lambda x, y: tf.math.top_k(x, tf.minimum(3, tf.size(x))).values,
  lambda x, y: tf.cumsum(tf.tanh(x), exclusive=True),
  lambda x, y: tf.cumsum(x, reverse=True),
  lambda x, y: tf.math.unsorted_segment_sum(x, _labels(x), 4),
  lambda x, y: tf.roll(x, 1, 0)[::2],
  lambda x, y: x[::-1][1:],
  lambda x, y: tf.reduce_sum(tf.exp(-tf.square(x[:, tf.newaxis] - y)), 1),
  lambda x, y: tf.nn.softmax(x),
  lambda x, y: tf.pad(x[:5], [[1, 6 - tf.size(x[:5])]], constant_values=0.7),
  lambda x, y: tf.cast(tf.unique(_labels(x)).y, tf.float32) * 0.3,
  lambda x, y: tf.cast(tf.math.bincount(_labels(x), minlength=4, maxlength=4), tf.float32),
  lambda x, y: tf.where(x > 0.2, 1.0 / x, tf.math.log(1.5 - tf.minimum(x, 0.2))),
  lambda x, y: tf.cond(tf.reduce_sum(x) > 0.5, lambda: x * 2.0, lambda: tf.concat([x, x[:1]], 0)),
  lambda x, y: _in_parts(x),
)


def _program(seed):
  """Returns a function of a vector that applies random steps, each to results of earlier ones."""

  def run(x):
    rng = np.random.default_rng(seed)
    vectors = [x, tf.boolean_mask(x, x > 0.0)]
    for _ in range(_NUM_STEPS):
      first, second = (vectors[-1 - min(rng.geometric(0.6) - 1, len(vectors) - 1)] for _ in range(2))
      vectors.append(tf.clip_by_value(_STEPS[rng.integers(len(_STEPS))](first, second), -9.0, 9.0))
    return *vectors[2:], tf.add_n([tf.reduce_sum(vector) for vector in vectors])

  return tf.function(run, autograph=False)


@pytest.mark.slow  # The only programs in which padding passes through many ops, one after the other.
@pytest.mark.parametrize("seed", range(5))
def test_random_programs_are_tensorflows(seed):
  function = _program(seed)
  assert check_bounded_sizes(function, *[(x,) for x in _INPUTS]) == len(_INPUTS)
  fn, params = gc.convert(function, _INPUTS[0])
  batch = jax.jit(jax.vmap(lambda x: fn(params, x)[0]))(_INPUTS)
  gradients = jax.jit(jax.vmap(jax.grad(lambda x: fn(params, x)[0][-1])))(_INPUTS)
  for i, x in enumerate(_INPUTS):
    variable = tf.constant(x)
    with tf.GradientTape() as tape:
      tape.watch(variable)
      expected = function(variable)
    for result, value in zip(batch, expected, strict=True):
      np.testing.assert_allclose(jax.tree.map(lambda leaf, i=i: leaf[i], result), value, rtol=1e-4, atol=1e-4)
    try:
      gradient = tf.convert_to_tensor(tape.gradient(expected[-1], variable))
    except tf.errors.InvalidArgumentError:
      continue  # TensorFlow does not differentiate sorting no elements
    np.testing.assert_allclose(gradients[i], gradient, rtol=1e-3, atol=1e-3)
