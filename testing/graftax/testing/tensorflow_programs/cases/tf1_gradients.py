"""TensorFlow 1 graphs with gradients of Switch, Merge and while frames, which use stacks and gradient TensorArrays.

A function of inputs is a loss; the program is its derivative with respect to the first input.
"""

from graftax.testing.harness.conversion_case import Collector, integers, normal
from graftax.testing.tensorflow_programs.cases.tf1_control_flow import Cell, imported


def _gradient(tf, loss, inputs):
  """Returns a function that computes the derivative of a loss."""
  return imported(tf, lambda *xs: tf.compat.v1.gradients(loss(tf, *xs), xs[0])[0], inputs)


define = Collector("tf1_gradients", _gradient)

_ALL = ("value", "jit", "vmap")
_X = normal(4, 3)
_SEQUENCES = normal(2, 5, 3)
_LENGTHS = integers(2, low=1, high=6)


def _cell(tf, seed=1):
  return Cell(tf, tf.constant(normal(3, 3, seed=seed)))


@define(_X, checks=_ALL)
def gradient_of_a_loop(tf, x):
  loop = tf.compat.v1.while_loop
  return tf.reduce_sum(loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.sin(y) * x), [0, x])[1])


@define(_X, integers(low=1, high=5), checks=_ALL)
def gradient_of_a_loop_with_a_traced_bound(tf, x, n):
  loop = tf.compat.v1.while_loop
  bounded = loop(lambda i, y: i < n, lambda i, y: [i + 1, tf.sin(y) * x], [0, x], maximum_iterations=6)
  return tf.reduce_sum(bounded[1])


@define(_X, checks=_ALL)
def gradient_of_a_case(tf, x):
  total = tf.reduce_sum(x)
  pairs = [(total > 3.0, lambda: x * x), (total > -1.0, lambda: tf.sin(x))]
  return tf.reduce_sum(tf.compat.v1.case(pairs, default=lambda: tf.exp(x)))


@define(_X, checks=_ALL)
def gradient_of_conds_in_a_loop(tf, x):
  loop, cond = tf.compat.v1.while_loop, tf.compat.v1.cond

  def body(i, y):
    inner = lambda: cond(tf.equal(i % 2, 0), lambda: tf.sin(y) * x, lambda: tf.tanh(y) * y)  # noqa: E731
    return i + 1, cond(tf.reduce_sum(y) > 0.0, inner, lambda: tf.exp(-y))

  return tf.reduce_sum(loop(lambda i, y: i < 4, body, [0, x])[1])


@define(_X, checks=_ALL)
def gradient_of_a_loop_in_a_loop(tf, x):
  loop = tf.compat.v1.while_loop

  def body(i, y):
    return i + 1, loop(lambda j, z: j < i, lambda j, z: (j + 1, tf.sin(z) * x), [0, y])[1]

  return tf.reduce_sum(loop(lambda i, y: i < 4, body, [0, x])[1])


@define(_X, checks=_ALL)
def gradient_of_a_loop_in_a_cond(tf, x):
  loop = tf.compat.v1.while_loop
  branch = lambda: loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) * x), [0, x])[1]  # noqa: E731
  return tf.reduce_sum(tf.compat.v1.cond(tf.reduce_sum(x) > 0.0, branch, lambda: tf.cos(x)))


@define(_X, checks=_ALL)
def gradient_of_arrays_read_twice(tf, x):
  loop = tf.compat.v1.while_loop
  rows = tf.TensorArray(tf.float32, size=4, clear_after_read=False).unstack(x)
  out = tf.TensorArray(tf.float32, size=4)
  body = lambda i, a: (i + 1, a.write(i, rows.read(i) * tf.sin(rows.read(3 - i))))  # noqa: E731
  return tf.reduce_sum(loop(lambda i, a: i < 4, body, [0, out])[1].stack() * x)


