"""Writes the networks with Keras: `python -m graftax.tools.benchmarks.networks.written FOLDER [NAME ...]`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from graftax.tools._tensorflow import KerasModel

__all__ = ["FUNCTION_NAME", "INPUT_NAME", "NETWORKS", "lstm", "main", "write"]

FUNCTION_NAME = "serve"
INPUT_NAME = "x"


def main() -> None:
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  os.environ["KERAS_BACKEND"] = "tensorflow"
  _, folder, *names = sys.argv
  for name in names or NETWORKS:
    write(NETWORKS[name](), Path(folder) / name)


def write(model: KerasModel, folder: Path) -> None:
  """Writes a model in inference mode, with zeros as weights."""
  import keras
  import tensorflow as tf

  for variable in model.variables:
    if "seed_generator" not in variable.path:
      variable.assign(tf.zeros_like(variable))
  archive = keras.export.ExportArchive()
  archive.track(model)
  (given,) = model.inputs
  spec = tf.TensorSpec([None, *given.shape[1:]], given.dtype, name=INPUT_NAME)
  archive.add_endpoint(FUNCTION_NAME, lambda x: {"y": model(x, training=False)}, input_signature=[spec])
  archive.write_out(str(folder), verbose=False)


def _mlp() -> KerasModel:
  """Three dense layers of 4,096: 50 million parameters, input `[n, 4096]`."""
  import keras

  x = keras.Input([4096])
  y = keras.layers.Dense(4096, activation="relu", name="dense_0")(x)
  y = keras.layers.Dense(4096, activation="relu", name="dense_1")(y)
  return keras.Model(x, keras.layers.Dense(4096, name="dense_2")(y))


def _resnet50() -> KerasModel:
  """`keras.applications.ResNet50`: 25.6 million parameters, input `[n, 224, 224, 3]`."""
  import keras

  return keras.applications.ResNet50(weights=None)


def _mobilenet_v2() -> KerasModel:
  """`keras.applications.MobileNetV2`: 3.5 million parameters, input `[n, 224, 224, 3]`."""
  import keras

  return keras.applications.MobileNetV2(weights=None)


def _transformer() -> KerasModel:
  """An encoder like BERT base without its embeddings: 12 layers, width 768, 12 heads; input `[n, 512, 768]`."""
  import keras

  layers = keras.layers
  x = y = keras.Input([512, 768])
  for i in range(12):
    attended = layers.MultiHeadAttention(12, 64, name=f"attention_{i}")(y, y)
    y = layers.LayerNormalization(epsilon=1e-6, name=f"norm_{i}a")(y + attended)
    wide = layers.Dense(3072, activation=keras.activations.gelu, name=f"wide_{i}")(y)
    y = layers.LayerNormalization(epsilon=1e-6, name=f"norm_{i}b")(y + layers.Dense(768, name=f"narrow_{i}")(wide))
  return keras.Model(x, y)


def lstm(width: int = 1024, steps: int = 128, features: int = 512) -> KerasModel:
  """Two LSTM layers; input `[n, steps, features]`."""
  import keras

  x = keras.Input([steps, features])
  y = keras.layers.LSTM(width, return_sequences=True, name="lstm_0")(x)
  return keras.Model(x, keras.layers.LSTM(width, name="lstm_1")(y))


NETWORKS: dict[str, Callable[[], KerasModel]] = {
  "mlp": _mlp,
  "resnet50": _resnet50,
  "mobilenet_v2": _mobilenet_v2,
  "transformer": _transformer,
  "lstm": lstm,
}

if __name__ == "__main__":
  main()
