"""What we write, read by TensorFlow."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import split_trainable
from graftax.graphdef_ir import DType
from graftax.savedmodel_io import CheckpointReader, load, write_checkpoint

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_WITHOUT_ARRAYS = (DType.INVALID, DType.RESOURCE, DType.VARIANT)
_DTYPES = {t.numpy.name: t.numpy for t in DType if not t.is_ref and t not in (*_WITHOUT_ARRAYS, DType.STRING)}


def _assert_same(ours: np.ndarray, theirs, what: str) -> None:
  theirs = np.asarray(theirs, object if ours.dtype == object else None)
  assert ours.shape == theirs.shape, what
  if ours.dtype == object:
    assert ours.ravel().tolist() == theirs.ravel().tolist(), what
  else:
    assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes(), what


def _assert_tensorflow_reads(prefix: Path, expected: dict[str, np.ndarray]) -> None:
  reader, ours = tf.train.load_checkpoint(str(prefix)), CheckpointReader(prefix, verify=True)
  assert reader.get_variable_to_shape_map().keys() == expected.keys()
  restored = tf.raw_ops.RestoreV2(
    prefix=str(prefix),
    tensor_names=list(expected),
    shape_and_slices=[""] * len(expected),
    dtypes=[tf.as_dtype(int(ours.dtype(key))) for key in expected],
  )
  for (key, value), tensor in zip(expected.items(), restored, strict=True):
    _assert_same(value, reader.get_tensor(key), key)
    _assert_same(value, tensor.numpy(), key)
    _assert_same(value, ours[key], key)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (1000,)])
def test_every_dtype_and_rank_is_read_bit_for_bit(tmp_path, shape):
  rng = np.random.default_rng(0)
  tensors = {name: rng.integers(0, 2, shape).astype(dtype) for name, dtype in _DTYPES.items()}
  tensors["strings"] = rng.integers(0, 10**9, shape).astype("S").astype(object)
  write_checkpoint(tmp_path / "c", tensors, max_shard_bytes=5_000)
  _assert_tensorflow_reads(tmp_path / "c", {key: np.asarray(value) for key, value in tensors.items()})


def test_long_strings_and_special_bits_are_read(tmp_path):
  tensors = {
    "nan": np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], np.uint32).view(np.float32),
    "strings": np.array([[b"", b"\x00\xff"], [b"x" * 300, b"y" * 70_000]], object),
    "m\u00e9": np.float32([1]),
  }
  write_checkpoint(tmp_path / "c", tensors)
  _assert_tensorflow_reads(tmp_path / "c", tensors)


_SHARDED = """
import sys, jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 4)
from graftax.savedmodel_io import load, write_checkpoint
mesh = jax.make_mesh((2, 2), ("a", "b"))
def put(x, *axes): return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*axes)))
x = jnp.arange(24.0).reshape(4, 6)
write_checkpoint(sys.argv[1], {
  "both": put(x, "a", "b"), "columns": put(x, None, "b"), "replicated": put(x), "joint": put(x[:, 0], ("a", "b")),
  "long": put(jnp.arange(40_000, dtype=jnp.int32), "a"), "bfloat16": put(x.astype(jnp.bfloat16), "a"),
}, max_shard_bytes=100_000)
for name, model, value in zip(sys.argv[2::2], map(load, sys.argv[3::2]), (2.0, 3.0)):
  model.save(sys.argv[1] + name, {
    name: put(jnp.full(value_.shape, value), *(("a",) if value_.shape and value_.shape[0] % 2 == 0 else ()))
    for name, value_ in model.variables.items() if value_.dtype == "float32"
  })
