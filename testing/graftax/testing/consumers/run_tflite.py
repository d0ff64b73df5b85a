"""Converts SavedModels for TFLite and runs them in its interpreter, with built-in ops only. Runs alone.

python run_tflite.py FOLDER...
"""

from collections.abc import Mapping

import numpy as np


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
  import tensorflow as tf

  del folder
  converter = tf.lite.TFLiteConverter.from_saved_model(path)
  interpreter = tf.lite.Interpreter(model_content=converter.convert())
  runner = interpreter.get_signature_runner("serving_default")
  # The numbers of a random model are its variables, which are not inputs.
  return runner(**{name: x for name, x in inputs.items() if name in runner.get_input_details()})


if __name__ == "__main__":
  from _results import main

  main(run)
