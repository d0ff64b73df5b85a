"""Runs a SavedModel over a data set with Apache Beam's RunInference; needs `pip install apache-beam`."""

import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import apache_beam as beam
import jax
import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

from graftax.savedmodel_io import load
from graftax.tools.examples.digits import load_digits, model_path

BATCH_SIZE = 64


class SavedModelHandler(ModelHandler[np.ndarray, PredictionResult, Callable]):
  """Loads a SavedModel once in each worker process, and runs it on batches of one size."""

  def __init__(self, path: str, signature: str):
    super().__init__(min_batch_size=8, max_batch_size=BATCH_SIZE)
    self._path, self._signature = path, signature

  def load_model(self) -> Callable:
    fn, params = load(self._path).convert(self._signature)
    params = jax.device_put(params)
    return jax.jit(lambda images: fn(params, images=images)[0]["probabilities"])

  def run_inference(self, batch: Sequence[np.ndarray], model: Callable, inference_args=None) -> Iterable:
    # Padding keeps the shape, so that jit compiles once and not for each size that Beam chooses.
    images = np.zeros((BATCH_SIZE, *batch[0].shape), batch[0].dtype)
    images[: len(batch)] = batch
    return map(PredictionResult, batch, np.asarray(model(images)))


def main(folder):
  data = load_digits()
  images, labels = data.test_images, data.test_labels
  with beam.Pipeline() as pipeline:
    predictions = (
      pipeline | beam.Create(list(images)) | RunInference(SavedModelHandler(str(model_path()), "serving_default"))
    )
    lines = predictions | beam.Map(lambda r: f"{r.example.tobytes().hex()} {r.inference.argmax()}")
    lines | beam.io.WriteToText(f"{folder}/digits")
  found = dict(line.split() for path in Path(folder).glob("digits*") for line in path.read_text().splitlines())
  return np.array([int(found[image.tobytes().hex()]) for image in images]), labels


if __name__ == "__main__":
  digits, labels = main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
  print(f"{len(digits)} images, accuracy {np.mean(digits == labels):.1%}")
