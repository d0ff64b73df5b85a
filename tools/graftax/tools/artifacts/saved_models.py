"""Writes the tiny SavedModels and checkpoints that the tests of savedmodel_io read, with an installed TensorFlow.

    python -m graftax.tools.artifacts.saved_models savedmodel_io/graftax/savedmodel_io/testdata/2026_11_21

A new run goes to a new dated folder beside the old ones: what an older TensorFlow wrote must stay readable. Names after
the folder write only those artifacts. Values are small and written down here, so that the tests can state them without
TensorFlow.
"""

import argparse
import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.tools._tensorflow import TensorFlow, TfTensor

__all__ = ["main"]

_DTYPES = (
  "float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex64 complex128".split()
)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("folder", help="new folder to write to")
  parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(_WRITERS)} (default: all)")
  arguments = parser.parse_args()
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  import tensorflow as tf

  os.makedirs(arguments.folder)
  for name in arguments.names or _WRITERS:
    _WRITERS[name](tf, os.path.join(arguments.folder, name))


def _write_raw_checkpoint(tf: TensorFlow, folder: str) -> None:
  """Writes every dtype as [0, 1, 3] (bool: false, true, true), a scalar, an empty tensor and strings."""
  tensors = {name: tf.cast(tf.constant([0, 1, 3]), getattr(tf, name)) for name in _DTYPES}
  tensors["float8_e5m2"] = tf.cast(tf.constant([0.0, 1.0, 3.0]), tf.dtypes.experimental.float8_e5m2)
  tensors["float8_e4m3fn"] = tf.cast(tf.constant([0.0, 1.0, 3.0]), tf.dtypes.experimental.float8_e4m3fn)
  tensors["scalar"] = tf.constant(2.5)
  tensors["empty"] = tf.zeros([2, 0, 3])
  tensors["strings"] = tf.constant([[b"", b"ab"], [b"\x00\xff", b"x" * 200]])
  tensors["no_strings"] = tf.zeros([0], tf.string)
  tensors["one_string"] = tf.constant(b"one")
  tensors["\u00e9t\u00e9/kernel"] = tf.reshape(tf.range(6.0), [2, 3])
  _save(tf, os.path.join(folder, "ckpt"), tensors)


def _write_sharded_checkpoint(tf: TensorFlow, folder: str) -> None:
  """Writes two shards: `a` = 0..5 as [2, 3] int32, and `b` = [1.5, -2]."""
  parts = [os.path.join(folder, "part_0"), os.path.join(folder, "part_1")]
  _save(tf, parts[0], {"a": tf.reshape(tf.range(6), [2, 3])})
  _save(tf, parts[1], {"b": tf.constant([1.5, -2.0])})
  tf.raw_ops.MergeV2Checkpoints(
    checkpoint_prefixes=parts, destination_prefix=os.path.join(folder, "ckpt"), delete_old_dirs=False
  )
  for name in os.listdir(folder):
    if name.startswith("part_"):
      os.remove(os.path.join(folder, name))


def _save(tf: TensorFlow, prefix: str, tensors: dict[str, TfTensor]) -> None:
  os.makedirs(os.path.dirname(prefix), exist_ok=True)
  tf.raw_ops.SaveV2(
    prefix=prefix, tensor_names=list(tensors), shape_and_slices=[""] * len(tensors), tensors=list(tensors.values())
  )


def _write_object_checkpoint(tf: TensorFlow, folder: str) -> None:
  """Writes what a training loop leaves: two checkpoints, the newest of step 2, and the `checkpoint` file."""
  step = tf.Variable(0, dtype=tf.int64)
  weight = tf.Variable([1.0, 2.0])
  manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step, net=[weight]), folder, max_to_keep=5)
  for _ in range(2):
    step.assign_add(1)
    weight.assign_add([1.0, 1.0])
    manager.save()


def _write_partitioned_v1(tf: TensorFlow, folder: str) -> None:
  _write_partitioned_checkpoint(tf, folder, "V1")


def _write_partitioned_v2(tf: TensorFlow, folder: str) -> None:
  _write_partitioned_checkpoint(tf, folder, "V2")


def _write_partitioned_checkpoint(tf: TensorFlow, folder: str, version: str) -> None:
  """Writes `rows` = 0..19 as [5, 4] in 3 pieces, `columns` = 0..5 as [2, 3] in 2, and `whole` = strings."""
  os.makedirs(folder)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    _partitioned(tf, "rows", np.arange(20, dtype=np.float32).reshape(5, 4), 3, 0)
    _partitioned(tf, "columns", np.arange(6, dtype=np.int64).reshape(2, 3), 2, 1)
    tf.compat.v1.get_variable("whole", initializer=tf.constant([b"ab", b""]))
    session.run(tf.compat.v1.global_variables_initializer())
    saver = tf.compat.v1.train.Saver(write_version=getattr(tf.compat.v1.train.SaverDef, version))
    saver.save(session, os.path.join(folder, "model.ckpt"), write_meta_graph=False, write_state=False)


