"""What TensorFlow writes, read by us, against what TensorFlow reads."""

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from graftax.graphdef_ir import TensorSpec
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader, read_checkpoint
from graftax.savedmodel_io.checkpoint.state import latest_checkpoint
from graftax.savedmodel_io.objects.structured_value import flatten_structure
from graftax.savedmodel_io.objects.type_specs import RaggedTensorSpec, SparseTensorSpec, VariableSpec
from graftax.savedmodel_io.saved_model import SavedModel, load

_DATA = Path(__file__).parent / "testdata/2026_11_21"


def _assert_equal(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
  theirs = np.asarray(theirs)
  assert ours.shape == theirs.shape, what
  if ours.dtype == object:
    assert ours.ravel().tolist() == theirs.ravel().tolist(), what
  else:
    assert ours.dtype == theirs.dtype, what
    assert ours.tobytes() == theirs.tobytes(), what


def _assert_same_checkpoint(prefix: str) -> None:
  reader = tf.train.load_checkpoint(prefix)
  ours = read_checkpoint(prefix)
  shapes = reader.get_variable_to_shape_map()
  assert ours.keys() == shapes.keys()
  for key, array in ours.items():
    _assert_equal(array, reader.get_tensor(key), key)


@pytest.mark.parametrize("prefix", ["sharded/ckpt", "training/ckpt-2", "partitioned_v2/model.ckpt"])
def test_the_artifacts_read_as_in_tensorflow(prefix):
  _assert_same_checkpoint(str(_DATA / prefix))


def test_the_first_format_reads_as_in_tensorflow():
  path = str(_DATA / "partitioned_v1/model.ckpt")
  ours = CheckpointReader(path)
  # TensorFlow's reader object refuses slices in this format; its op reads them.
  for key, dtype in {"rows": tf.float32, "columns": tf.int64}.items():
    theirs = tf.raw_ops.Restore(file_pattern=path, tensor_name=key, dt=dtype)
    _assert_equal(ours[key], theirs.numpy(), key)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4), (1000,)])
def test_every_dtype_and_rank_reads_as_in_tensorflow(tmp_path, shape):
  values = np.random.default_rng(0).integers(0, 2, shape)
  names = "float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex64 complex128"
  tensors = {name: tf.cast(values, getattr(tf, name)) for name in names.split()}
  tensors["string"] = tf.strings.as_string(values)
  prefix = str(tmp_path / "ckpt")
  tf.raw_ops.SaveV2(
    prefix=prefix, tensor_names=list(tensors), shape_and_slices=[""] * len(tensors), tensors=list(tensors.values())
  )
  ours = read_checkpoint(prefix)
  for name, tensor in tensors.items():
    _assert_equal(ours[name], np.asarray(tensor.numpy(), object if name == "string" else None), name)


def test_slices_of_any_place_read_as_in_tensorflow(tmp_path):
  # Starts and lengths beyond 63 and 8191 take more bytes in the slices' keys.
  big = tf.range(20_000, dtype=tf.float32)
  parts = [(0, 60), (60, 10), (70, 8_200), (8_270, 11_730)]
  specs = [f"20000 {start},{length}" for start, length in parts] + ["2 3 -:0,2", "2 3 -:2,1", "2 3 0,2:-"]
  matrix = tf.reshape(tf.range(6), [2, 3])
  prefix = str(tmp_path / "ckpt")
  tf.raw_ops.SaveV2(
    prefix=prefix,
    tensor_names=["big"] * 4 + ["m\u00e9"] * 2 + ["full"],
    shape_and_slices=specs,
    tensors=[big[start : start + length] for start, length in parts] + [matrix[:, :2], matrix[:, 2:], matrix],
  )
  _assert_same_checkpoint(prefix)
  region = CheckpointReader(prefix).read_region("big", (slice(50, 9_000),))
  np.testing.assert_array_equal(region, np.arange(50, 9_000, dtype=np.float32))


