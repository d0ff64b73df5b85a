"""Loops of decoders against TensorFlow: they end when all rows are finished, and write to lists that grow."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.convert.sources.graph_def import program_from_graph_def
from graftax.graphdef_ir import parse_graph
from graftax.ops_jax import BoundedArray, SizeBoundError

tf1 = tf.compat.v1

_WEIGHT = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
_MOST = 6
_END = 2


def _decode(x, weight, maximum_iterations=None):
  """Returns states, tokens and number of steps; a row ends with the token `_END` or after `_MOST` steps."""
  states = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[None, 4])
  tokens = tf.TensorArray(tf.int32, size=0, dynamic_size=True, element_shape=[None])

  def body(step, finished, state, states, tokens):
    state = tf.tanh(state @ weight) + 0.1
    token = tf.argmax(state, -1, output_type=tf.int32)
    finished = finished | (token == _END) | (step + 1 >= _MOST)
    return step + 1, finished, state, states.write(step, state), tokens.write(step, token)

  step, _, _, states, tokens = tf.while_loop(
    lambda step, finished, *_: ~tf.reduce_all(finished),
    body,
    (0, tf.zeros([tf.shape(x)[0]], tf.bool), x, states, tokens),
    maximum_iterations=maximum_iterations,
  )
  return tf.transpose(states.stack(), [1, 0, 2]), tf.transpose(tokens.stack()), step


def _cut(value):
  return value.cut() if isinstance(value, BoundedArray) else value


@pytest.mark.parametrize("maximum_iterations", [None, _MOST, 40])
@pytest.mark.parametrize("options", [{}, {"max_while_iterations": 9}])
def test_decoders_of_an_unknown_number_of_steps_equal_tensorflow(maximum_iterations, options):
  tf_fn = tf.function(
    lambda x, w: _decode(x, w, maximum_iterations),
    input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([4, 4])],
    autograph=False,
  )
  name, value = next(iter(options.items()), ("max_while_iterations", None))
  with gc.override_config(name, value):
    fn, params = gc.convert(tf_fn)
  seen = set()
  for seed in range(6):
    x = np.random.default_rng(seed).normal(size=(1 + seed % 3, 4)).astype(np.float32)
    expected = [value.numpy() for value in tf_fn(x, _WEIGHT)]
    seen.add(int(expected[-1]))
    for call in (fn, jax.jit(fn)):
      for one, other in zip(call(params, x, _WEIGHT)[0], expected, strict=True):
        np.testing.assert_allclose(_cut(one), other, rtol=1e-5, atol=1e-6)
  assert len(seen) > 2, "the rows end after the same number of steps"


def _uses_of_a_length(x, weight, most=_MOST):
  """Returns what TensorFlow 1 makes of the length of a list: a stack is a gather at a range there."""
  rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False, element_shape=[2, 4])

  def body(step, state, rows):
    state = tf.tanh(state @ weight) + 0.1
    return step + 1, state, rows.write(step + 1, state)

  loop = tf1.while_loop(
    lambda step, state, _: (step < most) & (tf.reduce_sum(state) < 2.0), body, [0, x, rows.write(0, x)]
  )
  size = loop[2].size()
  return loop[2].stack(), loop[2].gather(tf.range(size - 1, -1, -1)), 2 * tf.range(size), tf.zeros([size, 2]), size


def _in_tf1(function, **options):
  """Returns the converted graph of a function of `_SPECS` in TF1 control flow, and a function that runs it."""
  tf1.disable_control_flow_v2()
  try:
    with tf.Graph().as_default() as graph:
      inputs = [tf1.placeholder(spec.dtype, spec.shape) for spec in _SPECS]
      outputs = [tf.identity(y) for y in function(*inputs)]
      assert {"Switch", "Merge", "TensorArrayGatherV3"} <= {node.op for node in graph.as_graph_def().node}
      names = [[value.name for value in values] for values in (inputs, outputs)]
      program = program_from_graph_def(parse_graph(graph.as_graph_def().SerializeToString()), *names)
  finally:
    tf1.enable_control_flow_v2()
  session = tf1.Session(graph=graph)
  return gc.convert_program(program, gc.ConvertOptions(**options)), lambda *args: session.run(
    outputs, dict(zip(inputs, args, strict=True))
  )


def _in_tf2(function):
  run = tf.function(function, input_signature=_SPECS, autograph=False)
  return gc.convert(run), lambda *args: [y.numpy() for y in run(*args)]


_SPECS = (tf.TensorSpec([2, 4]), tf.TensorSpec([4, 4]))


@pytest.mark.parametrize("make", [_in_tf1, _in_tf2])
def test_uses_of_the_length_of_a_list_that_grew_equal_tensorflow(make):
  (fn, params), run = make(_uses_of_a_length)
  compiled = jax.jit(fn)
  seen = set()
  for seed in range(8):
    x = np.random.default_rng(seed).normal(size=(2, 4)).astype(np.float32)
    expected = run(x, _WEIGHT)
    seen.add(int(expected[-1]))
    for call in (fn, compiled):
      for one, other in zip(call(params, x, _WEIGHT)[0], expected, strict=True):
        np.testing.assert_allclose(_cut(one), other, rtol=1e-5, atol=1e-6)
  assert len(seen) > 1, "the lists have the same length"


def test_a_stack_of_a_tf1_list_beyond_its_bound_is_invalid():
  def tf_fn(x, weight):
    return _uses_of_a_length(x, weight, most=tf.shape(tf.where(weight > -9.0))[0])

  (fn, params), run = _in_tf1(tf_fn, max_while_iterations=2)
  inputs = (np.random.default_rng(seed).normal(size=(2, 4)).astype(np.float32) for seed in range(50))
  x = next(x for x in inputs if run(x, _WEIGHT)[-1] > 3)
  for result in jax.jit(fn)(params, x, _WEIGHT)[0][:4]:
    with pytest.raises(SizeBoundError):
      result.cut()


def test_derivatives_of_gathered_elements_of_a_list_equal_tensorflow():
  (fn, params), _ = _in_tf1(lambda x, w: [tf.reduce_sum(_uses_of_a_length(x, w)[1] ** 2)])
  x, weight = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32), tf.constant(_WEIGHT)
  with tf.GradientTape() as tape:
    tape.watch(weight)
    expected = tf.reduce_sum(_uses_of_a_length(x, weight)[0] ** 2)
  gradient = jax.jit(jax.grad(lambda w: fn(params, x, w)[0][0]))(_WEIGHT)
  np.testing.assert_allclose(gradient, tape.gradient(expected, weight), rtol=1e-4, atol=1e-5)


def test_derivatives_of_a_decoder_equal_tensorflow():
  tf_fn = tf.function(_decode, autograph=False)
  x = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
  fn, params = gc.convert(tf_fn, x, _WEIGHT)

  def loss(weight):
    states = fn(params, x, weight)[0][0]
    steps = np.arange(states.padded.shape[1])[:, None]
    return jax.numpy.where(steps < states.length, states.padded**2, 0.0).sum()

  weight = tf.constant(_WEIGHT)
  with tf.GradientTape() as tape:
    tape.watch(weight)
    expected = tf.reduce_sum(tf_fn(x, weight)[0] ** 2)
  np.testing.assert_allclose(jax.jit(loss)(_WEIGHT), expected, rtol=1e-5)
  np.testing.assert_allclose(jax.jit(jax.grad(loss))(_WEIGHT), tape.gradient(expected, weight), rtol=1e-4, atol=1e-5)


def test_a_decided_array_keeps_its_shape_while_iterations_are_counted():
  @tf.function(input_signature=[tf.TensorSpec([None, None])])
  def tf_fn(x):
    flags, total = tf.zeros(tf.shape(x), tf.bool), 0
    for step in tf.range(4):
      tf.autograph.experimental.set_loop_options(shape_invariants=[(flags, tf.TensorShape([None, None]))])
      flags = flags | (step >= 1)
      total += tf.size(flags) * tf.reduce_sum(tf.shape(flags))
    return total, flags

  x = np.zeros([5, 3], np.float32)
  fn, params = gc.convert(tf_fn)
  for call in (fn, jax.jit(fn)):
    for one, other in zip(call(params, x)[0], tf_fn(x), strict=True):
      np.testing.assert_array_equal(one, other)


def test_the_shape_of_a_tensor_that_loops_pass_through_is_known(caplog):
  @tf.function(input_signature=[tf.TensorSpec([None, 3])])
  def tf_fn(x):
    total = 0.0
    for _ in tf.range(3):
      row = 0
      while row < tf.shape(x)[0]:
        total += tf.reduce_sum(x[row]) ** 2
        row += 1
    return total

  x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
  fn, params = gc.convert(tf_fn)
  with caplog.at_level("INFO", "graftax.loops"):
    np.testing.assert_allclose(jax.jit(fn)(params, x)[0], tf_fn(x), rtol=1e-6)
  assert "while_loop" not in caplog.text
  assert "a scan of 4 iterations" in caplog.text
