"""TF1 control flow (Switch, Merge, Enter, Exit) against TensorFlow: values, `jit`, derivatives and assignments."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.grappler import tf_optimizer

import graftax.convert as gc
from graftax.convert.sources.graph_def import program_from_graph_def
from graftax.graphdef_ir import parse_graph
from graftax.graphdef_ir.errors import DeadBranchError

tf1 = tf.compat.v1

X = np.linspace(-1, 0.9, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def _control_flow_v1():
  tf1.disable_control_flow_v2()
  yield
  tf1.enable_control_flow_v2()


def _array_loop(x):
  array = tf.TensorArray(tf.float32, size=4)

  def body(i, a):
    return i + 1, a.write(i, x[i] * tf.cast(i, tf.float32))

  return tf1.while_loop(lambda i, a: i < 4, body, [0, array])[1].stack()


def _dynamic_array(x):
  array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
  _, array = tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, tf.sin(x[i]))), [0, array])
  return array.stack() + array.read(1) + tf.cast(array.size(), tf.float32)


def _split_and_concat(x):
  array = tf.TensorArray(tf.float32, size=2).split(x, [2, 2])
  _, squares = tf1.while_loop(
    lambda i, a: i < 2, lambda i, a: (i + 1, a.write(i, array.read(i) ** 2)), [0, tf.TensorArray(tf.float32, size=2)]
  )
  return squares.concat()


class _Cell:
  """A recurrent cell as `dynamic_rnn` wants it; Keras 3 has taken TF1's with it."""

  output_size = 2
  state_size = (2, 2)

  def zero_state(self, batch_size, dtype):
    return tf.zeros([batch_size, 2], dtype), tf.ones([batch_size, 2], dtype)

  def __call__(self, inputs, state, scope=None):
    h, c = state
    w = tf1.get_variable("w", [inputs.shape[-1], 2])
    c = tf.sigmoid(c) * tf.tanh(inputs @ w + h)
    return c, (c * 0.5, c + h)


def _rnn(x):
  with tf1.variable_scope("rnn", initializer=tf1.constant_initializer(0.3)):
    outputs, (h, c) = tf1.nn.dynamic_rnn(_Cell(), x[None], dtype=tf.float32)
  return tf.concat([outputs[0], h + c], 0)


def _nested_loops(x):
  def outer(i, total):
    _, total = tf1.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + x[j] * tf.cast(i, tf.float32)), [0, total])
    return i + 1, total * 1.5

  return tf1.while_loop(lambda i, t: i < 4, outer, [0, tf.zeros([3])])[1]


def _cond_in_loop(x):
  def body(i, y):
    return i + 1, tf1.cond(tf.equal(i % 2, 0), lambda: tf.sin(y) * x, lambda: y * tf.cast(i, tf.float32))

  return tf1.while_loop(lambda i, y: i < 4, body, [0, x])[1]


def _loop_in_cond(x):
  def loop():
    return tf1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x + 1.0])[1]

  return tf1.cond(tf.reduce_sum(x) > -1.0, loop, lambda: x * 3.0)


def _nested_conds(x):
  def inner():
    return tf1.cond(x[0, 0] > 0.0, lambda: tf.exp(x), lambda: tf.sin(x))

  return tf1.cond(tf.reduce_sum(x) > 0.0, inner, lambda: tf1.cond(x[0, 1] > -0.5, lambda: x, lambda: -x))


def _one_predicate_twice(x):
  p = tf.reduce_sum(x) > 0.0
  first = tf1.cond(p, lambda: tf.sin(x), lambda: tf.cos(x))
  second = tf1.cond(tf.reduce_max(first) > 0.5, lambda: first * 2.0, lambda: first)
  return tf1.cond(p, lambda: second * x, lambda: second + x)


def _case(x):
  total = tf.reduce_sum(x)
  return tf1.case([(total > 5.0, lambda: x), (total > 0.0, lambda: x * 2.0)], default=lambda: x * 3.0)