def test_merged_shards_read_as_in_tensorflow(tmp_path):
  parts = [str(tmp_path / f"part{i}") for i in range(12)]
  for i, part in enumerate(parts):
    tf.raw_ops.SaveV2(
      prefix=part,
      tensor_names=[f"t{i}", f"s{i}"],
      shape_and_slices=["", ""],
      tensors=[tf.fill([i], i), tf.constant(str(i))],
    )
  prefix = str(tmp_path / "merged")
  tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)
  _assert_same_checkpoint(prefix)


def test_a_checkpoint_of_many_tensors_fills_many_blocks(tmp_path):
  names = [f"model/layer_{i:05d}/a_rather_long_name_of_a_variable" for i in range(5_000)]
  prefix = str(tmp_path / "ckpt")
  tf.raw_ops.SaveV2(
    prefix=prefix,
    tensor_names=names,
    shape_and_slices=[""] * len(names),
    tensors=[tf.constant(i) for i in range(5_000)],
  )
  ours = read_checkpoint(prefix)
  assert [ours[name][()] for name in names] == list(range(5_000))


def test_training_state_with_an_optimizer_reads_as_in_tensorflow(tmp_path):
  import keras

  model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
  model.compile("adam", "mse")
  model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
  manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, step=tf.Variable(1)), str(tmp_path), 2)
  manager.save()
  assert latest_checkpoint(tmp_path) == tf.train.latest_checkpoint(str(tmp_path))
  _assert_same_checkpoint(latest_checkpoint(tmp_path))


# SavedModels: signatures, functions and variables as TensorFlow restores them.


def _assert_same_spec(ours, theirs, where: str) -> None:
  """A leaf of a structure: a spec or a Python value."""
  if isinstance(theirs, tf.RaggedTensorSpec):
    assert isinstance(ours, RaggedTensorSpec) and ours.ragged_rank == theirs.ragged_rank, where
  elif isinstance(theirs, tf.SparseTensorSpec):
    assert isinstance(ours, SparseTensorSpec), where
  elif isinstance(theirs, (tf.TensorSpec, tf.Tensor)):
    assert isinstance(ours, TensorSpec), where
  elif type(theirs).__name__ == "VariableSpec":
    assert isinstance(ours, VariableSpec), where
  else:
    assert ours == theirs and type(ours) is type(theirs), where
    return
  dims = theirs.shape.as_list() if theirs.shape.rank is not None else None
  assert (None if ours.shape.dims is None else list(ours.shape.dims)) == dims, where
  assert ours.dtype == theirs.dtype.as_datatype_enum, where


def _assert_same_structure(ours, theirs, where: str) -> None:
  our_leaves = flatten_structure(ours)
  their_leaves = tf.nest.flatten(theirs)
  assert len(our_leaves) == len(their_leaves), (where, ours, theirs)
  for our_leaf, their_leaf in zip(our_leaves, their_leaves, strict=True):
    _assert_same_spec(our_leaf, their_leaf, where)


def _assert_same_model(path: Path, tags: list[str] | None = None) -> tuple[SavedModel, object]:
  theirs = tf.saved_model.load(str(path), tags=tags)
  ours = load(path, tags)
  assert set(ours.signatures) == set(theirs.signatures)
  for name, signature in ours.signatures.items():
    concrete = theirs.signatures[name]
    _assert_same_structure(dict(signature.inputs), concrete.structured_input_signature[1], name)
    _assert_same_structure(dict(signature.outputs), concrete.structured_outputs, name)
  for function_path, function in ours.functions.items():
    concretes = functools.reduce(_child, function_path.split("."), theirs).concrete_functions
    assert len(concretes) == len(function.concrete_functions)
    for our_concrete, concrete in zip(function.concrete_functions, concretes, strict=True):
      inputs = (our_concrete.args, dict(our_concrete.kwargs))
      _assert_same_structure(inputs, concrete.structured_input_signature, function_path)
      _assert_same_structure(our_concrete.outputs, concrete.structured_outputs, function_path)
      _assert_same_captures(ours, our_concrete, concrete)
  return ours, theirs


def _child(parent, name: str):
  return parent[int(name)] if name.isdigit() else getattr(parent, name)


