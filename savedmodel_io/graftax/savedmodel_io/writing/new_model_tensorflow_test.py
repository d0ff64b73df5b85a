"""SavedModels that we make of programs, loaded by TensorFlow."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from graftax.graphdef_ir import DType
from graftax.savedmodel_io import load, write_saved_model
from graftax.savedmodel_io.errors import UnsupportedSavedModelError
from graftax.testing.graph_builders import const, function, node, program

_DATA = Path(__file__).parents[1] / "testdata"


class _Model(tf.Module):
  """Nested arguments and results, defaults, a custom gradient, two traces, an asset."""

  def __init__(self, folder: Path):
    super().__init__()
    self.weight = tf.Variable([1.0, 2.0], name="weight")
    self.bias = tf.Variable(3.0, name="bias", trainable=False)
    (folder / "words.txt").write_text("a\nb\n")
    self.words = tf.saved_model.Asset(str(folder / "words.txt"))

  @tf.function
  def nested(self, x, y=None, *, scale=2.0):
    @tf.custom_gradient
    def double(a):
      return a * 2.0, lambda cotangent: cotangent * self.weight

    return {"out": double(x["a"]) * self.weight * scale + self.bias, "rest": [x["b"], None, y]}

  @tf.function(input_signature=[tf.TensorSpec([None, 2], name="features")])
  def __call__(self, x):
    return x * self.weight + self.bias

  @tf.function(input_signature=[])
  def read(self):
    return tf.io.read_file(self.words.asset_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Returns TensorFlow's model, and the folders of the one that TensorFlow wrote and the one that we wrote."""
  folder = tmp_path_factory.mktemp("models")
  original = _Model(folder)
  original.nested({"a": tf.ones((3, 2)), "b": tf.constant(1)})
  original.nested({"a": tf.ones((3, 2)), "b": tf.constant(1)}, tf.constant(0.5))
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  tf.saved_model.save(original, str(folder / "theirs"), {"call": original.__call__}, options)
  theirs = load(folder / "theirs")
  nested = theirs.functions["nested"]
  programs = [theirs.program_from_trace(nested, i) for i in range(2)]
  write_saved_model(
    folder / "ours",
    {
      "nested": programs,
      "inner.nested": programs,
      "__call__": theirs.program("__call__"),
      "read": theirs.program("read"),
    },
    signatures={"serving_default": "__call__", "nested": programs[0]},
    attributes={"params": {"layer": {"weight": "weight"}, "all": ["bias", "weight"]}},
    assets=theirs.assets,
  )
  (folder / "words.txt").unlink()
  return original, folder / "theirs", folder / "ours"


def test_tensorflow_calls_every_trace_with_nested_arguments_and_defaults(model):
  original, _, ours = model
  loaded = tf.saved_model.load(str(ours))
  x = {"a": tf.random.normal((3, 2)), "b": tf.constant(7)}
  for args in ((x,), (x, tf.constant(0.5))):
    tf.nest.map_structure(np.testing.assert_array_equal, loaded.nested(*args), original.nested(*args))
    tf.nest.map_structure(np.testing.assert_array_equal, loaded.inner.nested(*args), original.nested(*args))
  np.testing.assert_array_equal(loaded(tf.ones((5, 2))), original(tf.ones((5, 2))))
  assert loaded.read() == b"a\nb\n"
  with pytest.raises(ValueError, match="Could not find matching concrete function"):
    loaded.nested(x, scale=3.0)


def test_tensorflow_finds_variables_by_their_names_and_kinds(model):
  _, _, ours = model
  loaded = tf.saved_model.load(str(ours))
  assert [v.name for v in loaded.variables] == ["weight:0", "bias:0"]
  assert [v.name for v in loaded.trainable_variables] == ["weight:0"]
  assert list(loaded.regularization_losses) == []
  assert loaded.params["layer"]["weight"] is loaded.variables[0] is loaded.params["all"][1]


def test_custom_gradients_survive(model):
  original, _, ours = model
  loaded = tf.saved_model.load(str(ours))
  x = {"a": tf.random.normal((3, 2)), "b": tf.constant(7)}

  def gradients(of):
    with tf.GradientTape() as tape:
      tape.watch(x["a"])
      total = tf.reduce_sum(of.nested(x)["out"] ** 2)
    return tape.gradient(total, [x["a"], *of.trainable_variables])

  for ours_, theirs in zip(gradients(loaded), gradients(original), strict=True):
    np.testing.assert_allclose(ours_, theirs, rtol=1e-6)


