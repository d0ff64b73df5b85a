"""Runs SavedModels in TensorFlow. Runs alone.

python run_tensorflow.py FOLDER...
"""

from collections.abc import Mapping

import numpy as np


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
  import tensorflow as tf

  del folder
  signature = tf.saved_model.load(path).signatures["serving_default"]
  wanted = signature.structured_input_signature[1]
  found = signature(**{name: tf.constant(x) for name, x in inputs.items() if name in wanted})
  return {name: value.numpy() for name, value in found.items()}


if __name__ == "__main__":
  from _results import main

  main(run)
