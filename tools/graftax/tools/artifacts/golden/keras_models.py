"""Models and files of weights that Keras writes: its version 2 with TensorFlow up to 2.15, then version 3."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from graftax.tools.artifacts.golden.recorder import Recorder, TensorFlow, floats, integers

__all__ = ["WRITERS"]


def _is_tf1(tf: TensorFlow) -> bool:
  return tf.__version__.startswith("1.")


def _keras(tf: TensorFlow) -> Any:
  if _is_tf1(tf):
    return tf.keras
  import keras

  return keras


def _is_keras3(keras: Any) -> bool:
  return int(getattr(keras, "__version__", "2").split("-")[0].split(".")[0]) >= 3


def _with_values(model: Any) -> Any:
  """Gives all weights values of their own, positive ones, since some are variances."""
  weights = []
  for i, weight in enumerate(model.get_weights()):
    weights.append(((np.arange(weight.size) * 7 + i) % 11 + 1).reshape(weight.shape).astype(np.float32) / 16)
  model.set_weights(weights)
  return model


def _images(keras: Any) -> Any:
  layers = keras.layers
  stack = [
    layers.Conv2D(2, 3, name="conv", input_shape=(6, 6, 1))
    if not _is_keras3(keras)
    else layers.Conv2D(2, 3, name="conv"),
    layers.BatchNormalization(name="norm"),
    layers.ReLU(name="relu"),
    layers.DepthwiseConv2D(2, name="depthwise"),
    layers.MaxPooling2D(2, name="pool"),
    layers.Flatten(name="flat"),
    layers.Dense(3, activation="softmax", name="head"),
  ]
  if _is_keras3(keras):
    stack.insert(0, keras.Input((6, 6, 1), name="images"))
  return _with_values(keras.Sequential(stack, name="images_model"))


_IMAGES = np.linspace(-1, 1, 72).astype(np.float32).reshape(2, 6, 6, 1)
_TOKENS = np.linspace(-1, 1, 40).astype(np.float32).reshape(2, 5, 4)


def _sequences(keras: Any) -> Any:
  layers = keras.layers
  tokens = keras.Input((5, 4), name="tokens")
  x = layers.LSTM(3, return_sequences=True, name="encoder")(tokens)
  x = layers.Bidirectional(layers.GRU(2), name="both")(x)
  inner = keras.Sequential(
    [layers.Dense(3, activation="tanh", name="first"), layers.Dense(2, name="second")], name="mlp"
  )
  return _with_values(keras.Model(tokens, inner(x), name="sequences_model"))


def _attention(keras: Any) -> Any:
  layers = keras.layers
  tokens = keras.Input((5, 4), name="tokens")
  x = layers.MultiHeadAttention(2, 3, name="attention")(tokens, tokens)
  x = layers.LayerNormalization(name="norm")(x + tokens)
  x = layers.GlobalAveragePooling1D(name="average")(x)
  return _with_values(keras.Model(tokens, layers.Dense(2, name="head")(x), name="attention_model"))


def _embedding(keras: Any) -> Any:
  layers = keras.layers
  ids = keras.Input((3,), dtype="int32", name="ids")
  scale = keras.Input((1,), name="scale")
  x = layers.Flatten(name="flat")(layers.Embedding(6, 2, name="table")(ids))
  return _with_values(keras.Model([ids, scale], layers.Multiply(name="product")([x, scale]), name="embedding_model"))


_MODELS: dict[str, Any] = {
  "images": (_images, [_IMAGES]),
  "sequences": (_sequences, [_TOKENS]),
  "attention": (_attention, [_TOKENS]),
  "embedding": (_embedding, [integers([[0, 1, 5], [2, 3, 4]], np.int32), floats([[0.5], [-2.0]])]),
}


_SUFFIXES = {
  "weights": ".weights.h5",
  "sharded": ".weights.json",
  "h5": ".h5",
  "keras": ".keras",
  "old": "_old.h5",
}
_SHARD_GIGABYTES = 150.0 / (1 << 30)  # less than half of the weights of the images model


def _export(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A SavedModel: `export` if Keras has it, else `save`."""
  keras = _keras(tf)
  make, inputs = _MODELS[name.split("_")[1]]
  if _is_tf1(tf) or (name.startswith("keras_sequences") and not _is_keras3(keras)):
    raise NotImplementedError("large, or not called as later versions")
  keras.backend.clear_session()
  model = make(keras)
  expected = np.asarray(model(inputs[0] if len(inputs) == 1 else inputs))
  if name.endswith("_saved"):
    model.save(recorder.path(name), save_format="tf")
    recorder.model(name, inputs, expected, structure="signature")
    return
  options = {"verbose": False} if "verbose" in inspect.signature(model.export).parameters else {}
  model.export(recorder.path(name), **options)
  recorder.model(name, inputs, expected, structure="signature")


def _weights(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A file of weights, with the values by the names of the variables."""
  keras = _keras(tf)
  keras.backend.clear_session()
  model = _MODELS[name.split("_")[1]][0](keras)
  suffix = _SUFFIXES[name.split("_")[2]]
  file = recorder.path(name + suffix)
  if suffix == ".weights.json":
    model.save_weights(file, max_shard_size=_SHARD_GIGABYTES)
  else:
    model.save_weights(file) if suffix in (".weights.h5", "_old.h5") else model.save(file)
  how = "exact" if suffix in (".h5", "_old.h5") else "by value"
  names = [weight.path if _is_keras3(keras) else weight.name for weight in model.weights]
  names = [item[:-2] if item.endswith(":0") else item for item in names]
  recorder.weights(name, dict(zip(names, model.get_weights())), file=name + suffix, names=how)  # noqa: B905  Python 3.7


WRITERS = {
  "keras_images_exported": _export,
  "keras_sequences_exported": _export,
  "keras_attention_exported": _export,
  "keras_embedding_exported": _export,
  "keras_images_saved": _export,
  "keras_images_weights": _weights,
  "keras_images_sharded": _weights,
  "keras_images_h5": _weights,
  "keras_images_keras": _weights,
  "keras_images_old": _weights,
  "keras_sequences_weights": _weights,
  "keras_sequences_h5": _weights,
  "keras_sequences_keras": _weights,
  "keras_attention_keras": _weights,
}
