"""Runs a SavedModel over a data set with Ray Data; needs `pip install "ray[data]"`."""

import sys
import tempfile

import jax
import numpy as np
import ray

from graftax.savedmodel_io import load
from graftax.tools.examples.digits import load_digits, model_path

BATCH_SIZE = 64


class Predictor:
  """Loads a SavedModel once in each actor, and runs it on batches of one size."""

  def __init__(self, path, signature):
    fn, params = load(path).convert(signature)
    params = jax.device_put(params)
    self._predict = jax.jit(lambda images: fn(params, images=images)[0]["probabilities"])

  def __call__(self, batch):
    # Padding keeps the shape, so that jit compiles once and not again for the last batch.
    images = np.zeros((BATCH_SIZE, *batch["image"].shape[1:]), np.float32)
    images[: len(batch["image"])] = batch["image"]
    found = np.asarray(self._predict(images))[: len(batch["image"])]
    return {"label": batch["label"], "digit": found.argmax(-1)}


def main(folder):
  data = load_digits()
  examples = zip(data.test_images, data.test_labels, strict=True)
  rows = ray.data.from_items([{"image": image, "label": int(label)} for image, label in examples])
  predicted = rows.map_batches(
    Predictor,
    fn_constructor_args=(str(model_path()), "serving_default"),
    batch_size=BATCH_SIZE,
    batch_format="numpy",
    compute=ray.data.ActorPoolStrategy(size=1),  # on a cluster: actors, each with num_gpus=1
  )
  predicted.write_parquet(f"{folder}/digits")
  found = ray.data.read_parquet(f"{folder}/digits").to_pandas()
  return found["digit"].to_numpy(), found["label"].to_numpy()


if __name__ == "__main__":
  digits, labels = main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
  print(f"{len(digits)} images, accuracy {np.mean(digits == labels):.1%}")
