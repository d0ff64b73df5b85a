"""Functions that compute with the shapes of their arguments."""

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("shapes_dynamic")

_OPEN = ("value", "jit", "batch", "export")
_ALL = (*_OPEN, "grad", "vmap")
_X = normal(4, 6)


@define(_X, checks=_ALL)
def reshape_by_shape(tf, x):
  n = tf.shape(x)[0]
  return tf.reshape(tf.reshape(x, [n, 2, 3]), [n * 2, -1])


@define(_X, checks=_ALL)
def flatten_and_tile(tf, x):
  return tf.tile(tf.reshape(x, [-1, 1]), [1, tf.shape(x)[0]])


@define(_X, checks=_ALL)
def mean_over_the_batch(tf, x):
  return tf.reduce_sum(x, 0) / tf.cast(tf.shape(x)[0], tf.float32) + tf.cast(tf.size(x), tf.float32)


@define(_X, checks=_ALL)
def positions(tf, x):
  n = tf.shape(x)[0]
  return x + tf.cast(tf.range(n), tf.float32)[:, None] * tf.linspace(0.0, 1.0, 6)


@define(_X, checks=_ALL)
def causal_mask(tf, x):
  n = tf.shape(x)[0]
  mask = tf.linalg.band_part(tf.ones([n, n]), -1, 0)
  return (mask @ x) / tf.reduce_sum(mask, 1, keepdims=True)


@define(_X, checks=_ALL)
def broadcast_and_concat(tf):
  token = tf.constant(normal(1, 6, seed=1))

  def f(x):
    return tf.concat([tf.broadcast_to(token, tf.shape(x)), x, tf.zeros([tf.shape(x)[0], 6])], axis=1)

  return f


@define(_X, checks=_ALL)
def padding_to_a_multiple(tf, x):
  width = tf.shape(x)[1]
  missing = (4 - width % 4) % 4
  return tf.pad(x, tf.stack([[0, 0], tf.stack([0, missing])]))


@define(_X, checks=_ALL)
def slices_from_the_end(tf, x):
  return (
    x[:, -2:],
    x[:, ::-1],
    x[:, ::2] * x[:, 1::2],
    x[-1],
    x[:, None, ..., 0],
    tf.slice(x, [0, 1], [-1, 3]),
  )


@define(_X, checks=_ALL)
def split_stack_unstack(tf, x):
  a, b, c = tf.split(x, [1, 2, 3], axis=1)
  return tf.concat([c, a, b], 1), tf.stack(tf.unstack(x, axis=1)[::-1], axis=1), tf.transpose(x)


@define(normal(2, 3, 4), checks=("value", "jit", "grad", "vmap", "batch"))
def flatten_leading_axes(tf):
  w = tf.constant(normal(4, 5, seed=1))

  def f(x):
    shape = tf.shape(x)
    y = tf.reshape(x, [-1, shape[-1]]) @ w
    return tf.reshape(y, tf.concat([shape[:-1], [5]], 0))

  return f


@define(_X, checks=("value", "jit", "vmap"))
def rank_and_broadcast_shapes(tf, x):
  shape = tf.broadcast_dynamic_shape(tf.shape(x), tf.constant([2, 1, 6]))
  return tf.ones(shape) * x, tf.rank(x), tf.reduce_prod(tf.shape(x))


@define(_X, integers(low=1, high=4), checks=("value", "jit"))
def rolling_by_data(tf, x, n):
  return tf.roll(x, n, 0), tf.one_hot(n, 5), tf.sequence_mask(n, 6)


@define(_X, checks=("value", "jit", "batch"))
def sizes_of_nothing(tf, x):
  empty = x[:, :0]
  return tf.reduce_sum(empty, 1), tf.concat([empty, x], 1), tf.reduce_max(tf.concat([empty, x[:, :1]], 1), 1)


@define(np.arange(24, dtype=np.int32).reshape(4, 6), checks=("value", "jit", "vmap", "batch"))
def integer_arithmetic(tf, x):
  return (
    x // 5,
    x % 7,
    -x // 4,
    tf.bitwise.bitwise_xor(x, 5),
    tf.cast(x, tf.float32) / 3.0,
    tf.math.floormod(-x, 5),
  )
