"""TensorFlow 1 graphs with Switch, Merge, Enter and Exit, imported into a function."""

import functools

from graftax.testing.harness.conversion_case import Collector, integers, normal


def imported(tf, build, inputs):
  """Returns a function of arguments like these inputs (or specs) whose body is the TF1 graph of `build`."""
  v1 = tf.compat.v1
  was_v2 = v1.control_flow_v2_enabled()
  v1.disable_control_flow_v2()
  try:
    with tf.Graph().as_default() as graph:
      fed = [v1.placeholder(x.dtype, x.shape, name=f"x{i}") for i, x in enumerate(inputs)]
      tf.identity(build(*fed), name="y")
  finally:
    if was_v2:
      v1.enable_control_flow_v2()
  definition = graph.as_graph_def()
  assert any(node.op in ("Merge", "RefMerge") for node in definition.node), "the graph has no TF1 control flow"

  def run(*args):
    return v1.import_graph_def(definition, {f"x{i}:0": x for i, x in enumerate(args)}, ["y:0"])[0]

  wrapped = v1.wrap_function(run, [tf.TensorSpec(x.shape, x.dtype) for x in inputs])
  return tf.function(lambda *args: wrapped(*args), autograph=False)


class Cell:
  """A recurrent cell with the interface of TF1's RNN functions; Keras 3 removed TF1's own cells.

  If its weights are an array, they are a constant in the body of the loop.
  """

  output_size = 3
  state_size = 3

  def __init__(self, tf, weights):
    self._tf = tf
    self._weights = weights

  def __call__(self, inputs, state, scope=None):
    new = self._tf.tanh(inputs @ self._weights + state)
    return new * 2.0, new

  def zero_state(self, batch_size, dtype):
    return self._tf.zeros([batch_size, 3], dtype)


define = Collector(
  "tf1_control_flow", lambda tf, function, inputs: imported(tf, functools.partial(function, tf), inputs)
)

_ALL = ("value", "jit", "vmap")
_X = normal(4, 3)


@define(_X, checks=_ALL)
def v1_cond(tf, x):
  cond = tf.compat.v1.cond
  return cond(tf.reduce_sum(x) > 0.5, lambda: tf.sin(x), lambda: x * 2.0)


@define(_X, checks=_ALL)
def v1_nested_conds(tf, x):
  cond = tf.compat.v1.cond
  inner = lambda: cond(x[0, 0] > 0.0, lambda: tf.exp(x), lambda: tf.cos(x))  # noqa: E731
  return cond(x[1, 1] > 0.1, inner, lambda: x * 3.0)


@define(_X, checks=_ALL)
def v1_while(tf, x):
  loop = tf.compat.v1.while_loop
  return loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.sin(y) + x), [0, x])[1]


@define(_X, integers(low=1, high=5), checks=_ALL)
def v1_while_with_traced_bound(tf, x, n):
  loop = tf.compat.v1.while_loop
  return loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5), [0, x])[1]


@define(_X, checks=_ALL)
def v1_nested_while_and_cond(tf, x):
  loop, cond = tf.compat.v1.while_loop, tf.compat.v1.cond

  def outer(i, total):
    total = loop(lambda j, t: j < i, lambda j, t: (j + 1, t + x[j]), [0, total])[1]
    return i + 1, cond(tf.equal(i % 2, 0), lambda: total * 2.0, lambda: total - x[0])

  return loop(lambda i, t: i < 4, outer, [0, tf.zeros([3])])[1]


@define(_X, checks=_ALL)
def v1_case(tf, x):
  total = tf.reduce_sum(x)
  pairs = [(total > 3.0, lambda: x), (total > -1.0, lambda: x * 2.0)]
  return tf.compat.v1.case(pairs, default=lambda: x * 3.0)


@define(_X, checks=_ALL)
def v1_tensor_arrays(tf, x):
  loop = tf.compat.v1.while_loop
  rows = tf.TensorArray(tf.float32, size=4).unstack(x)
  out = tf.TensorArray(tf.float32, size=4)
  _, out = loop(
    lambda i, a: i < 4, lambda i, a: (i + 1, a.write(3 - i, rows.read(i) * tf.cast(i, tf.float32))), [0, out]
  )
  return out.stack()


