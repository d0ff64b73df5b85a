"""Fine-tunes a SavedModel as a layer of Keras on JAX, and keeps its weights as Keras does."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import sys
import tempfile
from pathlib import Path

import jax
import keras
import numpy as np

from graftax.convert.modules import keras_layer
from graftax.savedmodel_io import load

_CLASSIFIER = Path(__file__).parents[3] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_23/classifier"


def _model(path):
  model, x = load(path), jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), np.float32)
  train, params = model.convert("__call__", x, training=True)
  evaluate, eval_params = model.convert("__call__", x, training=False)
  layer = keras_layer(train, {**eval_params, **params}, evaluate, name="classifier")
  return keras.Sequential([keras.Input((4,)), layer])


def main(path, folder):
  x = np.asarray(jax.random.normal(jax.random.key(0), (256, 4)) + 1)
  labels = np.argmax(x[:, :3], axis=1)
  model = _model(path)
  loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  model.compile(keras.optimizers.Adam(1e-2), loss)
  # Keras annotates `verbose` as str.
  losses = model.fit(x, labels, batch_size=64, epochs=25, verbose=0).history["loss"]  # pyright: ignore[reportArgumentType]

  model.save_weights(f"{folder}/model.weights.h5")
  restored = _model(path)
  restored.load_weights(f"{folder}/model.weights.h5")
  load(path).save(f"{folder}/tuned", model.get_layer("classifier"), cast=True)
  statistics = {weight.name: weight.numpy() for weight in restored.non_trainable_weights}
  return losses, statistics, model.predict_on_batch(x), restored.predict_on_batch(x)


if __name__ == "__main__":
  folder = tempfile.mkdtemp()
  losses, statistics, _, _ = main(sys.argv[1] if len(sys.argv) > 1 else _CLASSIFIER, folder)
  print(losses[0], losses[-1], statistics, f"SavedModel: {folder}/tuned", sep="\n")