def _several_outputs(x):
  a, (b, c) = tf1.cond(tf.reduce_sum(x) > 0.0, lambda: (x, (x * 2.0, 1.0)), lambda: (-x, (x, 0.0)))
  return a + b * c


def _loop_in_cond_in_loop(x):
  def body(i, y):
    inner = lambda: tf1.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, z * 0.5 + x), [0, y])[1]  # noqa: E731
    return i + 1, tf1.cond(tf.equal(i % 2, 0), inner, lambda: tf.cos(y))

  return tf1.while_loop(lambda i, y: i < 5, body, [0, x])[1]


def _arrays_read_twice(x):
  rows = tf.TensorArray(tf.float32, size=4, clear_after_read=False).unstack(x)
  out = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
  _, out = tf1.while_loop(
    lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, rows.read(i) * tf.sin(rows.read(3 - i)))), [0, out]
  )
  return out.concat() + out.read(2)[0]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
  "cond": lambda x: tf1.cond(tf.reduce_sum(x) > 0.5, lambda: tf.sin(x), lambda: x * 2.0),
  "cond, several outputs": _several_outputs,
  "cond, nested": _nested_conds,
  "one predicate twice": _one_predicate_twice,
  "case": _case,
  "while": lambda x: tf1.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.sin(y) + x), [0, x])[1],
  "while, nested": _nested_loops,
  "cond in while": _cond_in_loop,
  "while in cond": _loop_in_cond,
  "while in cond in while": _loop_in_cond_in_loop,
  "array in loop": _array_loop,
  "dynamic array": _dynamic_array,
  "arrays read twice": _arrays_read_twice,
  "split and concat": _split_and_concat,
  "map_fn": lambda x: tf1.map_fn(lambda row: tf.reduce_sum(row) * row, x),
  "scan": lambda x: tf1.scan(lambda a, row: tf.tanh(a + row), x),
  "foldl": lambda x: tf1.foldl(lambda a, row: tf.sin(a + row), x),
  "dynamic_rnn": _rnn,
}


def _convert(graph, inputs, outputs, variables=None):
  return gc.convert_program(program_from_graph_def(parse_graph(graph), inputs, outputs, variables=variables))


def _run(build, x):
  """The graph of `build`, its result, its gradient in TensorFlow, and the values of its variables."""
  with tf.Graph().as_default() as graph:
    fed = tf1.placeholder(tf.float32, x.shape, name="x")
    y = tf.identity(build(fed), name="y")
    forward = graph.as_graph_def()
    ops = {node.op for node in forward.node}
    assert ops & {"Merge", "RefMerge"} and not ops & {"If", "StatelessIf", "While", "StatelessWhile"}
    (gradient,) = tf1.gradients(tf.reduce_sum(y * 1.5), [fed])
    with tf1.Session() as session:
      session.run(tf1.global_variables_initializer())
      variables = {v.op.name: session.run(v) for v in tf1.global_variables()}
      value, slope = session.run([y, gradient], {fed: x})
  return forward.SerializeToString(), value, slope, variables


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_equal_tensorflow_in_value_and_gradient(name):
  for x in (X, X + 0.5):
    graph, value, gradient, variables = _run(PROGRAMS[name], x)
    fn, params = _convert(graph, ["x:0"], "y:0", variables=variables)
    np.testing.assert_allclose(fn(params, x)[0], value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(fn)(params, x)[0], value, rtol=1e-5, atol=1e-6)
    slope = jax.jit(jax.grad(lambda x, fn=fn, params=params: (fn(params, x)[0] * 1.5).sum()))(x)
    np.testing.assert_allclose(slope, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["while", "cond", "cond, nested", "case"])
def test_gradients_in_the_graph_equal_tensorflow(name):
  build = PROGRAMS[name]

  def gradient(x):
    return tf1.gradients(tf.reduce_sum(build(x) * 1.5), [x])[0]

  with tf.Graph().as_default() as graph:
    fed = tf1.placeholder(tf.float32, X.shape, name="x")
    tf.identity(gradient(fed), name="y")
    with tf1.Session() as session:
      expected = session.run("y:0", {fed: X})
  fn, params = _convert(graph.as_graph_def().SerializeToString(), ["x:0"], "y:0")
  np.testing.assert_allclose(jax.jit(fn)(params, X)[0], expected, rtol=1e-4, atol=1e-5)