@define(_X, checks=_ALL)
def v1_map_fn_and_scan(tf, x):
  v1 = tf.compat.v1
  return v1.scan(lambda a, row: tf.tanh(a + row), v1.map_fn(lambda row: tf.reduce_sum(row) * row, x))


@define(normal(2, 5, 3), integers(2, low=1, high=6), checks=_ALL)
def v1_dynamic_rnn(tf, x, lengths):
  cell = Cell(tf, normal(3, 3, seed=1))
  outputs, state = tf.compat.v1.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
  return outputs + state[:, None]


@define(normal(5, 2, 3), checks=_ALL)
def v1_raw_rnn(tf, x):
  rows = tf.TensorArray(tf.float32, size=5).unstack(x)

  def loop_fn(time, output, state, loop_state):
    finished = time >= tf.constant([5, 3])
    following = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([2, 3]), lambda: rows.read(time))
    return (finished, following, *((tf.zeros([2, 3]), tf.zeros([3])) if output is None else (state, output)), None)

  outputs, state, _ = tf.compat.v1.nn.raw_rnn(Cell(tf, normal(3, 3, seed=1)), loop_fn)
  return outputs.stack() + state


@define(_X, checks=_ALL)
def v1_loop_in_a_cond_in_a_loop(tf, x):
  loop, cond = tf.compat.v1.while_loop, tf.compat.v1.cond

  def body(i, y):
    inner = lambda: loop(lambda j, z: j < 2, lambda j, z: (j + 1, z * 0.5 + x), [0, y])[1]  # noqa: E731
    return i + 1, cond(tf.equal(i % 2, 0), inner, lambda: tf.cos(y))

  return loop(lambda i, y: i < 5, body, [0, x])[1]


@define(_X, checks=(*_ALL, "grad"))
def v1_switch_and_the_index_of_its_merge(tf, x):
  off, on = tf.raw_ops.Switch(data=x, pred=tf.reduce_sum(x) > 0.0)
  merged = tf.raw_ops.Merge(inputs=[tf.sin(off), tf.cos(on)])
  return merged.output * tf.cast(merged.value_index + 1, tf.float32)


@define(_X, checks=(*_ALL, "grad"))
def v1_constants_and_control_dependencies_in_branches(tf, x):
  cond = tf.compat.v1.cond

  def with_dependency():
    with tf.control_dependencies([tf.sin(x)]):
      return tf.identity(x) * 2.0

  def with_assertion():
    with tf.control_dependencies([tf.debugging.assert_less(x[0, 0], 1e9)]):
      return tf.constant(1.0) * x

  chosen = cond(tf.reduce_sum(x) > 0.0, with_dependency, with_assertion)
  known = cond(tf.constant(True), lambda: x + 1.0, lambda: x - 1.0)
  return chosen + known + cond(x[0, 0] > 0.0, lambda: tf.constant(2.0), lambda: tf.constant(3.0))


@define(_X, checks=_ALL)
def v1_loop_with_shape_invariants_and_two_conditions(tf, x):
  open_shape = tf.TensorShape([None, None])
  return tf.compat.v1.while_loop(
    lambda i, y, z: tf.logical_and(i < 5, tf.reduce_sum(z) < 50.0),
    lambda i, y, z: (i + 2, z, y + x),
    [tf.constant(0), x, tf.abs(x)],
    shape_invariants=[tf.TensorShape([]), open_shape, open_shape],
    parallel_iterations=1,
  )[2]


@define(_X, checks=_ALL)
def v1_growing_arrays_of_two_types(tf, x):
  rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
  squares = tf.TensorArray(tf.int32, size=4)
  body = lambda i, a, b: (i + 1, a.write(i, x[i] * 2.0), b.write(i, i * i))  # noqa: E731
  _, rows, squares = tf.compat.v1.while_loop(lambda i, a, b: i < 4, body, [0, rows, squares])
  total = tf.cast(tf.reduce_sum(squares.stack()), tf.float32)
  return rows.concat()[None] * total + rows.read(2)[0] + tf.cast(rows.size(), tf.float32)
