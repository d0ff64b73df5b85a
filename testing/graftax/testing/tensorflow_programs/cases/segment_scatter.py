"""Segment reductions, scatters, partitions."""

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("segment_scatter")

_ALL = ("value", "jit", "grad", "vmap")
_X = normal(6, 3)
_IDS = integers(6, high=4)


@define(_X, _IDS, checks=_ALL)
def unsorted_segments(tf, x, ids):
  reductions = tf.math.unsorted_segment_sum, tf.math.unsorted_segment_mean, tf.math.unsorted_segment_max
  return [reduce(x, ids, 4) for reduce in reductions]


@define(_X, checks=("value", "jit", "grad"))
def sorted_segments_with_known_ids(tf):
  ids = tf.constant([0, 0, 1, 1, 1, 3])
  return lambda x: [
    f(x, ids) for f in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max, tf.math.segment_prod)
  ]


@define(_X, _IDS, checks=_ALL)
def scatter_nd(tf, x, ids):
  return tf.scatter_nd(ids[:, None], x, [5, 3])


@define(_X, checks=_ALL)
def tensor_scatter(tf, x):
  indices = tf.constant([[1], [4]])
  y = tf.tensor_scatter_nd_update(x, indices, x[:2] * 10.0)
  y = tf.tensor_scatter_nd_add(y, indices, x[2:4])
  return tf.tensor_scatter_nd_max(y, indices, x[4:]), tf.tensor_scatter_nd_sub(y, indices, x[4:])


@define(_X, _IDS, checks=_ALL)
def message_passing(tf):
  senders, receivers = tf.constant([0, 1, 2, 3, 4, 5, 0, 2]), tf.constant([1, 2, 3, 4, 5, 0, 3, 5])

  def f(x, kinds):
    messages = tf.tanh(tf.gather(x, senders) - tf.gather(x, receivers))
    x = x + tf.math.unsorted_segment_sum(messages, receivers, 6)
    return tf.math.unsorted_segment_mean(x, kinds, 4)

  return f


@define(_X, checks=("value", "jit", "grad"))
def stitched(tf, x):
  first, second = tf.constant([0, 2, 4]), tf.constant([1, 3, 5])
  return tf.dynamic_stitch([first, second], [x[:3] * 2.0, x[3:]])


@define(_X, checks=("value", "jit", "grad"))
def sparse_products(tf):
  sparse = tf.sparse.SparseTensor([[0, 1], [1, 3], [2, 0], [3, 5]], [1.0, -2.0, 0.5, 3.0], [4, 6])
  return lambda x: (tf.sparse.sparse_dense_matmul(sparse, x), tf.sparse.to_dense(sparse) @ x)


@define(_X, checks=("value", "jit", "grad"))
def boolean_mask_with_known_mask(tf, x):
  return tf.boolean_mask(x, [True, False, True, True, False, True]) * 2.0


@define(_X, _IDS, checks=("value", "jit", "grad", "vmap"))
def softmax_by_segment(tf, x, ids):
  largest = tf.gather(tf.math.unsorted_segment_max(x, ids, 4), ids)
  e = tf.exp(x - largest)
  return e / tf.gather(tf.math.unsorted_segment_sum(e, ids, 4), ids)