def test_signatures_run_in_tensorflow_in_a_session_and_in_the_command_line_tool(model, tmp_path):
  original, _, ours = model
  x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
  expected = original(x).numpy()
  loaded = tf.saved_model.load(str(ours))
  np.testing.assert_allclose(loaded.signatures["serving_default"](features=x)["output_0"], expected, rtol=1e-6)
  assert set(loaded.signatures["nested"].structured_outputs) == {"out", "rest_0"}
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    meta_graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(ours))
    signature = meta_graph.signature_def["serving_default"]
    feeds = {signature.inputs["features"].name: x}
    np.testing.assert_allclose(session.run(signature.outputs["output_0"].name, feeds), expected, rtol=1e-6)
    saver = meta_graph.saver_def
    session.run(saver.save_tensor_name, {saver.filename_tensor_name: str(tmp_path / "saved")})
  tf.train.Checkpoint(loaded).read(str(tmp_path / "saved")).assert_existing_objects_matched()
  np.save(tmp_path / "x.npy", x)
  command = [Path(sys.executable).with_name("saved_model_cli"), "run", "--dir", ours, "--tag_set", "serve"]
  command += ["--signature_def", "serving_default", "--inputs", f"features={tmp_path}/x.npy", "--outdir", tmp_path]
  subprocess.run(command, check=True, capture_output=True)
  np.testing.assert_allclose(np.load(tmp_path / "output_0.npy"), expected, rtol=1e-6)


def test_a_loaded_model_is_tuned_saved_again_and_read_here(model, tmp_path):
  _, _, ours = model
  loaded = tf.saved_model.load(str(ours))
  optimizer = tf.keras.optimizers.SGD(0.1)
  for _ in range(3):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(loaded(tf.ones((2, 2))) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, v), v) for v in loaded.trainable_variables])
    tape = None
  tf.saved_model.save(loaded, str(tmp_path / "again"), loaded.signatures)
  again = load(tmp_path / "again")
  fn, params = again.convert("serving_default")
  np.testing.assert_allclose(fn(params, features=np.ones((2, 2), np.float32))[0]["output_0"], loaded(tf.ones((2, 2))))


@pytest.mark.parametrize(
  ("name", "tags"), [("2026_11_22/tf1_control_flow", None), ("2026_11_21/tf1_partitioned", ["serve"])]
)
def test_signatures_of_tf1_models_become_functions_with_resource_variables(tmp_path, name, tags):
  model = load(_DATA / name, tags)
  made = model.program("serving_default")
  write_saved_model(tmp_path / "m", {"serve": made}, signatures={"serving_default": made})
  theirs = tf.saved_model.load(str(_DATA / name), tags).signatures["serving_default"]
  loaded = tf.saved_model.load(str(tmp_path / "m"))
  specs = theirs.structured_input_signature[1]
  inputs = {k: tf.ones([2 if d is None else d for d in v.shape.as_list()], v.dtype) for k, v in specs.items()}
  for called in (loaded.serve, loaded.signatures["serving_default"]):
    tf.nest.map_structure(np.testing.assert_array_equal, called(**inputs), theirs(**inputs))
  assert len(loaded.variables) == len(made.variables)


def test_tables_of_strings_are_filled_when_the_model_is_loaded(tmp_path):
  model = load(_DATA / "2026_11_22/text_and_shapes")
  programs = {name: model.program(model.functions[name]) for name in ("embed", "score")}
  write_saved_model(tmp_path / "m", programs, signatures={"embed": "embed"})
  theirs, ours = (tf.saved_model.load(str(path)) for path in (_DATA / "2026_11_22/text_and_shapes", tmp_path / "m"))
  words = tf.constant([b"b", b"unknown", b"a"])
  np.testing.assert_array_equal(ours.embed(words), theirs.embed(words))
  np.testing.assert_array_equal(next(iter(ours.signatures["embed"](words).values())), theirs.embed(words))
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    meta_graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(tmp_path / "m"))
    (output,) = meta_graph.signature_def["embed"].outputs.values()
    (fed,) = meta_graph.signature_def["embed"].inputs.values()
    expected = session.run(output.name, {fed.name: words.numpy()})
  np.testing.assert_array_equal(expected, theirs.embed(words))
  tf.saved_model.save(ours, str(tmp_path / "again"))
  again = tf.saved_model.load(str(tmp_path / "again"))
  np.testing.assert_array_equal(again.embed(words), theirs.embed(words))
  assert len(load(tmp_path / "m").resources) == 1
  write_saved_model(tmp_path / "third", {"embed": load(tmp_path / "again").program("embed")})
  third = tf.saved_model.load(str(tmp_path / "third"))
  np.testing.assert_array_equal(third.embed(words), theirs.embed(words))