def _on_constants(x):
  """Conditionals on constants, one after the other and in each other, and in and around one that depends on data."""
  true, false = tf.constant(True), tf.constant(False)
  in_each_other = tf1.cond(true, lambda: tf1.cond(true, lambda: -x, lambda: x * 3), lambda: x - 1)
  in_a_branch = tf1.cond(
    x[0, 0] > 0,
    lambda: tf1.cond(tf.constant(True), lambda: tf.sin(x), lambda: x) * 2,
    lambda: tf1.cond(tf.constant(False), lambda: x, lambda: x - 4),
  )
  around = tf1.cond(false, lambda: tf1.cond(x[0, 0] > 0, lambda: x, lambda: x * 3), lambda: x + 7)
  return in_each_other + in_a_branch + around


@pytest.mark.parametrize("sign", [1, -1])
def test_conditionals_on_constants_that_grappler_has_folded_equal_tensorflow(sign):
  graph, value, _, _ = _run(_on_constants, X * sign)
  fn, params = _convert(_folded(graph, "y"), ["x:0"], "y:0")
  np.testing.assert_allclose(jax.jit(fn)(params, X * sign)[0], value, rtol=1e-6)


def _folded(graph, result):
  """Returns a graph after Grappler has folded constants: each Switch has its own copy of its predicate."""
  with tf.Graph().as_default() as imported:
    tf1.import_graph_def(tf1.GraphDef.FromString(graph), name="")
    meta_graph = tf1.train.export_meta_graph(graph=imported)
  meta_graph.collection_def["train_op"].node_list.value.append(result)
  config = tf1.ConfigProto()
  config.graph_options.rewrite_options.min_graph_nodes = -1
  config.graph_options.rewrite_options.optimizers.append("constfold")
  return tf_optimizer.OptimizeGraph(config, meta_graph).SerializeToString()


def test_a_loop_that_depends_on_data_runs_forward():
  def build(x):
    return tf1.while_loop(lambda y: tf.reduce_sum(y) < 100.0, lambda y: y * 2.0, [x])

  graph, value, _, _ = _run(build, X + 1)
  fn, params = _convert(graph, ["x:0"], "y:0")
  np.testing.assert_allclose(jax.jit(fn)(params, X + 1)[0], value)


