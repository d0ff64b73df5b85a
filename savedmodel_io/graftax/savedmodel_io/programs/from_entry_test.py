"""SavedModels that TensorFlow writes, converted by us, against what TensorFlow computes."""

import ast
import collections
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import tensorflow as tf

import graftax.convert as gc
from graftax.savedmodel_io import load
from graftax.savedmodel_io.errors import AmbiguousFunctionError

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
Pair = collections.namedtuple("Pair", "left right")
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _table(keys, values, default):
  return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


class Model(tf.Module):
  def __init__(self):
    super().__init__()
    self.w = tf.Variable(2.0, name="w")
    self.static = _table(tf.constant([5, 3], tf.int64), tf.constant([50.0, 30.0]), -1.0)
    self.mutable = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -7)
    self.mutable.insert(tf.constant([3, 9], tf.int64), tf.constant([300, 900], tf.int64))
    self.words = _table(tf.constant(["a", "b"]), tf.constant([1, 2]), 0)
    self.embedding = tf.Variable(tf.reshape(tf.range(6.0), [3, 2]), name="embedding")

  @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
  def look_up(self, ids):
    return {"static": self.static.lookup(ids), "mutable": self.mutable.lookup(ids), "size": self.static.size()}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def embed(self, text):
    return tf.gather(self.embedding, self.words.lookup(tf.strings.lower(text))) * self.w

  @tf.function(
    input_signature=[
      tf.RaggedTensorSpec([None, None], tf.float32),
      tf.SparseTensorSpec([None, 3], tf.float32),
      tf.TensorSpec([], tf.float32),
    ]
  )
  def composites(self, ragged, sparse, scale):
    return ragged * scale, sparse.with_values(sparse.values + scale)

  @tf.function
  def modes(self, pair, training=False, *, scale=1.0):
    result = pair.left * self.w if training else pair.left + pair.right
    return Pair(result, {"scale": scale})

  @tf.function(input_signature=[tf.TensorSpec([None], name="options"), tf.TensorSpec([None], name="rng")])
  def odd_names(self, options, rng):
    return {"out": options * rng}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  model = Model()
  pair = Pair(tf.constant(X), tf.constant(X))
  model.modes(pair, training=True)
  model.modes(pair, training=False)
  path = str(tmp_path_factory.mktemp("model"))
  signatures = {"serving_default": model.odd_names, "embed": model.embed}
  tf.saved_model.save(model, path, signatures=signatures)
  return model, path


def test_integer_tables_become_constants(saved):
  model, path = saved
  ids = np.array([3, 4, 9], np.int64)
  fn, params = load(path).convert("look_up")
  outputs, _ = jax.jit(fn)(params, ids)
  assert params == {}
  for name, expected in model.look_up(ids).items():
    np.testing.assert_array_equal(outputs[name], expected, err_msg=name)


def test_tables_are_read_from_a_model_that_tensorflow_loaded_and_saved(saved, tmp_path):
  model, path = saved
  tf.saved_model.save(tf.saved_model.load(path), str(tmp_path))
  ids = np.array([3, 4, 9], np.int64)
  fn, params = load(tmp_path).convert("look_up")
  for name, expected in model.look_up(ids).items():
    np.testing.assert_array_equal(fn(params, ids)[0][name], expected, err_msg=name)


@pytest.mark.parametrize(("value_shape", "folder"), [((), "once"), ((2,), "once"), ((2,), "twice")])
def test_the_buckets_of_a_dense_table_that_hold_nothing_are_left_out(tmp_path, value_shape, folder):
  module = tf.Module()
  values = np.arange(1, 1 + 2 * np.prod(value_shape, dtype=int)).reshape(2, *value_shape).astype(np.float32)
  module.table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, np.zeros(value_shape, "f4"), -1, -2)
  module.table.insert(tf.constant([5, 6], tf.int64), values)
  module.look_up = tf.function(
    lambda ids: {"found": module.table.lookup(ids), "size": module.table.size()},
    input_signature=[tf.TensorSpec([None], tf.int64)],
  )
  tf.saved_model.save(module, str(tmp_path / "once"))
  tf.saved_model.save(tf.saved_model.load(str(tmp_path / "once")), str(tmp_path / "twice"))
  fn, params = load(tmp_path / folder).convert("look_up")
  ids = np.array([5, 6, 7])
  for name, expected in module.look_up(ids).items():
    np.testing.assert_array_equal(fn(params, ids)[0][name], expected, err_msg=name)


def test_text_is_cut_off_where_the_error_says(saved):
  model, path = saved
  loaded = load(path)
  with pytest.raises(NotImplementedError, match="table 'words' has string keys") as e:
    loaded.convert("embed")
  (tensor,) = ast.literal_eval(str(e.value).rpartition("inputs=")[2].rstrip(")"))
  assert tensor.endswith("None_Lookup/LookupTableFindV2")
  assert f"graftax.convert.convert_subgraph(graftax.savedmodel_io.load({str(path)!r}).program('embed'), " in str(
    e.value
  )
  fn, params = gc.convert_subgraph(loaded.program("embed"), tensor)
  outputs, _ = fn(params, np.array([1, 2, 0]))
  expected = model.embed(tf.constant(["A", "b", "?"]))
  np.testing.assert_allclose(next(iter(outputs.values())) if isinstance(outputs, dict) else outputs, expected)
  assert list(params) == ["embedding", "w"]


