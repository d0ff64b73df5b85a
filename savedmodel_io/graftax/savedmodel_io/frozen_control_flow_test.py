"""Frozen graphs whose control flow TensorFlow lowered to Switch, Merge and Enter: signature, values and derivatives."""

import jax
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from graftax.savedmodel_io import load

pytestmark = pytest.mark.tensorflow

X = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)


def _row(row):
  return tf.switch_case(
    tf.cast(row[0] * 4.0, tf.int32), [lambda: row, lambda: row * tf.reduce_sum(row), lambda: tf.sin(row)]
  )


def _branch(i, x):
  choices = [lambda: (x, x + 1.0), lambda: (x * x, tf.cos(x)), lambda: (x * 3.0, x)]
  return tf.add_n(tf.switch_case(i + tf.cast(x[0, 0] * 0.0, tf.int32), choices))


def _nested(x):
  inner = [lambda: x + 5.0, lambda: tf.cond(x[0, 1] > 0.1, lambda: x * x, lambda: x), lambda: x - 3.0]
  return tf.switch_case(
    tf.cast(x[1, 0] * 3.0, tf.int32),
    [lambda: x, lambda: tf.switch_case(tf.cast(x[0, 0] * 10.0, tf.int32), inner), lambda: x * 3.0],
  )


_FUNCTIONS = {
  "map": lambda x: tf.map_fn(lambda row: tf.sin(row) * 2.0, x),
  "nested_map": lambda x: tf.map_fn(lambda row: tf.map_fn(lambda e: e * e, row), x),
  "scan": lambda x: tf.scan(lambda a, b: a * b, x),
  "while": lambda x: tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 1.5), [0, x])[1],
  "cond": lambda x: tf.cond(tf.reduce_sum(x) > 3.0, lambda: x * x, lambda: x - 1.0),
  "cond_in_map": lambda x: tf.map_fn(lambda r: tf.cond(tf.reduce_sum(r) > 2.0, lambda: r * r, lambda: r), x),
  "case_in_map": lambda x: tf.map_fn(_row, x),
  "case_in_case": _nested,
  "case_of_one": lambda x: tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x * 2.0]),
  # TensorFlow runs the last branch for an index without one.
  **{f"case_{index}": (lambda x, index=index: _branch(index, x)) for index in (-1, 0, 1, 2, 7)},
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_frozen_graph_with_lowered_control_flow_ends_where_the_function_does(name, tmp_path):
  function = tf.function(_FUNCTIONS[name], autograph=False)
  concrete = function.get_concrete_function(tf.TensorSpec(X.shape, X.dtype))
  frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=True)
  (tmp_path / "graph.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())

  model = load(tmp_path / "graph.pb")
  assert list(model.signatures["serving_default"].inputs) == [frozen.inputs[0].op.name]
  assert list(model.signatures["serving_default"].outputs) == [frozen.outputs[0].op.name]
  fn, params = model.convert()

  def value(x):
    (result,) = fn(params, **{frozen.inputs[0].op.name: x})[0].values()
    return result

  x = tf.constant(X)
  with tf.GradientTape() as tape:
    tape.watch(x)
    expected = function(x)
  np.testing.assert_allclose(value(X), expected, rtol=1e-6)
  np.testing.assert_allclose(jax.jit(value)(X), expected, rtol=1e-6)
  gradient = jax.jit(jax.grad(lambda x: value(x).sum()))(X)
  np.testing.assert_allclose(gradient, tape.gradient(expected, x), rtol=1e-5)