def _partitioned(tf: TensorFlow, name: str, value: np.ndarray, pieces: int, axis: int) -> TfTensor:
  def initializer(shape: Any, dtype: Any, partition_info: Any) -> TfTensor:
    begin = partition_info.var_offset
    return tf.constant(value[tuple(slice(b, b + int(s)) for b, s in zip(begin, shape, strict=True))], dtype)

  return tf.compat.v1.get_variable(
    name,
    value.shape,
    tf.as_dtype(value.dtype),
    initializer,
    partitioner=tf.compat.v1.fixed_size_partitioner(pieces, axis=axis),
    use_resource=False,
  )


def _write_module(tf: TensorFlow, folder: str) -> None:
  """Functions at several depths, equal variable names, a table, an asset, constants and nested results."""
  vocabulary = folder + "_words.txt"
  with open(vocabulary, "w") as f:
    f.write("red\ngreen\n")

  class Layer(tf.Module):
    def __init__(self, value: float):
      super().__init__()
      self.w = tf.Variable(value, name="w")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def call(self, x: TfTensor) -> TfTensor:
      return x * self.w

  class Model(tf.Module):
    def __init__(self) -> None:
      super().__init__()
      self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
      self.frozen = tf.Variable([5, 6], trainable=False, name="frozen", dtype=tf.int64)
      self.offset = tf.constant([10.0, 20.0])
      self.layers = [Layer(7.0), Layer(8.0)]
      keys_values = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
      self.table = tf.lookup.StaticHashTable(keys_values, -1)
      lines = tf.lookup.TextFileInitializer(
        vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
      )
      self.words = tf.lookup.StaticHashTable(lines, -1)

    @tf.function
    def nested(self, x: TfTensor, training: bool = False, *, scale: float = 2.0) -> TfTensor:
      return {"y": x @ self.w + self.offset * scale, "rest": (x, [x, None])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def look_up(self, words: TfTensor) -> TfTensor:
      return {"count": self.table.lookup(words), "line": self.words.lookup(words)}

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32), tf.SparseTensorSpec([3, 4], tf.int32)])
    def composites(self, ragged: TfTensor, sparse: TfTensor) -> TfTensor:
      return ragged, sparse

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def predict(self, x: TfTensor) -> TfTensor:
      return {"y": x @ self.w + tf.cast(self.frozen, tf.float32)}

  model = Model()
  model.nested(tf.zeros([1, 2]))
  model.nested(tf.zeros([3, 2]), training=True, scale=3.0)
  tf.saved_model.save(model, folder, signatures={"serving_default": model.predict, "look_up": model.look_up})
  os.remove(vocabulary)


def _write_keras_export(tf: TensorFlow, folder: str) -> None:
  """Writes a dense layer [2, 1] of ones on batch normalization, as Keras 3 exports it for inference."""
  import keras

  model = keras.Sequential(
    [
      keras.Input((2,), name="features"),
      keras.layers.BatchNormalization(name="norm"),
      keras.layers.Dense(1, name="head", kernel_initializer="ones"),
    ]
  )
  model.export(folder, verbose=False)


def _write_tf1_model(tf: TensorFlow, folder: str) -> None:
  """Writes a TF1 graph: a variable in two pieces, a resource variable, a frozen one and two tag sets."""
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
    matrix = _partitioned(tf, "matrix", np.arange(12, dtype=np.float32).reshape(4, 3), 2, 0)
    bias = tf.compat.v1.get_variable("bias", initializer=[1.0, 2.0, 3.0], use_resource=True)
    fixed = tf.compat.v1.get_variable("fixed", initializer=[0.5], trainable=False, use_resource=False)
    y = tf.add(tf.matmul(x, tf.convert_to_tensor(matrix)) + bias, fixed, name="y")
    session.run(tf.compat.v1.global_variables_initializer())
    signature = tf.compat.v1.saved_model.predict_signature_def({"x": x}, {"y": y})
    builder = tf.compat.v1.saved_model.Builder(folder)
    builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, strip_default_attrs=True)
    builder.add_meta_graph(["serve", "gpu"], {"serving_default": signature}, strip_default_attrs=True)
    builder.save()
  shutil.rmtree(os.path.join(folder, "assets"), ignore_errors=True)