def test_sequence_lengths_stop_a_recurrent_network():
  lengths = np.array([1, 3], np.int32)
  x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3)
  with tf.Graph().as_default() as graph:
    fed, fed_lengths = tf1.placeholder(tf.float32, x.shape, name="x"), tf1.placeholder(tf.int32, [2], name="n")
    with tf1.variable_scope("rnn", initializer=tf1.constant_initializer(0.3)):
      outputs, (h, c) = tf1.nn.dynamic_rnn(_Cell(), fed, sequence_length=fed_lengths, dtype=tf.float32)
    fetches = [outputs.name, h.name, c.name]
    with tf1.Session() as session:
      session.run(tf1.global_variables_initializer())
      variables = {v.op.name: session.run(v) for v in tf1.global_variables()}
      expected = session.run(fetches, {fed: x, fed_lengths: lengths})
  fn, params = _convert(graph.as_graph_def().SerializeToString(), ["x:0", "n:0"], fetches, variables=variables)
  for actual in (fn(params, x, lengths)[0], jax.jit(fn)(params, x, lengths)[0]):
    for a, b in zip(actual, expected, strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _assign_in_cond(x, v):
  with tf.control_dependencies(
    [tf1.cond(tf.reduce_sum(x) > 0, lambda: tf1.assign_add(v, x), lambda: tf1.assign(v, -x))]
  ):
    return v.read_value() * 2.0


def _assign_in_loop(x, v):
  def body(i, y):
    with tf.control_dependencies([tf1.assign_add(v, y)]):
      return i + 1, y * 2.0

  _, y = tf1.while_loop(lambda i, y: i < 3, body, [0, x], parallel_iterations=1)
  with tf.control_dependencies([y]):
    return v.read_value() + y


def _assign_in_cond_in_loop(x, v):
  def body(i, y):
    step = tf1.cond(i > 0, lambda: tf.identity(tf1.assign_add(v, y)), lambda: tf.identity(tf1.assign(v, x)))
    return i + 1, y + step

  return tf1.while_loop(lambda i, y: i < 3, body, [0, x], parallel_iterations=1)[1]


def _branch_without_result(x, v):
  done = tf1.cond(tf.reduce_sum(x) > 0, lambda: tf.group(tf1.assign(v, x)), lambda: tf.no_op())
  with tf.control_dependencies([done]):
    return x + 1.0


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("build", [_assign_in_cond, _assign_in_loop, _assign_in_cond_in_loop, _branch_without_result])
def test_assignments_in_branches_and_bodies_equal_tensorflow(build, use_resource):
  for x in (X, X + 0.5):
    with tf.Graph().as_default() as graph:
      fed = tf1.placeholder(tf.float32, x.shape, name="x")
      v = tf1.get_variable("v", initializer=np.ones_like(x), use_resource=use_resource)
      y = tf.identity(build(fed, v), name="y")
      with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        expected, after = session.run(y, {fed: x}), session.run(v)
    fn, params = _convert(graph.as_graph_def().SerializeToString(), ["x:0"], "y:0", variables={"v": np.ones_like(x)})
    for call in (fn, jax.jit(fn)):
      actual, new_params = call(params, jnp.asarray(x))
      np.testing.assert_allclose(actual, expected, rtol=1e-6)
      np.testing.assert_allclose(new_params["v"], after, rtol=1e-6)


def test_a_tensor_of_one_branch_cannot_be_fetched():
  with tf.Graph().as_default() as graph:
    x = tf1.placeholder(tf.float32, [], name="x")
    tf1.cond(x > 0, lambda: tf.sin(x, name="inside"), lambda: x)
  with pytest.raises(DeadBranchError, match=r"'cond/inside' exists only if 'Greater' is true"):
    _convert(graph.as_graph_def().SerializeToString(), ["x:0"], "cond/inside:0")


def test_live_functions_that_import_such_a_graph_convert():
  graph, value, _, _ = _run(PROGRAMS["cond in while"], X)
  graph_def = tf1.GraphDef.FromString(graph)
  wrapped = tf1.wrap_function(
    lambda x: tf1.import_graph_def(graph_def, {"x:0": x}, ["y:0"])[0], [tf.TensorSpec([4, 3])]
  )
  fn, params = gc.convert(wrapped, X)
  np.testing.assert_allclose(jax.jit(fn)(params, X)[0], value, rtol=1e-5, atol=1e-6)


def test_stacks_outside_of_loops_equal_tensorflow():
  raw = tf.raw_ops

  @tf.function
  def tf_fn(x):
    stack = raw.StackV2(max_size=-1, elem_type=tf.float32, stack_name="stack")
    for factor in (1.0, 2.0, 3.0):
      raw.StackPushV2(handle=stack, elem=x * factor)
    last, middle = (raw.StackPopV2(handle=stack, elem_type=tf.float32) for _ in range(2))
    pushed = raw.StackPushV2(handle=stack, elem=tf.sin(last))
    again = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    raw.StackCloseV2(handle=stack)
    return last - middle * again + pushed

  fn, params = gc.convert(tf_fn, X)
  expected = tf_fn(X)
  np.testing.assert_allclose(fn(params, X)[0], expected, rtol=1e-6)
  np.testing.assert_allclose(jax.jit(fn)(params, X)[0], expected, rtol=1e-6)
  gradient = jax.grad(lambda x: fn(params, x)[0].sum())(X)
  numeric = 3 - 2 * np.sin(3 * X) - 6 * X * np.cos(3 * X) + 3 * np.cos(3 * X)
  np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-5)
