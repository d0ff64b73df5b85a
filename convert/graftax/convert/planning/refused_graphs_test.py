"""Damaged graphs: each that TensorFlow does not import is refused by type, and none fails in another way."""

import copy
import itertools

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.graphdef_ir import GraftaxError

pytestmark = pytest.mark.tensorflow

_ATTRIBUTE_VALUES = {
  "string": tf.compat.v1.AttrValue(s=b"nonsense"),
  "negative": tf.compat.v1.AttrValue(i=-7),
  "type": tf.compat.v1.AttrValue(type=tf.string.as_datatype_enum),
  "unknown type": tf.compat.v1.AttrValue(type=999),
  "bool": tf.compat.v1.AttrValue(b=True),
  "list": tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(i=[3, -1])),
  "shape": tf.compat.v1.AttrValue(shape=tf.TensorShape([3, 2]).as_proto()),
  "function": tf.compat.v1.AttrValue(func=tf.compat.v1.NameAttrList(name="gone")),
}


def _graph():
  @tf.function
  def function(x):
    y = tf.nn.conv2d(x, tf.ones([2, 2, 3, 4]), 1, "SAME")
    y = tf.nn.max_pool2d(y, 2, 2, "VALID")
    y = tf.concat([y, tf.cast(tf.cast(y, tf.int32), tf.float32)], axis=-1)
    parts = tf.split(tf.reshape(y, [-1, 8]), 2, axis=1)
    z = tf.linalg.matmul(parts[0], parts[1], transpose_b=True)
    z = tf.cond(tf.reduce_sum(z) > 0, lambda: tf.sin(z), lambda: tf.cos(z))
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, z])[1]

  concrete = function.get_concrete_function(tf.TensorSpec([1, 4, 4, 3]))
  graph = concrete.graph.as_graph_def()
  return graph, concrete.inputs[0].name, concrete.outputs[0].name


def _mutations(graph):
  """Yields `(description, graph)`."""
  for index, node in enumerate(graph.node):
    for what, change in _changes(node):
      mutated = copy.deepcopy(graph)
      change(mutated.node[index], mutated)
      yield f"{node.op} {node.name}: {what}", mutated
  for index in range(len(graph.library.function)):
    for what, change in _function_changes():
      mutated = copy.deepcopy(graph)
      change(mutated.library.function[index], mutated)
      yield f"function {index}: {what}", mutated


def _changes(node):
  yield "twice", lambda n, g: g.node.append(n)
  yield "one more input", lambda n, g: n.input.append(g.node[0].name)
  yield "an input that does not exist", lambda n, g: n.input.append("gone")
  yield "a control input that does not exist", lambda n, g: n.input.append("^gone")
  yield "an unknown op", lambda n, g: setattr(n, "op", "OpOfNobody")
  yield "another op", lambda n, g: setattr(n, "op", "Neg")
  yield "no name", lambda n, g: setattr(n, "name", "")
  if node.input:
    yield "one input less", lambda n, g: n.input.pop()
    yield "an output that its input does not have", lambda n, g: n.input.__setitem__(0, n.input[0].split(":")[0] + ":7")
    yield "itself as its input", lambda n, g: n.input.__setitem__(0, n.name)
  for name in node.attr:
    if name.startswith("_"):
      continue
    yield f"without {name}", lambda n, g, name=name: n.attr.pop(name)
    for kind, value in _ATTRIBUTE_VALUES.items():
      yield f"{name} is a {kind}", lambda n, g, name=name, value=value: n.attr[name].CopyFrom(value)


def _function_changes():
  yield "gone", lambda f, g: g.library.function.remove(f)
  yield "one parameter more", lambda f, g: f.signature.input_arg.add(name="more", type=1)
  yield "one parameter less", lambda f, g: f.signature.input_arg.pop()
  yield "another type of a parameter", lambda f, g: setattr(f.signature.input_arg[0], "type", 7)
  yield "another type of a result", lambda f, g: setattr(f.signature.output_arg[0], "type", 7)
  yield "one result less", lambda f, g: f.signature.output_arg.pop()
  yield "a result that nothing computes", lambda f, g: f.ret.update({f.signature.output_arg[0].name: "gone:z:0"})
  yield "a node twice", lambda f, g: f.node_def.append(f.node_def[0])
  yield "no nodes", lambda f, g: f.ClearField("node_def")
  yield "a node with one more input", lambda f, g: f.node_def[-1].input.append(f.signature.input_arg[0].name)


def _imported(graph):
  try:
    with tf.Graph().as_default():
      tf.graph_util.import_graph_def(graph, name="")
  except (ValueError, TypeError, KeyError, tf.errors.OpError):
    return False
  return True


def _verdict(graph, start, end):
  """Returns whether graftax converts and traces the graph, or the error if it is not one of its own."""
  try:
    fn, params = gc.convert(graph, inputs=[start], outputs=[end])
    jax.eval_shape(lambda x: fn(params, x)[0], np.ones([1, 4, 4, 3], np.float32))
  except GraftaxError:
    return False
  except Exception as e:
    return e
  return True


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_graphs_that_tensorflow_does_not_import_are_refused_by_type(step):
  graph, start, end = _graph()
  assert _imported(graph)
  assert _verdict(graph, start, end) is True
  accepted, untyped, num_refused = [], [], 0
  for what, mutated in itertools.islice(_mutations(graph), 0, None, step):
    found = _verdict(mutated, start, end)
    if isinstance(found, Exception):
      untyped.append(f"{what}: {type(found).__name__}: {found}"[:200])
    elif not _imported(mutated):
      num_refused += 1
      # What makes the value that the caller gives is cut away. It may be an op of a library that is not installed.
      if found and what != f"Placeholder {start.split(':')[0]}: an unknown op":
        accepted.append(what)
  assert not untyped, "\n".join(untyped)
  assert not accepted, "\n".join(accepted)
  assert num_refused > 400 // step