"""


def test_sharded_arrays_are_read_whole_and_in_slices(tmp_path):
  prefix = str(tmp_path / "c")
  models = [part for name in ("keras_export", "tf1_partitioned") for part in (name, str(_DATA / name))]
  subprocess.run([sys.executable, "-c", _SHARDED, prefix, *models], check=True)
  x = np.arange(24, dtype=np.float32).reshape(4, 6)
  expected = {
    "both": x,
    "columns": x,
    "replicated": x,
    "joint": x[:, 0],
    "long": np.arange(40_000, dtype=np.int32),
    "bfloat16": x.astype(tf.bfloat16.as_numpy_dtype),
  }
  _assert_tensorflow_reads(tmp_path / "c", expected)
  slices = {key: [str(part) for part in entry.slices] for key, entry in CheckpointReader(prefix).entries.items()}
  assert slices["both"] == ["0,2:0,3", "0,2:3,3", "2,2:0,3", "2,2:3,3"]
  assert slices["columns"] == ["-:0,3", "-:3,3"]
  assert slices["replicated"] == []
  specs = {"4 6 1,2:2,3": x[1:3, 2:5], "4 6 -:0,3": x[:, :3]}
  parts = tf.raw_ops.RestoreV2(
    prefix=prefix, tensor_names=["both"] * 2, shape_and_slices=list(specs), dtypes=[tf.float32] * 2
  )
  for expected_part, part in zip(specs.values(), parts, strict=True):
    _assert_same(expected_part, part.numpy(), "both")
  _assert_models_with_sharded_values_load(prefix)


def _assert_models_with_sharded_values_load(prefix: str) -> None:
  keras, partitioned = load(prefix + "keras_export"), load(prefix + "tf1_partitioned")
  kernel = next(info for info in keras.variables.infos.values() if info.tf_name.endswith("head/kernel"))
  assert [str(part) for part in keras.checkpoint.entry(kernel.checkpoint_key).slices] == ["0,1:-", "1,1:-"]
  assert [str(part) for part in partitioned.checkpoint.entry("matrix").slices] == ["0,2:0,3", "2,2:0,3"]
  for model, value in ((keras, 2), (partitioned, 3)):
    assert all((v == value).all() for v in model.variables.values() if v.dtype == np.float32)
    fn, params = model.convert("serving_default")
    (name, spec), *_ = model.signatures["serving_default"].inputs.items()
    inputs = {name: np.ones([dim or 5 for dim in spec.shape.dims], np.float32)}
    _assert_tensorflow_computes(Path(model.path), inputs, fn(params, **inputs)[0])


def test_variables_are_restored_by_a_tensorflow_checkpoint_object(tmp_path):
  variable = tf.Variable(tf.zeros([2, 3]))
  saved = tf.train.Checkpoint(v=variable).write(str(tmp_path / "theirs"))
  theirs = dict(CheckpointReader(saved))
  new = np.arange(6, dtype=np.float32).reshape(2, 3)
  write_checkpoint(tmp_path / "ours", {**theirs, "v/.ATTRIBUTES/VARIABLE_VALUE": new})
  tf.train.Checkpoint(v=variable).read(str(tmp_path / "ours")).assert_consumed()
  _assert_same(new, variable.numpy(), "v")


def test_merged_with_a_checkpoint_of_tensorflow_both_are_read(tmp_path):
  ours, theirs = {"ours": np.arange(3), "words": np.array([b"a"], object)}, {"theirs": np.float32([1, 2])}
  write_checkpoint(tmp_path / "a", ours, max_shard_bytes=10)
  tf.raw_ops.SaveV2(
    prefix=str(tmp_path / "b"), tensor_names=["theirs"], shape_and_slices=[""], tensors=[theirs["theirs"]]
  )
  tf.raw_ops.MergeV2Checkpoints(
    checkpoint_prefixes=[str(tmp_path / "a"), str(tmp_path / "b")], destination_prefix=str(tmp_path / "merged")
  )
  _assert_tensorflow_reads(tmp_path / "merged", {**ours, **theirs})


# SavedModels that were read, tuned in JAX, and saved.


def _tuned(fn, params: dict, inputs: dict, output: str, num_steps: int = 10) -> dict:
  """`params` after some steps of gradient descent, compiled, towards outputs of 1."""
  trainable, rest = split_trainable(params)

  def loss(trainable):
    return jnp.mean((fn({**trainable, **rest}, **inputs)[0][output] - 1.0) ** 2)

  step = jax.jit(lambda p: jax.tree.map(lambda value, slope: value - 0.05 * slope, p, jax.grad(loss)(p)))
  before = loss(trainable)
  for _ in range(num_steps):
    trainable = step(trainable)
  assert loss(trainable) < 0.9 * before
  return trainable


def _assert_tensorflow_computes(folder: Path, inputs: dict, expected: dict) -> None:
  theirs = tf.saved_model.load(str(folder), tags=["serve"]).signatures["serving_default"](
    **{key: tf.constant(value) for key, value in inputs.items()}
  )
  assert theirs.keys() == expected.keys()
  for key, value in expected.items():
    np.testing.assert_allclose(np.asarray(value), theirs[key].numpy(), 1e-5, 1e-5, err_msg=key)


@pytest.mark.parametrize(("name", "output"), [("keras_export", "output_0"), ("tf1_partitioned", "y")])
def test_a_model_tuned_in_jax_and_saved_computes_the_same_in_tensorflow(tmp_path, name, output):
  model = load(_DATA / name)
  predict, params = model.convert("serving_default")
  rng = np.random.default_rng(0)
  inputs = {
    key: rng.random([dim or 5 for dim in spec.shape.dims], np.float32)
    for key, spec in model.signatures["serving_default"].inputs.items()
  }
  tuned = _tuned(predict, params, inputs, output)
  model.save(tmp_path / "m", tuned)
  expected = predict({**params, **tuned}, **inputs)[0]
  _assert_tensorflow_computes(tmp_path / "m", inputs, expected)
  assert not np.allclose(expected[output], predict(params, **inputs)[0][output])
  # Written by us, read by us.
  predict_again, params_again = load(tmp_path / "m").convert("serving_default")
  np.testing.assert_array_equal(predict_again(params_again, **inputs)[0][output], expected[output])


def test_a_saved_model_with_assets_tables_and_strings_loads_in_tensorflow(tmp_path):
  model = load(_DATA / "module")
  model.save(tmp_path / "m")
  loaded = [tf.saved_model.load(str(folder)) for folder in (_DATA / "module", tmp_path / "m")]
  functions = [model.signatures for model in loaded]
  assert functions[0].keys() == functions[1].keys()
  for name, function in functions[0].items():
    values, ours = ({v.name: v.numpy() for v in f.variables} for f in (function, functions[1][name]))
    assert values.keys() == ours.keys()
    for key, value in values.items():
      _assert_same(np.asarray(value), ours[key], key)
  fingerprint = tf.saved_model.experimental.read_fingerprint(str(tmp_path / "m"))
  assert fingerprint.singleprint() != tf.saved_model.experimental.read_fingerprint(str(_DATA / "module")).singleprint()


def test_a_tf1_model_is_restored_in_a_session(tmp_path):
  model = load(_DATA / "tf1_partitioned")
  new = {name: np.full_like(value, 3) for name, value in model.variables.items()}
  model.save(tmp_path / "m", new)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "m"))
    theirs = {v.op.name: session.run(v) for v in tf.compat.v1.global_variables()}
  assert theirs.keys() == new.keys()
  for name, value in new.items():
    _assert_same(value, theirs[name], name)


def test_optimizer_state_strings_and_open_shapes_are_written_back(tmp_path):
  class Model(tf.Module):
    def __init__(self):
      super().__init__()
      self.words = tf.Variable(["p", "q"])
      self.open = tf.Variable(tf.zeros([2, 2]), shape=tf.TensorShape([None, 2]))
      self.half = tf.Variable(tf.cast([1, 2], tf.bfloat16))
      self.count = tf.Variable(2**40 + 1, dtype=tf.int64)
      self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    @tf.function(input_signature=[])
    def read(self):
      return {"open": self.open.read_value(), "words": self.words, "half": self.half, "count": self.count}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def find(self, keys):
      return self.table.lookup(keys)

  original = Model()
  original.table.insert(tf.constant(["one"]), tf.constant([1], tf.int64))
  tf.saved_model.save(original, str(tmp_path / "theirs"))
  model = load(tmp_path / "theirs")
  names = {info.path[0]: name for name, info in model.variables.infos.items() if info.path}
  new = {
    "words": np.array([b"\x00", b"long" * 100], object),
    "open": jnp.ones((5, 2)),
    "half": jnp.ones(2, jnp.bfloat16),
  }
  model.save(tmp_path / "ours", {names[key]: value for key, value in new.items()})
  restored = tf.saved_model.load(str(tmp_path / "ours"))
  got = {key: value.numpy() for key, value in restored.read().items()}
  assert got["words"].tolist() == new["words"].tolist()
  np.testing.assert_array_equal(got["open"], np.ones((5, 2)))
  np.testing.assert_array_equal(got["half"], [1, 1])
  assert got["count"] == 2**40 + 1
  assert restored.find(tf.constant(["one"])).numpy().tolist() == [1]
