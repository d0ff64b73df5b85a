"""Networks on graphs, whose edges are lists of nodes."""

from graftax.testing.harness.conversion_case import Collector, integers, normal
from graftax.testing.tensorflow_programs.layers import with_layers

define = Collector("graphs", with_layers)

_CHECKS = ("jit", "grad", "param_grad")
_LOOSE = (1e-4, 1e-5)
_NODES = normal(7, 5)
_EDGES = integers(12, 2, high=7)


@define(_NODES, _EDGES, checks=_CHECKS, tolerance=_LOOSE)
def message_passing(tf, layers, x, edges):
  for i in range(2):
    pairs = tf.concat([tf.gather(x, edges[:, 0]), tf.gather(x, edges[:, 1])], -1)
    messages = layers.dense(f"message{i}", pairs, 8, tf.nn.relu)
    x = layers.dense(f"update{i}", tf.concat([x, tf.math.unsorted_segment_sum(messages, edges[:, 1], 7)], -1), 5)
  return x, tf.reduce_max(x, 0)


@define(_NODES, _EDGES, checks=_CHECKS, tolerance=_LOOSE)
def graph_attention(tf, layers, x, edges):
  values = layers.dense("values", x, 6)
  logits = layers.dense("a", tf.gather(values, edges[:, 0]), 1) + layers.dense("b", tf.gather(values, edges[:, 1]), 1)
  logits = tf.nn.leaky_relu(logits, 0.2)
  largest = tf.math.unsorted_segment_max(logits, edges[:, 1], 7)
  weights = tf.exp(logits - tf.gather(largest, edges[:, 1]))
  total = tf.math.unsorted_segment_sum(weights, edges[:, 1], 7)
  mixed = tf.math.unsorted_segment_sum(weights * tf.gather(values, edges[:, 0]), edges[:, 1], 7)
  return tf.nn.elu(tf.math.divide_no_nan(mixed, total))


@define(_NODES, _EDGES, checks=_CHECKS, tolerance=_LOOSE)
def graph_convolution_with_a_sparse_matrix(tf, layers, x, edges):
  degrees = tf.math.unsorted_segment_sum(tf.ones([12]), edges[:, 0], 7)
  values = tf.math.divide_no_nan(1.0, tf.gather(degrees, edges[:, 0]))
  matrix = tf.SparseTensor(tf.cast(edges, tf.int64), values, [7, 7])
  x = tf.nn.relu(layers.dense("one", tf.sparse.sparse_dense_matmul(matrix, x), 8))
  return layers.dense("two", tf.sparse.sparse_dense_matmul(matrix, x), 3)


@define(_NODES, integers(7, high=3), checks=_CHECKS, tolerance=_LOOSE)
def readout_of_several_graphs(tf, layers, x, graph):
  graph = tf.sort(graph)
  parts = [f(x, graph, 3) for f in (tf.math.unsorted_segment_mean, tf.math.unsorted_segment_sqrt_n)]
  return layers.dense("out", tf.concat(parts, -1), 2)