@define(_X, checks=_ALL)
def gradient_of_a_growing_array(tf, x):
  loop, cond = tf.compat.v1.while_loop, tf.compat.v1.cond

  def body(i, a):
    factor = cond(i > 0, lambda: tf.reduce_sum(x[i - 1]), lambda: 1.0)
    return i + 1, a.write(i, tf.sin(x[i]) * factor)

  array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
  _, array = loop(lambda i, a: i < 4, body, [0, array])
  return tf.reduce_sum(array.stack() ** 2) + tf.reduce_sum(array.read(1))


@define(_X, checks=_ALL)
def gradient_of_map_fn_scan_and_foldl(tf, x):
  v1 = tf.compat.v1
  rows = v1.map_fn(lambda r: tf.sin(r) * r, x)
  return tf.reduce_sum(v1.scan(lambda a, r: tf.tanh(a + r) * r, rows)) + tf.reduce_sum(
    v1.foldl(lambda a, r: tf.tanh(a + r) * r, x)
  )


@define(_X, checks=_ALL)
def gradient_of_gather_scatter_split_and_concat(tf, x):
  y = tf.compat.v1.cond(tf.reduce_sum(x) > -1e9, lambda: x, lambda: -x)
  pieces = tf.TensorArray(tf.float32, size=4, clear_after_read=False, infer_shape=False)
  pieces = pieces.split(tf.reshape(y, [12]), [3, 3, 3, 3])
  gathered = pieces.gather([0, 2, 2]) * tf.constant([[1.0], [2.0], [3.0]])
  scattered = tf.TensorArray(tf.float32, size=4).scatter([3, 1, 0, 2], y * 2.0).stack()
  return tf.reduce_sum(gathered) + tf.reduce_sum(pieces.concat() ** 2) + tf.reduce_sum(scattered**3)


@define(_X, checks=_ALL)
def gradient_of_elements_that_nobody_reads(tf, x):
  y = tf.compat.v1.cond(tf.reduce_sum(x) > -1e9, lambda: x, lambda: -x)
  array = tf.TensorArray(tf.float32, size=6, clear_after_read=False, element_shape=[3])
  array = array.write(0, y[0]).write(2, y[1] * y[2]).write(5, y[3])
  return tf.reduce_sum(array.read(2) ** 2) + tf.reduce_sum(array.read(0))


@define(_X, checks=_ALL)
def two_gradients_of_one_array(tf):
  v1 = tf.compat.v1

  def build(x):
    rows = tf.TensorArray(tf.float32, size=4, clear_after_read=False).unstack(x)
    y = v1.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a + rows.read(i) ** 2), [0, tf.zeros([3])])[1]
    z = v1.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * rows.read(i)), [0, tf.ones([3])])[1]
    return v1.gradients(tf.reduce_sum(y), x)[0] + 10.0 * v1.gradients(tf.reduce_sum(z), x)[0]

  return imported(tf, build, [_X])


@define(_SEQUENCES, _LENGTHS, checks=_ALL)
def gradient_of_dynamic_rnn(tf, x, lengths):
  outputs, state = tf.compat.v1.nn.dynamic_rnn(_cell(tf), x, sequence_length=lengths, dtype=tf.float32)
  return tf.reduce_sum(outputs**2) + tf.reduce_sum(state)


@define(_SEQUENCES, checks=_ALL)
def gradient_of_the_last_state_alone(tf, x):
  _, state = tf.compat.v1.nn.dynamic_rnn(_cell(tf), x, dtype=tf.float32)
  return tf.reduce_sum(state)


@define(_SEQUENCES, _LENGTHS, checks=_ALL)
def gradient_of_a_bidirectional_rnn(tf, x, lengths):
  rnn = tf.compat.v1.nn.bidirectional_dynamic_rnn
  outputs, (s, t) = rnn(_cell(tf), _cell(tf, 2), x, sequence_length=lengths, dtype=tf.float32)
  return tf.reduce_sum(tf.concat(outputs, -1) ** 2) + tf.reduce_sum(s * t)
