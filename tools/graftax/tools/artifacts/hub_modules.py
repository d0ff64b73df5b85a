"""Writes the small hub modules that the tests of hub_io read, and what they compute.

    pip install --no-deps --target OLD_HUB tensorflow_hub==0.15.0
    python -m graftax.tools.artifacts.hub_modules hub_io/graftax/hub_io/testdata/2026_11_22 --tensorflow-hub OLD_HUB

Version 0.15 is the last one that exports modules of TF1. A new run goes to a new dated folder beside the old ones.
Beside each module `<name>.npz` holds inputs and outputs: what tensorflow_hub itself computes, by variant and signature.
"""

import argparse
import os
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graftax.tools._tensorflow import TensorFlow, TfTensor

__all__ = ["main"]

_X = np.array([[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 0.0, 2.0], [-2.0, 0.0, 1.0, 1.0]], np.float32)
_EPSILON = 0.001
# Variants of the TF1 module, by the names of their outputs.
_VARIANTS: Mapping[str, tuple[set[str], dict[str, bool]]] = {
  "none": (set(), {"training": False, "fused": False}),
  "train": ({"train"}, {"training": True, "fused": False}),
  "train_fused": ({"train", "batch_norm_fused"}, {"training": True, "fused": True}),
}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("folder", type=Path, help="new folder to write to")
  parser.add_argument("--tensorflow-hub", required=True, help="folder with tensorflow_hub 0.15")
  arguments = parser.parse_args()
  # Its generated protobuf code is older than the C++ implementation accepts.
  os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
  sys.path.insert(0, arguments.tensorflow_hub)
  # It exports estimators, which TensorFlow no longer has.
  estimator: Any = types.ModuleType("tensorflow_hub.estimator")
  estimator.register_module_for_export = estimator.LatestModuleExporter = None
  sys.modules[estimator.__name__] = estimator
  import tensorflow as tf
  import tensorflow_hub as hub

  arguments.folder.mkdir(parents=True)
  _write_tf1_module(tf.compat.v1, hub, arguments.folder / "tf1_module")
  _write_tf2_module(tf, arguments.folder / "tf2_module")


def _write_tf1_module(tf1: TensorFlow, hub: Any, folder: Path) -> None:
  """A dense layer, in pieces, and batch normalization in three variants; a second signature that reads an asset."""
  with tempfile.TemporaryDirectory() as scratch:
    vocabulary = Path(scratch, "colors.txt")
    vocabulary.write_text("red\ngreen\nblue\n")

    def module(training: bool, fused: bool) -> None:
      x = tf1.placeholder(tf1.float32, [None, 4], name="x")
      hidden = _dense(tf1, x)
      hub.add_signature(inputs=x, outputs=_normalized(tf1, hidden, training=training, fused=fused))
      hub.add_signature("hidden", inputs={"x": x}, outputs={"hidden": hidden, "sum": tf1.reduce_sum(hidden)})
      words = tf1.placeholder(tf1.string, [None], name="words")
      lines = tf1.lookup.TextFileInitializer(
        str(vocabulary),
        tf1.string,
        tf1.lookup.TextFileIndex.WHOLE_LINE,
        tf1.int64,
        tf1.lookup.TextFileIndex.LINE_NUMBER,
      )
      hub.add_signature("words", {"words": words}, {"ids": tf1.lookup.StaticHashTable(lines, -1).lookup(words)})

    spec = hub.create_module_spec(module, tags_and_args=list(_VARIANTS.values()))
    with tf1.Graph().as_default(), tf1.Session() as session:
      exported = hub.Module(spec, trainable=True)
      session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
      exported.export(str(folder), session)
  outputs: dict[str, TfTensor] = {}
  for name, (tags, _) in _VARIANTS.items():
    with tf1.Graph().as_default(), tf1.Session() as session:
      loaded = hub.Module(str(folder), tags=tags, trainable=True)
      results = {"default": loaded(_X), "hidden": loaded({"x": _X}, signature="hidden", as_dict=True)["hidden"]}
      session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
      outputs |= {f"{name}.{key}": value for key, value in session.run(results).items()}
  _save(folder, outputs)


def _dense(tf1: TensorFlow, x: TfTensor) -> TfTensor:
  values = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
  pieces = tf1.fixed_size_partitioner(2)

  def initial(shape: Any, dtype: Any, partition_info: Any) -> TfTensor:
    begin = partition_info.var_offset[0]
    return tf1.constant(values[begin : begin + int(shape[0])], dtype)

  kernel = tf1.get_variable("dense/kernel", [4, 3], tf1.float32, initial, partitioner=pieces, use_resource=False)
  bias = tf1.get_variable("dense/bias", initializer=[1.0, 2.0, 3.0], use_resource=True)
  return tf1.matmul(x, tf1.convert_to_tensor(kernel)) + bias


def _normalized(tf1: TensorFlow, x: TfTensor, *, training: bool, fused: bool) -> TfTensor:
  scale = tf1.get_variable("norm/gamma", initializer=[1.0, 2.0, 0.5])
  offset = tf1.get_variable("norm/beta", initializer=[0.0, 1.0, -1.0])
  mean = tf1.get_variable("norm/moving_mean", initializer=[0.5, 1.0, 1.5], trainable=False)
  variance = tf1.get_variable("norm/moving_variance", initializer=[1.0, 4.0, 0.25], trainable=False)
  if not training:
    return tf1.nn.batch_normalization(x, mean, variance, offset, scale, _EPSILON)
  if fused:
    images = tf1.reshape(x, [-1, 1, 1, 3])
    y, batch_mean, batch_variance = tf1.nn.fused_batch_norm(images, scale, offset, epsilon=_EPSILON)
    y = tf1.reshape(y, [-1, 3])
  else:
    batch_mean, batch_variance = tf1.nn.moments(x, [0])
    y = tf1.nn.batch_normalization(x, batch_mean, batch_variance, offset, scale, _EPSILON)
  for old, new in ((mean, batch_mean), (variance, batch_variance)):
    tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, tf1.assign(old, 0.9 * old + 0.1 * new))
  return y


def _write_tf2_module(tf: TensorFlow, folder: Path) -> None:
  """A reusable SavedModel: called with and without `training`, with trainable variables and a regularization loss."""

  class Module(tf.Module):
    def __init__(self) -> None:
      super().__init__()
      self.kernel = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2) / 4, name="kernel")
      self.mean = tf.Variable([1.0, 2.0], trainable=False, name="mean")
      self.regularization_losses = [self.loss]

    @tf.function(input_signature=[])
    def loss(self) -> TfTensor:
      return tf.nn.l2_loss(self.kernel)

    @tf.function
    def __call__(self, x: TfTensor, training: bool = False) -> TfTensor:
      y = x @ self.kernel
      if training:
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(y, 0))
      return y - self.mean

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def serve(self, x: TfTensor) -> TfTensor:
      return {"y": self(x)}

  module = Module()
  for training in (False, True):
    module.__call__.get_concrete_function(tf.TensorSpec([None, 4], tf.float32, name="x"), training=training)
  tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
  loaded = tf.saved_model.load(str(folder))
  outputs = {"serving_default": loaded.signatures["serving_default"](x=_X)["y"], "call": loaded(_X)}
  outputs |= {"training": loaded(_X, training=True), "mean_after_training": loaded.mean}
  _save(folder, {key: np.asarray(value) for key, value in outputs.items()})


def _save(folder: Path, outputs: dict[str, TfTensor]) -> None:
  np.savez(folder.with_suffix(".npz"), **{"x": _X, **outputs})


if __name__ == "__main__":
  main()