def test_ragged_and_sparse_tensors_go_in_and_come_out(saved):
  model, path = saved
  rows = [[1.0, 2.0], [], [3.0]]
  dense = np.array([[0, 5, 0], [7, 0, 0]], np.float32)
  fn, params = load(path).convert("composites")
  (ragged, sparse), _ = fn(params, gc.RaggedTensor.from_lists(rows), gc.SparseTensor.from_dense(dense), 2.0)
  their_ragged, their_sparse = model.composites(tf.ragged.constant(rows), tf.sparse.from_dense(dense), 2.0)
  assert ragged.to_lists() == their_ragged.to_list()
  np.testing.assert_array_equal(sparse.to_dense(), tf.sparse.to_dense(their_sparse))


def test_traces_are_chosen_by_value_and_default(saved):
  model, path = saved
  loaded = load(path)
  pair = Pair(X, X)
  for kwargs in ({}, {"training": False}, {"training": True}):
    fn, params = loaded.convert("modes", pair, **kwargs)
    got, _ = fn(params, pair, **kwargs)
    expected = model.modes(Pair(tf.constant(X), tf.constant(X)), **kwargs)
    np.testing.assert_allclose(got.left, expected.left)
    assert got.right["scale"] == 1.0 and type(got).__name__ == "Pair"
  with pytest.raises(AmbiguousFunctionError, match="no trace fits"):
    loaded.convert("modes", pair, scale=2.0)


def test_inputs_named_options_and_rng_are_usable(saved):
  _, path = saved
  spec = jax.ShapeDtypeStruct((3,), np.float32)
  fn, params = load(path).convert("serving_default", options=spec, rng=spec)
  outputs, _ = fn(params, options=X[0], rng=X[1])
  np.testing.assert_allclose(outputs["out"], X[0] * X[1])


def test_a_path_is_enough(saved):
  model, path = saved
  fn, params = gc.convert(path)
  np.testing.assert_allclose(fn(params, options=X[0], rng=X[1])[0]["out"], X[0] * X[1])
  fn, params = gc.convert(Path(path) / "saved_model.pb", Pair(X, X), signature="modes", training=True)
  np.testing.assert_allclose(fn(params, Pair(X, X), training=True)[0].left, X * 2)
  with pytest.raises(KeyError, match="no signature or function 'nothing'"):
    gc.convert(path, signature="nothing")
  assert gc.convert_functional(path, signature="look_up")(np.array([5], np.int64))["static"] == 50


def test_a_pickled_conversion_runs_elsewhere_without_tensorflow(saved, tmp_path):
  _, path = saved
  converted = load(path).convert("modes", Pair(X, X), training=True)
  tables = load(path).convert("look_up")
  (tmp_path / "fns.pickle").write_bytes(pickle.dumps((converted, tables)))
  code = f"""
import pickle, sys
import numpy as np
(fn, params), (look_up, none) = pickle.load(open({str(tmp_path / "fns.pickle")!r}, "rb"))
pair = type(fn.structured_inputs[0][0])(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
result, _ = fn(params, pair, training=True)
assert result.left[0, 0] == 2 and type(result).__name__ == "Pair"
assert look_up(none, np.array([3]))[0]["mutable"] == 300
assert not any(name.partition(".")[0] in ("tensorflow", "keras") for name in sys.modules)
"""
  subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_restored_by_tensorflow_convert_with_and_without_tracing_and_pickle(saved):
  model, path = saved
  restored = tf.saved_model.load(path)
  ids = np.array([3, 4, 9], np.int64)
  for fn, params in (gc.convert(restored.look_up, ids), gc.convert_from_restored(restored.look_up)):
    np.testing.assert_array_equal(fn(params, ids)[0]["mutable"], [300, -7, 900])
  fn, params = gc.convert(restored.modes, Pair(X, X), training=True)
  again, _ = pickle.loads(pickle.dumps((fn, params)))
  np.testing.assert_allclose(again(params, Pair(X, X), training=True)[0].left, X * 2)
  with pytest.raises(gc.ConversionError, match="Found 2 concrete functions"):
    gc.convert_from_restored(restored.modes)
  fn, params = gc.convert(restored.signatures["serving_default"])
  np.testing.assert_allclose(fn(params, options=X[0], rng=X[1])[0]["out"], X[0] * X[1])


def test_a_tf1_model_with_odd_names_and_a_table_converts(tmp_path):
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    ids = tf.compat.v1.placeholder(tf.int64, [None], name="ids")
    scale = tf.compat.v1.placeholder_with_default(3.0, [], name="scale")
    table = _table(tf.constant([5, 3], tf.int64), tf.constant([50.0, 30.0]), -1.0)
    weight = tf.compat.v1.get_variable("weight", initializer=2.0)
    result = table.lookup(ids) * weight * scale
    session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
    signature = tf.compat.v1.saved_model.predict_signature_def({"input ids": ids, "class": scale}, {"out:0": result})
    builder = tf.compat.v1.saved_model.Builder(str(tmp_path / "m"))
    builder.add_meta_graph_and_variables(
      session, ["serve"], {"serving_default": signature}, main_op=tf.compat.v1.tables_initializer()
    )
    builder.save()
  fn, params = gc.convert(tmp_path / "m")
  outputs, _ = jax.jit(fn)(params, **{"input ids": np.array([5, 4]), "class": np.float32(2)})
  np.testing.assert_allclose(outputs["out:0"], [200, -4])
  with pytest.raises(gc.MissingInputError, match="missing arguments .*'class'"):
    fn(params, **{"input ids": np.array([5, 4])})


def test_the_checked_in_text_model_names_its_tables():
  with pytest.raises(NotImplementedError, match="table 'words' has string keys"):
    load(_DATA / "module").convert("look_up")