def _assert_same_captures(ours: SavedModel, our_concrete, concrete) -> None:
  variables = {id(variable.handle): variable for variable in concrete.graph.variables}
  assert len(our_concrete.captures) == len(concrete.captured_inputs)
  for capture, tensor in zip(our_concrete.captures, concrete.captured_inputs, strict=True):
    match type(capture).__name__:
      case "VariableCapture":
        variable = variables[id(tensor)]
        info = ours.variables.info(capture.name)
        _assert_equal(ours.variables[capture.name], variable.numpy(), capture.name)
        assert (info.tf_name + ":0", info.trainable) == (variable.name, variable.trainable)
      case "ConstantCapture":
        _assert_equal(capture.value.numpy(), tensor.numpy(), capture.node)
      case "ResourceCapture":
        assert tensor.dtype == tf.resource
      case "AssetCapture":
        assert str(capture.path) == tensor.numpy().decode()


@pytest.mark.parametrize("name", ["module", "keras_export"])
def test_the_saved_models_read_as_in_tensorflow(name):
  _assert_same_model(_DATA / name)


def test_the_tf1_model_reads_as_in_tensorflow():
  ours, _ = _assert_same_model(_DATA / "tf1_partitioned", ["serve"])
  _assert_same_graph_variables(ours)


def _assert_same_graph_variables(ours: SavedModel) -> None:
  """TensorFlow 2 hides reference variables, so the graph is restored into a session as in TensorFlow 1."""
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.saved_model.load(session, sorted(ours.tags), ours.path)
    theirs = {v.op.name: session.run(v) for v in tf.compat.v1.global_variables()}
    trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
  assert ours.variables.keys() == theirs.keys()
  for name, value in ours.variables.items():
    _assert_equal(value, theirs[name], name)
    assert ours.variables.info(name).trainable == (name in trainable), name


def test_a_keras_model_with_its_optimizer_reads_as_in_tensorflow(tmp_path):
  import keras

  inputs = keras.Input((4, 3))
  hidden = keras.layers.LSTM(5)(inputs)
  model = keras.Model(inputs, {"a": keras.layers.Dense(2)(hidden), "b": hidden})
  model.compile("adam", {"a": "mse", "b": "mse"})
  model.fit(np.ones((4, 4, 3)), {"a": np.ones((4, 2)), "b": np.ones((4, 5))}, verbose=0)
  tf.saved_model.save(model, str(tmp_path / "m"))
  ours, _ = _assert_same_model(tmp_path / "m")
  names = [info.tf_name for info in ours.variables.infos.values()]
  assert any("momentum" in name for name in names) and all(info.has_value for info in ours.variables.infos.values())


def test_odd_functions_read_as_in_tensorflow(tmp_path):
  class Model(tf.Module):
    def __init__(self):
      super().__init__(name="odd")
      self.bag = {"a.b": tf.Variable(1.0, name="x"), "c": tf.Variable([2.0], name="x")}
      self.half = tf.Variable(tf.cast([1, 2], tf.bfloat16))
      self.words = tf.Variable(["p", "q"])
      self.open = tf.Variable(tf.zeros([2, 2]), shape=tf.TensorShape([None, None]))
      self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    @tf.function
    def many(self, x, *rest, flag=True, **options):
      return [x, *rest], options, flag

    @tf.function(input_signature=[])
    def nothing(self):
      return tf.constant(3)

    @tf.function(input_signature=[{"k": [tf.TensorSpec([], tf.int32), tf.TensorSpec(None, tf.bool)]}])
    def nested(self, tree):
      return tree

    @tf.function
    def keyed(self, x, mode="fast", scale=1.5, count=3, nothing=None):
      return x * self.bag["a.b"] * self.bag["c"] * scale

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def no_result(self, x):
      self.bag["c"].assign(x[:1])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def find(self, keys):
      return self.table.lookup(keys), tf.shape(self.open), self.half, self.words

  model = Model()
  model.many(tf.constant(1), tf.constant([2.0]), tf.constant(True), flag=False, extra=tf.constant("s"))
  model.keyed(tf.zeros([2]))
  model.keyed(tf.zeros([3]), "slow", nothing=None)
  model.table.insert(tf.constant(["one"]), tf.constant([1], tf.int64))
  tf.saved_model.save(model, str(tmp_path / "m"))
  ours, _ = _assert_same_model(tmp_path / "m")
  assert set(ours.functions) == {"many", "nothing", "nested", "keyed", "no_result", "find"}
  (words,) = [name for name, info in ours.variables.infos.items() if info.path == ("words",)]
  assert ours.variables[words].tolist() == [b"p", b"q"]
  key = ours.resources["table"].checkpoint_keys["table"]
  assert ours.checkpoint[f"{key}-keys"].tolist() == [b"one"] and ours.checkpoint[f"{key}-values"].tolist() == [1]


