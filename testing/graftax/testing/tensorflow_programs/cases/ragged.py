"""Ragged tensors whose row lengths are known while tracing."""

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("ragged")

_X = normal(6, 3)


@define(_X, checks=("value", "jit", "grad"))
def reductions_over_rows(tf, x):
  rows = tf.RaggedTensor.from_row_lengths(x, tf.constant([2, 0, 3, 1]))
  return tf.reduce_sum(rows, 1), tf.reduce_mean(rows[:1], 1), rows.row_lengths()


@define(_X, checks=("value", "jit", "grad"))
def to_dense(tf, x):
  return tf.RaggedTensor.from_row_splits(x, [0, 1, 4, 6]).to_tensor(default_value=-1.0, shape=[3, 3, 3])


@define(_X, checks=("value", "jit", "grad"))
def elementwise_and_back(tf, x):
  rows = tf.RaggedTensor.from_row_lengths(x, [1, 5])
  return tf.ragged.map_flat_values(tf.sin, rows * 2.0).flat_values


@define(_X, checks=("value", "jit"))
def lookup_by_rows(tf):
  ids = tf.ragged.constant([[0, 2], [5], [1, 1, 3]])
  return lambda x: tf.reduce_sum(tf.nn.embedding_lookup(x, ids), 1)


@define(_X, checks=("value", "jit"))
def row_partitions(tf, x):
  rows = tf.RaggedTensor.from_value_rowids(x, [0, 0, 1, 3, 3, 3], nrows=4)
  return rows.row_splits, rows.bounding_shape(), tf.concat([rows, rows], 0).to_tensor()
