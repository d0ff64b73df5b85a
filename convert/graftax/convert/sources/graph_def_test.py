"""Frozen graphs, with TensorFlow as the oracle."""

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.ops_jax import UnsupportedOpError

tf1 = tf.compat.v1
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def graph_def():
  with tf.Graph().as_default() as graph:
    x = tf1.placeholder(tf.float32, [None, 3], name="x")
    y = tf1.placeholder(tf.float32, [], name="y")
    left, right = tf.split(x, [1, 2], axis=1, name="parts")
    tf.multiply(tf.sin(left, name="sine"), y, name="scaled")
    tf.identity(right, name="rest")
  return graph.as_graph_def()


def test_messages_bytes_and_files_are_the_same(graph_def, tmp_path):
  path = tmp_path / "model.pb"
  path.write_bytes(graph_def.SerializeToString())
  for source in (graph_def, graph_def.SerializeToString(), path, str(path)):
    fn, params = gc.convert(source, inputs=["x", "y:0"], outputs=["scaled:0", "parts:1"])
    assert params == {}
    scaled, right = jax.jit(fn)(params, X, 2.0)[0]
    np.testing.assert_allclose(scaled, np.sin(X[:, :1]) * 2, rtol=1e-6)
    np.testing.assert_array_equal(right, X[:, 1:])
  assert fn.__name__ == "model" and str(fn.signature) == "(x, y)"


def test_inputs_can_be_called_by_other_names(graph_def):
  fn = gc.convert_functional(graph_def, inputs={"image": "x", "gain": "y"}, outputs="scaled")
  np.testing.assert_allclose(fn(image=X, gain=2.0), np.sin(X[:, :1]) * 2, rtol=1e-6)
  with pytest.raises(gc.InputError, match=r"got shape \[2, 2\]; expected \[\?, 3\]"):
    fn(image=X[:, :2], gain=2.0)


def test_any_tensor_can_be_fed(graph_def):
  fn = gc.convert_functional(graph_def, inputs=["sine", "y"], outputs="scaled")
  np.testing.assert_allclose(fn(X, 3.0), X * 3)


def test_missing_names_are_told(graph_def):
  with pytest.raises(gc.ConversionError, match=r"placeholders are \['x', 'y'\]; nothing reads \['scaled', 'rest'\]"):
    gc.convert(graph_def)
  with pytest.raises(gc.ConversionError, match=r"also needs \['y'\]"):
    gc.convert(graph_def, inputs=["x"], outputs=["scaled"])


def test_variables_need_values_and_are_parameters():
  with tf.Graph().as_default() as graph:
    x = tf1.placeholder(tf.float32, [3], name="x")
    w = tf1.get_variable("w", [3], use_resource=True)
    tf.multiply(x, w, name="y")
  with pytest.raises(gc.ConversionError, match=r"not frozen; pass variables=.* for \['w'\]"):
    gc.convert(graph.as_graph_def(), inputs=["x"], outputs=["y"])
  fn, params = gc.convert(graph.as_graph_def(), inputs=["x"], outputs="y", variables={"w": X[0]})
  np.testing.assert_allclose(fn(params, X[1])[0], X[0] * X[1])
  assert params["w"].name == "w:0"


def test_a_tf2_function_can_be_cut_out_of_its_graph():
  @tf.function
  def inner(x):
    return tf.exp(x, name="power") + 1.0

  concrete = tf.function(lambda x: inner(x) * 2.0).get_concrete_function(tf.TensorSpec([]))
  graph_def = concrete.graph.as_graph_def()
  fn = gc.convert_functional(graph_def, inputs=["x"], outputs=[concrete.outputs[0].name])
  np.testing.assert_allclose(fn(1.0)[0], (np.exp(1) + 1) * 2, rtol=1e-6)
  fn = gc.convert_functional(graph_def, inputs=["PartitionedCall/power"], outputs=[concrete.outputs[0].name])
  np.testing.assert_allclose(fn(1.0)[0], 4.0)


def test_a_table_without_its_initializer_is_told():
  with tf.Graph().as_default() as graph:
    keys = tf1.placeholder(tf.int64, [None], name="wanted")
    filling = tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4], tf.int64, tf.int64)
    tf.identity(tf.lookup.StaticHashTable(filling, -1).lookup(keys), name="found")
  frozen = tf1.graph_util.extract_sub_graph(graph.as_graph_def(), ["found"])
  with pytest.raises(UnsupportedOpError, match=r"table 'hash_table' is not filled in this graph"):
    gc.convert(frozen, inputs=["wanted"], outputs=["found"])
  fn, params = gc.convert(graph.as_graph_def(), inputs=["wanted"], outputs=["found"])
  np.testing.assert_array_equal(fn(params, np.int64([2, 5]))[0][0], [4, -1])