def test_a_variable_shared_by_two_attributes_is_one(tmp_path):
  root = tf.Module()
  root.a = root.b = tf.Variable([1.0], name="shared")
  root.f = tf.function(lambda: root.a + root.b, input_signature=[])
  tf.saved_model.save(root, str(tmp_path / "m"))
  ours, _ = _assert_same_model(tmp_path / "m")
  assert list(ours.variables) == ["shared"]


def test_a_model_without_variables_reads_as_in_tensorflow(tmp_path):
  root = tf.Module()
  root.f = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([None])])
  tf.saved_model.save(root, str(tmp_path / "m"), signatures=root.f)
  ours, _ = _assert_same_model(tmp_path / "m")
  assert len(ours.variables) == 0


def _build_tf1(folder: Path, build, tags: list[str], **kwargs) -> None:
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    inputs, outputs, extra = build()
    session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
    signature = tf.compat.v1.saved_model.predict_signature_def(inputs, outputs)
    builder = tf.compat.v1.saved_model.Builder(str(folder))
    builder.add_meta_graph_and_variables(session, tags, {"serving_default": signature}, **extra, **kwargs)
    builder.save()


def test_a_tf1_model_with_a_table_and_assets_reads_as_in_tensorflow(tmp_path):
  (tmp_path / "words.txt").write_text("red\ngreen\n")

  def build():
    words = tf.compat.v1.placeholder(tf.string, [None], name="words")
    path = tf.constant(str(tmp_path / "words.txt"))
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS, path)
    lines = tf.lookup.TextFileInitializer(
      path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    table = tf.lookup.StaticHashTable(lines, -1)
    embedding = tf.compat.v1.get_variable("embedding", [2, 3], use_resource=True)
    result = tf.gather(embedding, table.lookup(words))
    assets = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS)
    extra = {"assets_collection": assets, "main_op": tf.compat.v1.tables_initializer()}
    return {"words": words}, {"vectors": result}, extra

  _build_tf1(tmp_path / "m", build, ["serve"])
  ours, _ = _assert_same_model(tmp_path / "m", ["serve"])
  assert ours.init_op is not None and ours.graph.node(ours.init_op)
  assert ours.assets["words.txt"].read_text() == "red\ngreen\n"
  assert ours.graph.node(ours.assets.entries[0].tensor.partition(":")[0]).op == "Const"
  _assert_same_graph_variables(ours)


def test_a_tf1_model_with_scopes_and_shared_variables_reads_as_in_tensorflow(tmp_path):
  def build():
    x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
    with tf.compat.v1.variable_scope("tower", reuse=tf.compat.v1.AUTO_REUSE):
      y = x
      for _ in range(2):
        y = y @ tf.compat.v1.get_variable("w", [2, 2], use_resource=False)
    with tf.name_scope("scope"):
      y = y + tf.compat.v1.Variable([1.0, 2.0], trainable=False, use_resource=True)
    return {"x": x}, {"y": y}, {}

  _build_tf1(tmp_path / "m", build, ["a", "b"])
  ours, _ = _assert_same_model(tmp_path / "m", ["a", "b"])
  assert set(ours.variables) == {"tower/w", "scope/Variable"}
  _assert_same_graph_variables(ours)