class _Tables(tf.Module):
  """Tables that can change: from strings, from integers to vectors, and a dense one."""

  def __init__(self):
    super().__init__()
    self.words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    self.vectors = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    self.dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -2)
    self.words.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    self.vectors.insert(tf.constant([3], tf.int64), tf.constant([[0.5, 1.5]]))
    self.dense.insert(tf.constant([5], tf.int64), tf.constant([50], tf.int64))

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def find(self, words):
    return self.vectors.lookup(self.words.lookup(words))

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)])
  def insert(self, words, numbers):
    self.words.insert(words, numbers)
    return self.words.size()

  @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
  def find_dense(self, keys):
    return self.dense.lookup(keys)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
  """Returns a model that TensorFlow wrote, and the folder of the one that we wrote of its functions."""
  folder = tmp_path_factory.mktemp("tables")
  tf.saved_model.save(_Tables(), str(folder / "theirs"))
  model = load(folder / "theirs")
  write_saved_model(
    folder / "ours",
    {name: model.program(name) for name in ("find", "insert")},
    signatures={"find": "find", "insert": "insert"},
  )
  return model, folder / "ours"


def test_tables_that_can_change_keep_their_contents_and_change(tables, tmp_path):
  _, ours = tables
  loaded = tf.saved_model.load(str(ours))
  words = tf.constant(["a", "c"])
  np.testing.assert_array_equal(loaded.find(words), np.zeros((2, 2)))
  assert loaded.insert(tf.constant(["c"]), tf.constant([3], tf.int64)) == 3
  np.testing.assert_array_equal(loaded.find(words), [[0, 0], [0.5, 1.5]])
  fresh = tf.saved_model.load(str(ours))
  np.testing.assert_array_equal(fresh.find(words), np.zeros((2, 2)))
  tf.saved_model.save(loaded, str(tmp_path / "again"))
  again = tf.saved_model.load(str(tmp_path / "again"))
  np.testing.assert_array_equal(again.find(words), [[0, 0], [0.5, 1.5]])
  assert again.insert(tf.constant(["d"]), tf.constant([4], tf.int64)) == 4
  write_saved_model(tmp_path / "ours", {"find": load(tmp_path / "again").program("find")})
  written = tf.saved_model.load(str(tmp_path / "ours"))
  np.testing.assert_array_equal(written.find(words), [[0, 0], [0.5, 1.5]])


def test_tables_that_can_change_are_saved_and_restored_in_a_session(tables, tmp_path):
  _, ours = tables
  words = np.array([b"a", b"c"], object)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    meta_graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(ours))
    find, insert = (meta_graph.signature_def[name] for name in ("find", "insert"))
    output, fed = find.outputs["output_0"].name, {find.inputs["words"].name: words}
    np.testing.assert_array_equal(session.run(output, fed), np.zeros((2, 2)))
    feeds = {insert.inputs["words"].name: [b"c"], insert.inputs["numbers"].name: [3]}
    assert session.run(insert.outputs["output_0"].name, feeds) == 3
    saver = meta_graph.saver_def
    path = {saver.filename_tensor_name: str(tmp_path / "saved")}
    session.run(saver.save_tensor_name, path)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.saved_model.loader.load(session, ["serve"], str(ours))
    session.run(saver.restore_op_name, path)
    np.testing.assert_array_equal(session.run(output, fed), [[0, 0], [0.5, 1.5]])


def test_a_dense_table_raises(tables, tmp_path):
  model, _ = tables
  with pytest.raises(UnsupportedSavedModelError, match="table 'dense' is made by MutableDenseHashTableV2"):
    write_saved_model(tmp_path / "m", {"find": model.program("find_dense")})
  assert not list(tmp_path.iterdir())


def test_a_program_without_variables_is_loaded_everywhere(tmp_path):
  made = program(
    function("f", ["x"], [const("one", np.float32(1)), node("y", "AddV2", "x", "one", T=DType.FLOAT)], ["y"])
  )
  write_saved_model(tmp_path / "m", {"__call__": made}, signatures={"serving_default": made})
  loaded = tf.saved_model.load(str(tmp_path / "m"))
  assert loaded(tf.constant(2.0))[0] == 3
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    meta_graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(tmp_path / "m"))
    (output,) = meta_graph.signature_def["serving_default"].outputs.values()
    (fed,) = meta_graph.signature_def["serving_default"].inputs.values()
    assert session.run(output.name, {fed.name: 2.0}) == 3
