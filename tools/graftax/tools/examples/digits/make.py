"""Trains the digits classifier with TensorFlow and writes the SavedModel and the data beside it.

    python -m graftax.tools.examples.digits.make FOLDER

Needs tensorflow, keras and scikit-learn (`pip install 'graftax-tools[tensorflow,benchmarks]'`); takes a minute. A new
run gives a model of the same structure and about the same accuracy, not the same numbers.
"""

import argparse
import os
from pathlib import Path

import numpy as np

from graftax.tools._tensorflow import Keras, KerasModel, TensorFlow, TfTensor

__all__ = ["main", "write_digits"]

_NUM_CLASSES = 10
_NUM_LEVELS = 16
# The rest tests. scikit-learn keeps the data set's own order, writer by writer, so this is harder than a random split.
_NUM_TRAIN = 1437
_SEED = 20261121


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("folder", type=Path, help="folder to write model/ and digits.npz to")
  parser.add_argument("--epochs", type=int, default=15)
  arguments = parser.parse_args()
  print(f"test accuracy {write_digits(arguments.folder, num_epochs=arguments.epochs):.3f}")


def write_digits(folder: Path, *, num_epochs: int) -> float:
  """Writes the model, trained, and returns its accuracy on the test images.

  Args:
    folder: gets `model/` and `digits.npz`.
    num_epochs: passes over the training images.
  """
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  import keras
  import tensorflow as tf
  from sklearn.datasets import load_digits

  # Keras numbers what it names by all that the process has made so far.
  keras.backend.clear_session()
  keras.utils.set_random_seed(_SEED)
  digits = load_digits()
  pixels, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
  images = (pixels.astype(np.float32) / _NUM_LEVELS)[..., None]
  model = _model(keras)
  _train(keras, model, images[:_NUM_TRAIN], labels[:_NUM_TRAIN], num_epochs)
  _export(keras, tf, model, folder / "model")

  logits = (
    tf.saved_model.load(str(folder / "model"))
    .signatures["serving_default"](images=tf.constant(images[_NUM_TRAIN:]))["logits"]
    .numpy()
  )
  np.savez_compressed(
    folder / "digits.npz",
    train_images=pixels[:_NUM_TRAIN],
    train_labels=labels[:_NUM_TRAIN],
    test_images=pixels[_NUM_TRAIN:],
    test_labels=labels[_NUM_TRAIN:],
    tensorflow_logits=logits,
  )
  return float((logits.argmax(-1) == labels[_NUM_TRAIN:]).mean())


def _model(keras: Keras) -> KerasModel:
  layers = keras.layers
  return keras.Sequential(
    [
      keras.Input((8, 8, 1), name="images"),
      layers.Conv2D(16, 3, padding="same", use_bias=False, name="conv1"),
      layers.BatchNormalization(name="norm1"),
      layers.Activation("swish", name="swish1"),
      layers.Conv2D(32, 3, strides=2, padding="same", use_bias=False, name="conv2"),
      layers.BatchNormalization(name="norm2"),
      layers.Activation("swish", name="swish2"),
      layers.MaxPooling2D(2, strides=1, name="pool"),
      layers.Flatten(name="flatten"),
      layers.Dropout(0.3, name="dropout"),
      layers.Dense(64, activation="swish", name="dense"),
      layers.Dense(_NUM_CLASSES, name="head"),
    ],
    name="digits",
  )


def _train(keras: Keras, model: KerasModel, images: np.ndarray, labels: np.ndarray, num_epochs: int) -> None:
  model.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
  shifts = [_shifted(images, rows, columns) for rows, columns in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))]
  model.fit(np.concatenate(shifts), np.tile(labels, len(shifts)), batch_size=128, epochs=num_epochs, verbose=0)


def _shifted(images: np.ndarray, rows: int, columns: int) -> np.ndarray:
  """Returns `[n, 8, 8, 1]` images moved down and right by at most one pixel."""
  padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
  return padded[:, 1 - rows : 9 - rows, 1 - columns : 9 - columns]


def _export(keras: Keras, tf: TensorFlow, model: KerasModel, folder: Path) -> None:
  def serve(images: TfTensor) -> dict[str, TfTensor]:
    logits = model(images, training=False)
    return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

  archive = keras.export.ExportArchive()
  archive.track(model)
  archive.add_endpoint("serve", serve, input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32, name="images")])
  archive.write_out(str(folder), options=tf.saved_model.SaveOptions(save_debug_info=False), verbose=False)


if __name__ == "__main__":
  main()
