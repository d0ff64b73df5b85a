"""The SavedModels and checkpoints that benchmarks read, written by TensorFlow in a process of its own.

python -m graftax.tools.benchmarks.models resnet50 FOLDER
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from graftax.tools._tensorflow import TfTensor

__all__ = ["CHECKPOINT_FILE", "FUNCTION_NAME", "INPUT_NAME", "main", "write_model"]

FUNCTION_NAME = "serve"
INPUT_NAME = "x"
CHECKPOINT_FILE = "ckpt"
_SEED = 0
_NUM_NODES = 10_000


def write_model(name: str, folder: Path) -> None:
  """Writes one of the models to a folder, without TensorFlow in this process."""
  arguments = [sys.executable, "-m", "graftax.tools.benchmarks.models", name, str(folder)]
  subprocess.run(arguments, check=True, capture_output=True)


def main() -> None:
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  _, name, folder = sys.argv
  _WRITERS[name](folder)


def _write_resnet50(folder: str) -> None:
  """Writes `keras.applications.ResNet50`, not trained: 25.6 million parameters, input `[n, 224, 224, 3]`."""
  import keras
  import tensorflow as tf

  keras.utils.set_random_seed(_SEED)
  model = keras.applications.ResNet50(weights=None)
  archive = keras.export.ExportArchive()
  archive.track(model)
  archive.add_endpoint(
    FUNCTION_NAME,
    lambda x: {"y": model(x, training=False)},
    input_signature=[tf.TensorSpec([None, 224, 224, 3], tf.float32, name=INPUT_NAME)],
  )
  archive.write_out(folder, verbose=False)


def _write_large_graph(folder: str) -> None:
  """Writes a function of 10,000 elementwise nodes, each reading the two before it, so that all are needed."""
  import tensorflow as tf

  @tf.function(input_signature=[tf.TensorSpec([4], tf.float32, name=INPUT_NAME)])
  def serve(x: TfTensor) -> TfTensor:
    previous, current = x, tf.tanh(x)
    for index in range(_NUM_NODES):
      op = (tf.add, tf.subtract, tf.multiply)[index % 3]
      previous, current = current, op(current, previous)
      if index % 8 == 7:
        current = tf.sin(current)
    return {"y": current}

  module = tf.Module()
  setattr(module, FUNCTION_NAME, serve)
  tf.saved_model.save(module, folder, signatures=serve)


def _write_depthwise(folder: str) -> None:
  """Writes six depthwise convolutions of the shapes in MobileNet, without the pointwise ones between them."""
  import tensorflow as tf

  generator = tf.random.Generator.from_seed(_SEED)
  module = tf.Module()
  module.filters = [tf.Variable(generator.normal([3, 3, 96, 1])) for _ in range(6)]

  @tf.function(input_signature=[tf.TensorSpec([None, 56, 56, 96], tf.float32, name=INPUT_NAME)])
  def serve(x: TfTensor) -> TfTensor:
    for index, filters in enumerate(module.filters):
      stride = 2 if index == 3 else 1
      x = tf.nn.relu(tf.nn.depthwise_conv2d(x, filters, [1, stride, stride, 1], "SAME")) * 0.3
    return {"y": x}

  setattr(module, FUNCTION_NAME, serve)
  tf.saved_model.save(module, folder, signatures=serve)


def _write_checkpoint(folder: str) -> None:
  """Writes 100 variables of 10 kB to 20 MB, 500 MB of float32 in all."""
  import numpy as np
  import tensorflow as tf

  generator = np.random.default_rng(_SEED)
  sizes = np.geomspace(10e3, 20e6, 100)
  num_elements = (sizes * (500e6 / sizes.sum()) / 4).astype(int)
  variables = [tf.Variable(generator.random(size, np.float32)) for size in num_elements]
  tf.train.Checkpoint(variables=variables).write(os.path.join(folder, CHECKPOINT_FILE))


_WRITERS: dict[str, Callable[[str], None]] = {
  "checkpoint": _write_checkpoint,
  "depthwise": _write_depthwise,
  "large_graph": _write_large_graph,
  "resnet50": _write_resnet50,
}

if __name__ == "__main__":
  main()