def _write_tf1_control_flow(tf: TensorFlow, folder: str) -> None:
  """Writes a TF1 graph with a loop and a conditional, a variable that it reads and one that it does not."""
  tf1 = tf.compat.v1
  tf1.disable_control_flow_v2()
  with tf.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float32, [None], name="x")
    factor = tf1.get_variable("factor", initializer=2.0, use_resource=False)
    tf1.get_variable("spare", initializer=[1.0, 2.0], use_resource=False)
    _, powers = tf1.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * factor), [0, x])
    y = tf1.cond(tf.reduce_sum(x) > 0, lambda: powers, lambda: -powers)
    session.run(tf1.global_variables_initializer())
    tf1.saved_model.simple_save(session, folder, {"x": x}, {"y": tf.identity(y, name="y")})
  tf1.enable_control_flow_v2()


def _write_text_and_shapes(tf: TensorFlow, folder: str) -> None:
  """Functions of two traces each, of which one reads a table of strings, and one whose sizes must be numbers."""

  class Model(tf.Module):
    def __init__(self) -> None:
      super().__init__()
      self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), 0.0)
      self.scale = tf.Variable(3.0, name="scale")

    @tf.function
    def embed(self, words: TfTensor, raw: bool = False) -> TfTensor:
      return words if raw else self.table.lookup(words) * self.scale

    @tf.function
    def score(self, x: TfTensor, words: bool = False) -> TfTensor:
      return x * self.table.lookup(tf.constant("a")) if words else x * self.scale

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
    def pairs(self, x: TfTensor) -> TfTensor:
      return {"y": tf.reshape(x, [-1, 2]) * self.scale}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def noise(self, x: TfTensor) -> TfTensor:
      return {"y": x + tf.random.normal(tf.shape(x))}

  model = Model()
  words, x = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.float32)
  for flag in (True, False):
    model.embed.get_concrete_function(words, raw=flag)
    model.score.get_concrete_function(x, words=flag)
  tf.saved_model.save(model, folder, signatures={"pairs": model.pairs, "noise": model.noise})


def _write_classifier(tf: TensorFlow, folder: str) -> None:
  """Writes a classifier with batch normalization, with one trace that updates its statistics and one that uses them."""
  generator = np.random.default_rng(0)

  class Classifier(tf.Module):
    def __init__(self) -> None:
      super().__init__()
      with tf.name_scope("classifier"):
        self.kernel = tf.Variable(generator.normal(size=(4, 8)).astype(np.float32), name="hidden/kernel")
        self.gamma = tf.Variable(tf.ones(8), name="norm/gamma")
        self.beta = tf.Variable(tf.zeros(8), name="norm/beta")
        self.mean = tf.Variable(tf.zeros(8), trainable=False, name="norm/moving_mean")
        self.variance = tf.Variable(tf.ones(8), trainable=False, name="norm/moving_variance")
        self.num_steps = tf.Variable(tf.constant(0, tf.int64), trainable=False, name="num_steps")
        self.head = tf.Variable(generator.normal(size=(8, 3)).astype(np.float32), name="head/kernel")
        self.bias = tf.Variable(tf.zeros(3), name="head/bias")

    @tf.function
    def __call__(self, x: TfTensor, training: bool = False) -> TfTensor:
      hidden = x @ self.kernel
      if training:
        mean, variance = tf.nn.moments(hidden, [0])
        for moving, now in ((self.mean, mean), (self.variance, variance)):
          moving.assign(0.9 * moving + 0.1 * now)
        self.num_steps.assign_add(1)
      else:
        mean, variance = self.mean, self.variance
      hidden = tf.nn.batch_normalization(hidden, mean, variance, self.beta, self.gamma, 1e-3)
      return tf.nn.relu(hidden) @ self.head + self.bias

  model = Classifier()
  for training in (False, True):
    model.__call__.get_concrete_function(tf.TensorSpec([None, 4], tf.float32, name="x"), training=training)
  tf.saved_model.save(model, folder)


_WRITERS: dict[str, Callable[[TensorFlow, str], None]] = {
  "dtypes": _write_raw_checkpoint,
  "sharded": _write_sharded_checkpoint,
  "training": _write_object_checkpoint,
  "partitioned_v1": _write_partitioned_v1,
  "partitioned_v2": _write_partitioned_v2,
  "module": _write_module,
  "keras_export": _write_keras_export,
  "tf1_partitioned": _write_tf1_model,
  "tf1_control_flow": _write_tf1_control_flow,
  "text_and_shapes": _write_text_and_shapes,
  "classifier": _write_classifier,
}

if __name__ == "__main__":
  main()
